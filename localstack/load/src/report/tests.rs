use super::*;
use crate::failure::Failure;

fn record(milliseconds: u64, outcome: Outcome) -> Record {
    Record {
        client: 0,
        mode: Mode::New,
        phase: 0,
        intended_us: 1_000 - milliseconds,
        late: Duration::ZERO,
        duration: Duration::from_millis(milliseconds),
        node: Some([127, 0, 0, 1].into()),
        local_port: Some(40_000),
        pod: (outcome != Outcome::Lost).then(|| "web-0".into()),
        outcome,
        failure: (outcome == Outcome::Lost).then_some(Failure::Status(503)),
    }
}

fn report(records: Vec<Record>) -> Report {
    let target = crate::Target::Address([127, 0, 0, 1].into());
    let plan = Plan::new(target, 80, 1.0);
    let clients = [Client::new(&plan, crate::Client::default(), 0)];
    let mut ledger = Ledger::new(1);
    for record in records {
        ledger.offer(0, 0);
        ledger.settle(record);
    }
    Report::new(&plan, ledger, vec!["run".into()], &clients)
}

#[test]
fn percentiles_are_those_of_right_answers() {
    let mut records: Vec<Record> = (1..=100).map(|ms| record(ms, Outcome::Ok)).collect();
    records.push(record(900, Outcome::Lost));
    let latency = report(records).latency();
    let expected = Latency { p50_us: 50_000, p90_us: 90_000, p99_us: 99_000, max_us: 100_000 };
    assert_eq!(latency, expected);
    assert_eq!(report(vec![]).latency(), Latency::default());
    assert_eq!(report(vec![record(7, Outcome::Retried)]).latency().p50_us, 7_000);
}

#[test]
fn records_are_written_one_per_line_by_intended_start() {
    let report = report(vec![record(1, Outcome::Ok), record(2, Outcome::Lost)]);
    let mut bytes = Vec::new();
    report.write_records(&mut bytes).unwrap();
    let lines: Vec<serde_json::Value> =
        String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lost = json!({
        "client": 0, "kind": "following", "mode": "new", "phase": "run", "intended_us": 998, "late_us": 0,
        "duration_us": 2000, "node": "127.0.0.1", "local_port": 40_000, "pod": null, "outcome": "lost",
        "detail": "status 503"
    });
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0], lost);
    assert_eq!((&lines[1]["outcome"], &lines[1]["pod"]), (&json!("ok"), &json!("web-0")));
}

#[test]
fn the_table_tells_losses_and_why() {
    let mut report = report(vec![record(1, Outcome::Ok), record(2, Outcome::Lost)]);
    let table = report.to_string();
    assert!(table.contains("lost 1: status 503\n"), "{table}");
    assert!(!table.contains("did not keep up"), "{table}");
    report.counts.behind = 3;
    let table = report.to_string();
    assert!(table.contains("3 requests started more than 50 ms late"), "{table}");
}

//! Tests of phases, by intended start.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use localstack_load::{Plan, Run};

use crate::plans;
use crate::server::{Act, Server};
use crate::wait::until;

fn now_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

#[tokio::test]
async fn every_request_belongs_to_the_phase_of_its_time() {
    let server = Server::acting(vec![]).await;
    let run = Run::start(plans::endless(&server)).unwrap();
    let mut marks = Vec::new();
    for label in ["rollout", "after", "end"] {
        let offered = run.counts().offered;
        until("requests have been offered", || run.counts().offered >= offered + 20).await;
        let before = now_us();
        run.mark(label);
        marks.push((before, now_us()));
    }
    let report = run.stop().await.unwrap();
    let labels: Vec<_> = report.phases.iter().map(|phase| phase.label.as_str()).collect();
    assert_eq!(labels, ["run", "rollout", "after", "end"]);
    let sum: u64 = report.phases.iter().map(|phase| phase.counts.offered).sum();
    assert_eq!(sum, report.counts.offered);
    for record in &report.records {
        let begun = record.phase.checked_sub(1).map_or(0, |mark| marks[mark].0);
        let over = marks.get(record.phase).map_or(u64::MAX, |mark| mark.1);
        // Fractions of a microsecond are truncated.
        assert!(record.intended_us + 1 >= begun && record.intended_us <= over, "{record:?} {marks:?}");
    }
    assert!(report.phases[..3].iter().all(|phase| phase.counts.offered > 0), "{report}");
    assert_eq!(report.phase("rollout").unwrap().lost, 0);
    assert_eq!(report.phase("other"), None);
}

#[tokio::test]
async fn a_loss_is_counted_in_the_phase_in_which_its_request_began() {
    let server = Server::start(|seen| if seen.index < 3 { Act::Hang } else { Act::Right }).await;
    let timeout = Duration::from_secs(2);
    let run = Run::start(Plan { timeout, ..plans::endless(&server) }).unwrap();
    until("the hanging requests have begun", || server.requests() >= 3).await;
    run.mark("after");
    until("they are lost", || run.counts().lost == 3).await;
    let report = run.stop().await.unwrap();
    assert_eq!(report.phase("run").unwrap().lost, 3);
    assert_eq!(report.phase("after").unwrap().lost, 0);
}

/// On one thread, so that blocking it stops the generator.
#[tokio::test(flavor = "current_thread")]
async fn a_late_request_belongs_to_the_phase_in_which_it_was_intended() {
    let server = Server::acting(vec![]).await;
    let run = Run::start(plans::endless(&server)).unwrap();
    until("it has begun", || run.counts().ok > 0).await;
    let offered = run.counts().offered;
    std::thread::sleep(Duration::from_millis(200));
    let before = now_us();
    run.mark("after");
    let after = now_us();
    assert_eq!(run.counts().offered, offered, "nothing could start meanwhile");
    until("the next phase", || run.counts().offered >= offered + 40).await;
    let report = run.stop().await.unwrap();
    for record in &report.records {
        match record.phase {
            0 => assert!(record.intended_us <= after),
            _ => assert!(record.intended_us + 1 >= before),
        }
    }
    assert!(report.phase("run").unwrap().offered >= offered + 19, "{report}");
}

//! The short form of `make bench`: every measure works and says what it measured. Nothing about the figures.

use headgate_bench::{MEASURES, Size, measure, report};
use headgate_harness::shared_world::alone;
use serde_json::Value;

#[test]
fn every_measure_of_the_bench_gives_its_rows() {
    alone(|world| async move {
        let mut rows = Vec::new();
        for name in MEASURES {
            let measured = measure(name, world.facts(), &Size::quick()).await;
            assert!(!measured.is_empty(), "{name}");
            rows.extend(measured);
        }
        let path = world.facts().folder.join("bench").join("report.json");
        report::write(&rows, &path).unwrap();
        let written: Vec<Value> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(written.len(), rows.len());
        for row in &written {
            let fields: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
            for field in ["measure", "unit", "headgate", "floor", "ratio", "runs"] {
                assert!(fields.contains(&field), "{row}");
            }
        }
        let has = |part: &str, both: bool| {
            let of = |row: &&Value| row["measure"].as_str().unwrap().contains(part);
            let row = written.iter().find(of).unwrap_or_else(|| panic!("no row {part}"));
            assert!(row["headgate"].is_number() && (!both || row["floor"].is_number()), "{row}");
        };
        for part in [
            "pod IP → RegisterTargets",
            "deletion → DeregisterTargets",
            "ten groups",
            "of another group refused",
            "a new pod with the webhook's answer, p99",
            "at 0 pods",
            "processor",
        ] {
            has(part, true);
        }
        has("after the earliest possible", false);
        has("readiness gate open", false);
        has("Describe calls in the busiest second", false);
        has("needless calls", true);
    });
}

//! Tests that the rate is constant for any result of the requests, and that the generator reports its own delays.

use std::time::Duration;

use localstack_load::{Client, Plan, Run, RunError};

use crate::plans;
use crate::server::{Act, Server};
use crate::wait::until;

#[tokio::test]
async fn as_many_requests_are_offered_as_the_rate_times_the_duration() {
    let server = Server::acting(vec![]).await;
    for (rate, milliseconds, expected) in [(100.0, 500, 50), (333.0, 300, 100), (3.0, 500, 2), (0.5, 100, 1)]
    {
        let duration = Some(Duration::from_millis(milliseconds));
        let run = Run::start(Plan { rate, duration, ..plans::endless(&server) }).unwrap();
        run.finished().await;
        let counts = run.stop().await.unwrap().counts;
        assert_eq!((counts.offered, counts.ok), (expected, expected), "{rate} per second");
    }
}

#[tokio::test]
async fn slow_answers_do_not_slow_the_requests() {
    // No answer comes before the last request was sent: a closed loop would never reach it.
    let server = Server::acting(vec![Act::Held; 60]).await;
    let clients = vec![Client::default(), Client::keep_alive()];
    let run =
        Run::start(Plan { clients, timeout: Duration::from_secs(60), ..plans::to(&server, 60) }).unwrap();
    until("all requests are there", || server.requests() == 60).await;
    assert_eq!((run.counts().offered, run.counts().in_flight()), (60, 60));
    server.release();
    let report = run.stop().await.unwrap();
    assert_eq!((report.counts.ok, report.counts.lost), (60, 0));
    assert_eq!(report.clients.iter().map(|client| client.counts.offered).collect::<Vec<_>>(), [30, 30]);
}

#[tokio::test]
async fn intended_starts_are_evenly_spaced() {
    let server = Server::acting(vec![]).await;
    let run = Run::start(plans::to(&server, 50)).unwrap();
    run.finished().await;
    let report = run.stop().await.unwrap();
    for (index, record) in report.records.iter().enumerate() {
        let offset = record.intended_us - report.records[0].intended_us;
        assert_eq!(offset, 10_000 * index as u64);
    }
}

/// On one thread, so that blocking it stops the generator.
#[tokio::test(flavor = "current_thread")]
async fn a_generator_that_is_late_says_so_and_measures_from_the_intended_start() {
    let server = Server::acting(vec![]).await;
    let tolerance = Duration::from_millis(100);
    let run = Run::start(Plan { tolerance, ..plans::endless(&server) }).unwrap();
    until("it has begun", || run.counts().ok > 0).await;
    let offered = run.counts().offered;
    std::thread::sleep(Duration::from_millis(300));
    until("it has gone on", || run.counts().ok >= offered + 40).await;
    let report = run.stop().await.unwrap();
    assert_eq!(report.counts.ok, report.counts.offered, "late is not lost");
    assert!(report.records.windows(2).all(|pair| pair[1].intended_us == pair[0].intended_us + 10_000));
    let late: Vec<_> = report.records.iter().filter(|record| record.late > tolerance).collect();
    assert!(late.len() >= 15, "{} requests were intended in the first 200 ms of the pause", late.len());
    assert_eq!(report.counts.behind, late.len() as u64);
    assert!(late.iter().all(|record| record.duration >= record.late));
    assert!(report.to_string().contains("the generator did not keep up"), "{report}");
}

/// On one thread, so that blocking it stops the generator.
#[tokio::test(flavor = "current_thread")]
async fn a_run_stopped_while_it_is_late_still_starts_what_was_due() {
    let server = Server::acting(vec![]).await;
    let run = Run::start(plans::endless(&server)).unwrap();
    until("it has begun", || run.counts().ok > 0).await;
    let offered = run.counts().offered;
    std::thread::sleep(Duration::from_millis(200));
    let counts = run.stop().await.unwrap().counts;
    assert!(counts.offered >= offered + 19, "{} were due in 200 ms", counts.offered - offered);
    assert_eq!(counts.ok, counts.offered);
}

#[tokio::test]
async fn a_stopped_run_waits_for_the_requests_in_flight() {
    let server = Server::start(|_| Act::Held).await;
    let run = Run::start(plans::endless(&server)).unwrap();
    until("some requests are in flight", || server.requests() >= 5).await;
    let mut stopping = std::pin::pin!(run.stop());
    tokio::select! {
        biased;
        _ = &mut stopping => panic!("it does not wait"),
        () = std::future::ready(()) => {}
    }
    server.release();
    let report = stopping.await.unwrap();
    assert_eq!(report.counts.ok, report.counts.offered);
    assert_eq!(report.counts.offered, server.requests() as u64);
    assert_eq!(report.counts.offered, report.records.len() as u64);
}

#[tokio::test]
async fn a_stopped_run_gives_requests_in_flight_no_more_than_their_time_out() {
    let server = Server::start(|_| Act::Hang).await;
    let timeout = Duration::from_secs(1);
    let run = Run::start(Plan { timeout, ..plans::endless(&server) }).unwrap();
    until("some requests are in flight", || server.requests() >= 3).await;
    let report = run.stop().await.unwrap();
    assert_eq!(report.counts.lost, report.counts.offered);
    assert!(report.counts.offered >= 3);
}

#[tokio::test]
async fn a_run_that_uses_up_its_records_says_so_and_drops_none() {
    let server = Server::acting(vec![]).await;
    let run = Run::start(Plan { max_records: 10, ..plans::endless(&server) }).unwrap();
    run.finished().await;
    let error = run.stop().await.unwrap_err();
    assert!(error.to_string().starts_with("all 10 records that the plan allows were used up"), "{error}");
    let RunError::TooManyRecords { limit: 10, report } = error else { panic!("{error}") };
    assert_eq!((report.counts.offered, report.records.len()), (10, 10));
    assert_eq!(server.requests(), 10);
}

#[tokio::test]
async fn a_run_that_was_planned_to_its_last_record_is_no_error() {
    let server = Server::acting(vec![]).await;
    let run = Run::start(Plan { max_records: 10, ..plans::to(&server, 10) }).unwrap();
    run.finished().await;
    assert_eq!(run.stop().await.unwrap().counts.offered, 10);
}

/// On one thread, so that the counts and the drop happen at the same instant.
#[tokio::test(flavor = "current_thread")]
async fn a_dropped_run_starts_no_more_requests() {
    let server = Server::acting(vec![]).await;
    let run = Run::start(plans::endless(&server)).unwrap();
    until("it has begun", || run.counts().ok > 0).await;
    // On a single thread, nothing happens between these lines.
    let (in_flight, before) = (run.counts().in_flight(), server.requests());
    drop(run);
    // Another run, during which the first one would have continued.
    let other = Run::start(plans::to(&server, 20)).unwrap();
    other.finished().await;
    let offered = other.stop().await.unwrap().counts.offered;
    let more = (server.requests() - before) as u64 - offered;
    assert!(more <= in_flight, "{more} requests besides the {in_flight} in flight");
}

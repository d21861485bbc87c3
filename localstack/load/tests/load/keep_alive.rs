//! Tests of reused connections: what is retried, and what is not.

use std::time::Duration;

use localstack_load::{Client, Failure, Outcome, Plan, Report, Run};

use crate::plans;
use crate::server::{Act, Seen, Server};
use crate::wait::until;

/// The report of one client with kept-alive connections and `requests` requests.
async fn report(server: &Server, requests: u32) -> Report {
    let run =
        Run::start(Plan { clients: vec![Client::keep_alive()], ..plans::to(server, requests) }).unwrap();
    run.finished().await;
    run.stop().await.unwrap()
}

/// Two requests on one connection. The first is answered, the second and its retry get `act`.
async fn second(act: Act) -> (Server, Report) {
    second_then(act, Act::Right).await
}

/// The same, but the retry gets `on_retry`.
async fn second_then(act: Act, on_retry: Act) -> (Server, Report) {
    let server = Server::start(move |seen| match seen {
        Seen { index: 1, nth: 2 } => act,
        Seen { index: 1, .. } => on_retry,
        _ => Act::Right,
    })
    .await;
    let run = Run::start(two(&server)).unwrap();
    run.finished().await;
    let report = run.stop().await.unwrap();
    assert_eq!(report.counts.offered, 2);
    (server, report)
}

/// Two requests of one client, with enough time between them for the second to reuse the connection.
fn two(server: &Server) -> Plan {
    let duration = Some(Duration::from_secs(2));
    Plan { clients: vec![Client::keep_alive()], rate: 1.0, duration, ..plans::endless(server) }
}

fn end(report: &Report) -> (Outcome, Option<Failure>) {
    (report.records[1].outcome, report.records[1].failure.clone())
}

#[tokio::test]
async fn a_reused_connection_that_ends_before_the_answer_is_retried_on_a_new_one() {
    for act in [Act::EndBeforeAnswer, Act::ResetBeforeAnswer] {
        let (server, report) = second(act).await;
        assert_eq!(end(&report), (Outcome::Retried, Some(Failure::EndedBeforeAnswer)), "{act:?}");
        assert_eq!((server.accepted(), server.requests()), (2, 3), "{act:?}");
    }
}

#[tokio::test]
async fn a_connection_closed_between_requests_is_retried_and_not_lost() {
    let server = Server::acting(vec![]).await;
    let run = Run::start(two(&server)).unwrap();
    until("the first request has ended", || run.counts().ok == 1).await;
    server.close_idle().await;
    run.finished().await;
    let report = run.stop().await.unwrap();
    assert_eq!(end(&report), (Outcome::Retried, Some(Failure::EndedBeforeAnswer)));
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn the_same_on_the_first_use_of_a_connection_is_lost() {
    for act in [Act::EndBeforeAnswer, Act::ResetBeforeAnswer] {
        let server = Server::acting(vec![act]).await;
        let report = report(&server, 1).await;
        let record = &report.records[0];
        assert_eq!((record.outcome, &record.failure), (Outcome::Lost, &Some(Failure::EndedBeforeAnswer)));
        assert_eq!(server.requests(), 1, "nothing was retried");
    }
}

#[tokio::test]
async fn a_retry_that_fails_is_lost_for_the_reason_of_the_retry() {
    let cases = [
        (Act::EndBeforeAnswer, Failure::EndedBeforeAnswer),
        (Act::Status(503), Failure::Status(503)),
        (Act::WrongContent, Failure::WrongBody),
    ];
    for (on_retry, failure) in cases {
        let (server, report) = second_then(Act::ResetBeforeAnswer, on_retry).await;
        assert_eq!(end(&report), (Outcome::Lost, Some(failure)));
        assert_eq!(server.requests(), 3, "there is one retry and no more");
    }
}

#[tokio::test]
async fn a_reused_connection_that_ends_within_the_answer_is_lost() {
    for act in [Act::EndWithinHead, Act::EndWithinBody, Act::ResetWithinBody] {
        let (server, report) = second(act).await;
        assert_eq!(end(&report), (Outcome::Lost, Some(Failure::EndedWithinAnswer)), "{act:?}");
        assert_eq!(server.requests(), 2, "{act:?}: part of an answer came, so nothing may be retried");
    }
}

#[tokio::test]
async fn a_wrong_answer_is_never_retried() {
    for (act, failure) in [(Act::Status(502), Failure::Status(502)), (Act::WrongContent, Failure::WrongBody)]
    {
        let (server, report) = second(act).await;
        assert_eq!(end(&report), (Outcome::Lost, Some(failure)));
        assert_eq!(server.requests(), 2);
    }
}

#[tokio::test]
async fn a_last_answer_that_says_so_costs_no_retry() {
    let server = Server::acting(vec![Act::RightAndClose; 5]).await;
    let report = report(&server, 5).await;
    assert_eq!((report.counts.ok, report.counts.retried), (5, 0));
    assert_eq!(server.accepted(), 5);
}

#[tokio::test]
async fn requests_one_after_the_other_share_a_connection() {
    let (server, report) = second(Act::Right).await;
    assert_eq!(end(&report), (Outcome::Ok, None));
    assert_eq!(server.accepted(), 1);
    assert_eq!(report.records[0].local_port, report.records[1].local_port);
}

#[tokio::test]
async fn a_busy_connection_is_not_waited_for() {
    let server = Server::acting(vec![Act::Held; 4]).await;
    let plan = Plan { clients: vec![Client::keep_alive()], ..plans::to(&server, 4) };
    let run = Run::start(plan).unwrap();
    until("all four are asked at once", || server.requests() == 4).await;
    server.release();
    let report = run.stop().await.unwrap();
    assert_eq!((report.counts.ok, server.accepted()), (4, 4));
}

#[tokio::test]
async fn a_client_without_keep_alive_connects_for_each_request() {
    let server = Server::acting(vec![]).await;
    let run = Run::start(plans::to(&server, 5)).unwrap();
    run.finished().await;
    let report = run.stop().await.unwrap();
    assert_eq!((report.counts.ok, server.accepted()), (5, 5));
}

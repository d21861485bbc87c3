//! Tests of lost requests: each is reported once, with its reason.

use std::net::Ipv4Addr;
use std::time::Duration;

use localstack_load::{Answer, Client, Failure, Outcome, Plan, Report, Run, Stage, Target};

use crate::name_server::{NameServer, Reply};
use crate::plans;
use crate::server::{Act, Server};

async fn report(plan: Plan) -> Report {
    let run = Run::start(plan).unwrap();
    run.finished().await;
    let counts = run.counts();
    let report = run.stop().await.unwrap();
    assert_eq!(counts, report.counts, "the live counts are those of the report");
    assert_balanced(&report);
    report
}

fn assert_balanced(report: &Report) {
    let counts = report.counts;
    assert_eq!(counts.offered, counts.ok + counts.retried + counts.lost);
    assert_eq!(counts.offered, report.records.len() as u64);
}

/// The failure of request 0, 1, …
fn failures(report: &Report) -> Vec<Option<Failure>> {
    report.records.iter().map(|record| record.failure.clone()).collect()
}

#[tokio::test]
async fn every_injected_loss_is_counted_exactly_and_named() {
    use Act::{
        EndBeforeAnswer, EndWithinBody, EndWithinHead, Garbage, NoLength, ResetBeforeAnswer, ResetWithinBody,
        Right, RightAndClose, Status, WrongContent,
    };
    let cases = [
        (Right, None),
        (ResetBeforeAnswer, Some(Failure::EndedBeforeAnswer)),
        (EndBeforeAnswer, Some(Failure::EndedBeforeAnswer)),
        (Right, None),
        (EndWithinHead, Some(Failure::EndedWithinAnswer)),
        (EndWithinBody, Some(Failure::EndedWithinAnswer)),
        (ResetWithinBody, Some(Failure::EndedWithinAnswer)),
        (RightAndClose, None),
        (Status(500), Some(Failure::Status(500))),
        (Status(502), Some(Failure::Status(502))),
        (Status(503), Some(Failure::Status(503))),
        (Status(404), Some(Failure::Status(404))),
        (Status(201), Some(Failure::Status(201))),
        (WrongContent, Some(Failure::WrongBody)),
        (NoLength, Some(Failure::NoLength)),
        (Garbage, Some(Failure::NotHttp)),
        (Right, None),
    ];
    let (acts, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let server = Server::acting(acts).await;
    let report = report(plans::to(&server, 17)).await;
    assert_eq!(failures(&report), expected);
    assert_eq!((report.counts.offered, report.counts.ok, report.counts.lost), (17, 4, 13));
    assert_eq!(server.requests(), 17, "nothing is asked twice");
}

#[tokio::test]
async fn silence_is_a_loss_after_the_time_out_and_not_before() {
    let server = Server::acting(vec![Act::Right, Act::Hang, Act::HangWithinBody, Act::Right]).await;
    let timeout = Duration::from_secs(2);
    let report = report(Plan { timeout, ..plans::to(&server, 4) }).await;
    let timed_out = Some(Failure::TimedOut { stage: Stage::Answering, timeout });
    assert_eq!(failures(&report), [None, timed_out.clone(), timed_out, None]);
    for lost in report.lost() {
        assert!(lost.duration >= timeout, "{:?}", lost.duration);
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_loss() {
    let server = Server::acting(vec![]).await;
    let dns =
        NameServer::start(Reply::Addresses(vec![Ipv4Addr::LOCALHOST, [127, 0, 0, 2].into()], 3600)).await;
    let plan = plans::by_name(&dns, server.port(), vec![Client::default()]);
    let report = report(Plan { duration: Some(plans::duration(20)), ..plan }).await;
    assert_eq!((report.counts.ok, report.counts.lost), (10, 10), "every second address refuses");
    let refused = Failure::Connect(std::io::ErrorKind::ConnectionRefused);
    for lost in report.lost() {
        assert_eq!(lost.failure, Some(refused.clone()));
        assert_eq!(lost.node, Some(Ipv4Addr::new(127, 0, 0, 2).into()));
    }
}

#[tokio::test]
async fn a_name_without_an_address_loses_every_request() {
    let dns = NameServer::start(Reply::Addresses(vec![], 0)).await;
    let plan = plans::by_name(&dns, 80, vec![Client::default()]);
    let report = report(Plan { duration: Some(plans::duration(10)), ..plan }).await;
    assert_eq!(report.counts.lost, 10);
    assert!(report.lost().all(|lost| lost.failure == Some(Failure::NoAddress) && lost.node.is_none()));
}

#[tokio::test]
async fn any_body_will_do_if_the_plan_says_so() {
    let server = Server::acting(vec![Act::WrongContent, Act::Status(500), Act::NoLength]).await;
    let report = report(Plan { answer: Answer::Any, ..plans::to(&server, 3) }).await;
    assert_eq!(failures(&report), [None, Some(Failure::Status(500)), Some(Failure::NoLength)]);
}

#[tokio::test]
async fn a_record_says_who_answered_and_through_what() {
    let server = Server::acting(vec![]).await;
    let report = report(plans::to(&server, 1)).await;
    let record = &report.records[0];
    assert_eq!((record.outcome, record.pod.as_deref()), (Outcome::Ok, Some("web-0")));
    assert_eq!(record.node, Some(server.ip()));
    assert!(record.local_port.is_some_and(|port| port > 0));
}

#[tokio::test]
async fn a_request_that_never_got_a_connection_says_from_which_port_it_tried() {
    // Bound without listening, so that no other program gets the port.
    let refusing = tokio::net::TcpSocket::new_v4().unwrap();
    refusing.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let port = refusing.local_addr().unwrap().port();
    let plan = Plan::new(Target::Address(Ipv4Addr::LOCALHOST.into()), port, plans::RATE);
    let report = report(Plan { duration: Some(plans::duration(10)), ..plan }).await;
    assert_eq!(report.counts.lost, 10);
    assert!(report.lost().all(|lost| lost.local_port.is_some_and(|port| port > 0)));
}

#[tokio::test]
async fn a_connection_reset_as_soon_as_it_is_accepted_is_known_by_its_port() {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let resetting = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while accepted.len() < 100 {
            let (stream, client) = listener.accept().await.unwrap();
            stream.set_zero_linger().unwrap();
            accepted.push(Some(client.port()));
        }
        accepted.sort_unstable();
        accepted
    });
    let plan = Plan::new(Target::Address(Ipv4Addr::LOCALHOST.into()), port, plans::RATE);
    let report = report(Plan { duration: Some(plans::duration(100)), ..plan }).await;
    let mut tried: Vec<_> = report.lost().map(|lost| lost.local_port).collect();
    tried.sort_unstable();
    assert_eq!(tried, resetting.await.unwrap());
}

#[tokio::test]
async fn a_plan_that_cannot_be_run_never_starts() {
    let target = Target::Address(Ipv4Addr::LOCALHOST.into());
    let error = Run::start(Plan::new(target, 80, 0.0)).unwrap_err().to_string();
    assert_eq!(error, "the rate is 0 requests per second; it must be greater than 0");
}

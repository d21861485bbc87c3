//! Tests of DNS names: when they are looked up, and how the answers are used.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use localstack_load::{Client, Plan, Report, Run};

use crate::name_server::{NameServer, Reply};
use crate::plans::{by_name, duration};
use crate::server::{Act, Server};
use crate::wait::until;

const A: Ipv4Addr = Ipv4Addr::LOCALHOST;
const B: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Two servers on the same port.
async fn pair() -> (Server, Server) {
    let a = Server::start_at((A, 0).into(), |_| Act::Right).await;
    let b = Server::start_at((B, a.port()).into(), |_| Act::Right).await;
    (a, b)
}

async fn report(plan: Plan) -> Report {
    let run = Run::start(plan).unwrap();
    run.finished().await;
    run.stop().await.unwrap()
}

fn nodes(report: &Report, phase: usize) -> Vec<IpAddr> {
    let of_phase = report.records.iter().filter(|record| record.phase == phase);
    let mut nodes: Vec<_> = of_phase.filter_map(|record| record.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

#[tokio::test]
async fn an_answer_is_used_until_its_ttl_is_over() {
    let server = Server::acting(vec![]).await;
    let dns = NameServer::start(Reply::Addresses(vec![A], 3600)).await;
    let plan = by_name(&dns, server.port(), vec![Client::default(); 3]);
    let report = report(Plan { duration: Some(duration(30)), ..plan }).await;
    assert_eq!(report.counts.ok, 30);
    assert_eq!(dns.questions().len(), 3, "once per client");
    assert_eq!(dns.last_name().as_deref(), Some("edge.example."));
    assert!(report.clients.iter().all(|client| client.dns_queries == 1 && client.dns_failures == 0));
}

#[tokio::test]
async fn an_answer_is_asked_for_again_when_its_ttl_is_over_and_not_sooner() {
    let server = Server::acting(vec![]).await;
    let dns = NameServer::start(Reply::Addresses(vec![A], 1)).await;
    let run = Run::start(by_name(&dns, server.port(), vec![Client::default()])).unwrap();
    until("it has asked three times", || dns.questions().len() >= 3).await;
    let report = run.stop().await.unwrap();
    assert_eq!(report.counts.lost, 0);
    for pair in dns.questions().windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(1), "{:?}", pair[1] - pair[0]);
    }
}

#[tokio::test]
async fn a_ttl_of_zero_is_asked_for_each_time_and_a_pinned_client_never_asks_twice() {
    let server = Server::acting(vec![]).await;
    let dns = NameServer::start(Reply::Addresses(vec![A], 0)).await;
    let plan = by_name(&dns, server.port(), vec![Client::default(), Client::pinned()]);
    let report = report(Plan { duration: Some(duration(20)), ..plan }).await;
    assert_eq!(report.counts.ok, 20);
    assert_eq!(report.clients.iter().map(|client| client.dns_queries).collect::<Vec<_>>(), [10, 1]);
    assert_eq!(dns.questions().len(), 11);
}

#[tokio::test]
async fn a_change_is_followed_by_all_but_pinned_clients() {
    let (a, _b) = pair().await;
    let dns = NameServer::start(Reply::Addresses(vec![A], 0)).await;
    let run = Run::start(by_name(&dns, a.port(), vec![Client::default(), Client::pinned()])).unwrap();
    until("both have asked", || dns.questions().len() >= 2 && run.counts().ok >= 4).await;
    dns.reply(Reply::Addresses(vec![B], 0));
    run.mark("changed");
    let offered = run.counts().offered;
    until("both have gone on", || run.counts().ok >= offered + 6).await;
    let report = run.stop().await.unwrap();
    assert_eq!(report.counts.lost, 0);
    for record in report.records.iter().filter(|record| record.phase == 1) {
        let expected = if record.client == 0 { B } else { A };
        assert_eq!(record.node, Some(expected.into()), "client {}", record.client);
    }
    assert_eq!(nodes(&report, 1), [IpAddr::from(A), IpAddr::from(B)], "both kinds have asked in the phase");
}

#[tokio::test]
async fn a_client_takes_its_addresses_in_turns_and_clients_begin_at_different_ones() {
    let (a, b) = pair().await;
    let dns = NameServer::start(Reply::Addresses(vec![A, B], 3600)).await;
    let plan = by_name(&dns, a.port(), vec![Client::default(); 2]);
    // Four requests: two clients, two each.
    let report = report(Plan { duration: Some(duration(4)), ..plan }).await;
    assert_eq!((report.counts.ok, a.requests(), b.requests()), (4, 2, 2));
    for client in 0..2 {
        let own: Vec<_> = report.records.iter().filter(|record| record.client == client).collect();
        assert_ne!(own[0].node, own[1].node, "client {client} takes turns");
    }
    assert_ne!(report.records[0].node, report.records[1].node, "they begin at different ones");
}

#[tokio::test]
async fn an_empty_or_failing_answer_leaves_the_last_addresses_in_use_and_is_counted() {
    let server = Server::acting(vec![]).await;
    let failures = [
        Reply::Addresses(vec![], 0),
        Reply::Code(ResponseCode::NXDomain),
        Reply::Code(ResponseCode::ServFail),
        Reply::Silence,
    ];
    for failure in failures {
        let dns = NameServer::start(Reply::Addresses(vec![A], 0)).await;
        let run = Run::start(by_name(&dns, server.port(), vec![Client::default()])).unwrap();
        until("it has an address", || run.counts().ok > 0).await;
        dns.reply(failure.clone());
        until("it has noticed", || run.dns_failures() > 0).await;
        let offered = run.counts().offered;
        until("it has gone on", || run.counts().ok >= offered + 5).await;
        let report = run.stop().await.unwrap();
        assert_eq!(report.counts.lost, 0, "{failure:?}");
        assert!(report.clients[0].dns_failures > 0, "{failure:?}");
    }
}

#[tokio::test]
async fn a_name_server_that_recovers_is_asked_again() {
    let (a, b) = pair().await;
    let dns = NameServer::start(Reply::Addresses(vec![A], 0)).await;
    let run = Run::start(by_name(&dns, a.port(), vec![Client::default()])).unwrap();
    until("it has an address", || run.counts().ok > 0).await;
    dns.reply(Reply::Code(ResponseCode::ServFail));
    until("it has noticed", || run.dns_failures() > 0).await;
    dns.reply(Reply::Addresses(vec![B], 0));
    until("it follows", || b.requests() > 0).await;
    assert_eq!(run.stop().await.unwrap().counts.lost, 0);
}

#[tokio::test]
async fn a_pinned_client_asks_until_it_has_an_address() {
    let server = Server::acting(vec![]).await;
    let dns = NameServer::start(Reply::Code(ResponseCode::NXDomain)).await;
    let run = Run::start(by_name(&dns, server.port(), vec![Client::pinned()])).unwrap();
    until("it has asked", || run.counts().lost > 0).await;
    dns.reply(Reply::Addresses(vec![A], 0));
    until("it has found it", || run.counts().ok >= 3).await;
    let asked = dns.questions().len();
    until("it has gone on", || run.counts().ok >= 10).await;
    run.stop().await.unwrap();
    assert_eq!(dns.questions().len(), asked);
}

#[tokio::test]
async fn a_lost_datagram_is_sent_again_and_is_no_failure() {
    let server = Server::acting(vec![]).await;
    let dns = NameServer::start(Reply::Addresses(vec![A], 3600)).await;
    dns.ignore(1);
    let plan = by_name(&dns, server.port(), vec![Client::default()]);
    let report = report(Plan { duration: Some(duration(3)), ..plan }).await;
    assert_eq!((report.counts.ok, report.clients[0].dns_failures), (3, 0));
    assert_eq!(dns.questions().len(), 1);
    assert!(dns.datagrams() >= 2, "it was sent again");
}

//! The cost of people looking at Headgate: `headgate status`, the page and the journal, with many target groups. Each
//! is compared with none of it.
//!
//! The pods come from a replayer, none of them ever changes, and nothing listens at their addresses.

use std::time::Duration;

use headgate_harness::{aws::Group, browser::Browser, headgate::Headgate, http, scenario::http_port};
use localstack_world::Facts;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use crate::{
    Size,
    contender::Contender,
    replay::{Replay, as_served},
    report::Row,
    stage::{Stage, pod, running},
};

/// The number of open pages.
const PAGES: usize = 10;
/// The number of status requests.
const ASKED: usize = 20;

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "looked").await;
    let (count, each) = size.looked;
    let mut groups: Vec<(String, Group)> = Vec::new();
    for at in 0..count {
        groups.push((format!("looked-{at}"), stage.group(&format!("looked-{at}")).await));
    }
    let services = groups.iter().enumerate().map(|(at, (app, group))| {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": app, "namespace": "looked", "uid": format!("service-{at}"), "resourceVersion": "1",
                "annotations": {"headgate.dev/target-groups": group.name},
            },
            "spec": {"selector": {"app": app}, "ports": http_port()},
        })
    });
    let services = services.collect();
    let ips: Vec<String> = (0..count * each).map(|_| stage.fresh_ip()).collect();
    let make = move |number: usize| {
        let app = format!("looked-{}", number / each);
        let mut object = pod(&format!("{app}-5d8f7c9b64-{number:05x}"), "looked", &app);
        object["status"] = running(&ips[number]);
        as_served(object, number).to_string()
    };
    let server = Replay::start(count * each, make, services).await;
    let kubeconfig = server.kubeconfig(&facts.folder);
    let without = settled(&stage, &kubeconfig, &groups, each, size, &["--journal-entries=0"]).await;
    let blank = without.settled_memory(size.rest).await;
    without.end().await;
    let headgate = settled(&stage, &kubeconfig, &groups, each, size, &[]).await;
    let resting = headgate.settled_memory(size.rest).await;
    let Contender::Headgate(process) = &headgate else { return Vec::new() };
    let debug = process.debug().to_owned();
    let entries = process.probe("/debug/journal?most=1").await.unwrap();
    let entries: serde_json::Value = serde_json::from_str(&entries).unwrap();
    let entries = entries["entries"][0]["number"].as_f64().unwrap_or_default();
    let targets = count * each;
    let of = |what: &str| format!("{what}, {count} target groups, {targets} targets");
    let mut rows = vec![
        Row::of(of("resident memory with the journal, and without"), "MiB", &[resting], &[blank]),
        Row::of("– entries in it", "entries", &[entries], &[]),
    ];

    let (mut took, mut nothing, mut length) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..ASKED {
        for (path, times) in [("/debug/status", &mut took), ("/debug/leader", &mut nothing)] {
            let began = Instant::now();
            let (_, text) = http::request("GET", &debug, path, None).await.unwrap();
            times.push(began.elapsed().as_secs_f64() * 1000.0);
            if path == "/debug/status" {
                length = kib(text.len());
            }
        }
    }
    rows.push(Row::of(of("a status, beside the smallest question"), "ms", &took, &nothing));
    rows.push(Row::of("– its size", "KiB", &[length], &[]));

    let mut paints = Vec::new();
    for _ in 0..size.runs {
        paints.push(first_paint(&debug, count).await);
    }
    rows.push(Row::of(
        of("first paint of the page"),
        "ms",
        &paints.iter().map(|it| it.0).collect::<Vec<_>>(),
        &[],
    ));
    rows.push(Row::of(
        "– until it shows every target group",
        "ms",
        &paints.iter().map(|it| it.1).collect::<Vec<_>>(),
        &[],
    ));

    let alone = used(&headgate, size).await;
    let pages: Vec<_> = (0..PAGES).map(|_| tokio::spawn(follow(debug.clone(), true))).collect();
    tokio::time::sleep(size.rest).await;
    let open = (used(&headgate, size).await, headgate.settled_memory(size.rest).await);
    pages.iter().for_each(tokio::task::JoinHandle::abort);
    tokio::time::sleep(size.rest).await;
    let dead: Vec<_> = (0..PAGES).map(|_| tokio::spawn(follow(debug.clone(), false))).collect();
    tokio::time::sleep(size.rest).await;
    let silent = (used(&headgate, size).await, headgate.settled_memory(size.rest).await);
    dead.iter().for_each(tokio::task::JoinHandle::abort);
    rows.push(Row::of("resident memory with ten pages open, and with none", "MiB", &[open.1], &[resting]));
    rows.push(Row::of("processor time with ten pages open, and with none", "ms/s", &[open.0], &[alone]));
    rows.push(Row::of("resident memory with ten browsers that read nothing", "MiB", &[silent.1], &[resting]));
    rows.push(Row::of("processor time with ten browsers that read nothing", "ms/s", &[silent.0], &[alone]));
    headgate.end().await;
    rows
}

/// Headgate, after every target is registered.
async fn settled(
    stage: &Stage,
    kubeconfig: &std::path::Path,
    groups: &[(String, Group)],
    each: usize,
    size: &Size,
    arguments: &[&str],
) -> Contender {
    let headgate = Headgate::start(&stage.facts, kubeconfig, arguments).await;
    for (_, group) in groups {
        stage.wait_targets(group, each).await;
    }
    tokio::time::sleep(size.rest).await;
    Contender::Headgate(headgate)
}

/// Processor time in milliseconds per second, while nothing else happens.
async fn used(contender: &Contender, size: &Size) -> f64 {
    let (began, before) = (Instant::now(), contender.processor_time());
    tokio::time::sleep(size.rest * 5).await;
    (contender.processor_time() - before) * 1000.0 / began.elapsed().as_secs_f64()
}

/// How long a browser takes to paint anything, and to show every target group.
async fn first_paint(debug: &str, groups: usize) -> (f64, f64) {
    let browser = Browser::start().await;
    browser.open(&format!("http://{debug}/")).await;
    let shown = format!(
        "new Promise((done) => {{ const look = () => document.querySelectorAll('#view tbody th').length >= {groups} \
         ? done(performance.now()) : setTimeout(look, 20); look(); }})"
    );
    let shown = browser.evaluate(&shown).await.as_f64().unwrap();
    let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0";
    (browser.evaluate(paint).await.as_f64().unwrap(), shown)
}

/// Follows changes repeatedly, like a page. `reads`: whether it reads them.
async fn follow(debug: String, reads: bool) {
    loop {
        let Ok(mut stream) = TcpStream::connect(&debug).await else { return };
        let request = format!("GET /debug/live HTTP/1.1\r\nHost: {debug}\r\n\r\n");
        if stream.write_all(request.as_bytes()).await.is_err() {
            return;
        }
        let mut buffer = vec![0; 64 * 1024];
        if !reads {
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[allow(clippy::cast_precision_loss)] // far below 2^52
fn kib(bytes: usize) -> f64 {
    bytes as f64 / 1024.0
}

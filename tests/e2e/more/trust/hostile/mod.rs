//! Ten thousand malicious requests to the running servers.
//!
//! The client knows the secret path, because an invalid review must be harmless on its own.

mod requests;
mod reviews;
mod wire;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use headgate_harness::{
    certificates::Files,
    evictions::{Answer, Stage},
    headgate::Headgate,
    intruder::forged_eviction,
    scenario::targets,
    shared_world::{alone, beside_others},
    wait,
    webhook::bare_pod,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use self::wire::{Came, Client, Sent};

/// Requests to the webhooks.
const REQUESTS: u64 = 2_000;
/// Concurrent clients, each with one connection at a time.
const CLIENTS: u64 = 8;
/// The maximum length of a log line in bytes, for any request.
const LONGEST_LINE: usize = 4096;
/// Many more than a Headgate has open without requests.
const FEW: usize = 100;

/// The data for the requests.
#[derive(Clone)]
struct Knowing {
    /// The secret path.
    path: String,
    namespace: String,
    /// Running pods.
    pods: Vec<String>,
}

/// Request number `number`, the same in each run, with its expected status if that is known.
fn request(number: u64, knowing: &Knowing) -> (Sent, Option<u16>) {
    let mut rng = fastrand::Rng::with_seed(number);
    let (new, nobody) = (reviews::new_pod(&knowing.namespace), forged_eviction(&knowing.namespace, "nobody"));
    let path = &knowing.path;
    match rng.u8(0..100) {
        0..45 => (requests::post(path, &reviews::body(&new, &mut rng)), None),
        45..65 => (requests::post(path, &reviews::body(&nobody, &mut rng)), None),
        // About running pods, but never a valid request for them.
        65..80 => {
            let living = forged_eviction(&knowing.namespace, rng.choice(&knowing.pods).unwrap());
            (requests::post(path, &reviews::broken(&living, &mut rng)), Some(400))
        }
        80..85 => {
            let living = forged_eviction(&knowing.namespace, rng.choice(&knowing.pods).unwrap()).to_string();
            let method = *rng.choice(["GET", "PUT", "DELETE"].iter()).unwrap();
            (requests::request(method, path, "", living.as_bytes()), Some(405))
        }
        _ => {
            let body = reviews::body(if rng.bool() { &new } else { &nobody }, &mut rng);
            (requests::strange(path, &body, &mut rng), None)
        }
    }
}

/// The results of many requests: the count of each status (0: the connection was closed), and all other results.
#[derive(Debug, Default)]
struct Tally {
    came: BTreeMap<u16, u64>,
    wrong: Vec<String>,
}

/// Sends the requests that `of` returns for their numbers, and checks each answer.
async fn send_all(
    clients: Vec<Client>,
    count: u64,
    of: impl Fn(u64) -> (Sent, Option<u16>) + Send + Sync + 'static,
) -> Tally {
    let (of, all) = (Arc::new(of), clients.len() as u64);
    let tasks = clients.into_iter().zip(0..).map(|(mut client, first): (Client, u64)| {
        let of = of.clone();
        tokio::spawn(async move {
            let mut tally = Tally::default();
            for number in (first..count).step_by(usize::try_from(all).unwrap()) {
                let (sent, expected) = of(number);
                let came = match client.exchange(&sent).await {
                    Ok(Came::Answer(status, _)) => status,
                    Ok(Came::Closed) => 0,
                    Err(error) => {
                        tally.wrong.push(format!("request {number}: {error}"));
                        continue;
                    }
                };
                *tally.came.entry(came).or_default() += 1;
                if expected.is_some_and(|expected| expected != came) {
                    tally.wrong.push(format!("request {number}: {came}, expected {expected:?}"));
                }
            }
            tally
        })
    });
    let mut whole = Tally::default();
    for task in tasks.collect::<Vec<_>>() {
        let tally = task.await.unwrap();
        for (status, count) in tally.came {
            *whole.came.entry(status).or_default() += count;
        }
        whole.wrong.extend(tally.wrong);
    }
    whole
}

/// Runs `during` with probe requests, which must all be answered.
async fn while_it_lives<T>(headgate: &Headgate, during: impl Future<Output = T>) -> T {
    let done = AtomicBool::new(false);
    let probing = async {
        while !done.load(Relaxed) {
            for path in ["/livez", "/readyz"] {
                headgate.probe(path).await.unwrap_or_else(|error| panic!("{error}\n{}", headgate.text()));
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let during = async {
        let ended = during.await;
        done.store(true, Relaxed);
        ended
    };
    futures::join!(during, probing).0
}

/// What must not change: the users' and Headgate's fields of each pod.
async fn pods(stage: &Stage) -> BTreeMap<String, Value> {
    let pods = stage.cluster.api::<Pod>().list(&ListParams::default()).await.unwrap();
    let of = |pod: Pod| {
        let (meta, status) = (&pod.metadata, pod.status.as_ref());
        let written = json!({
            "uid": meta.uid, "annotations": meta.annotations, "labels": meta.labels,
            "ends": meta.deletion_timestamp.is_some(), "spec": pod.spec,
            "conditions": status.and_then(|status| status.conditions.as_ref()),
        });
        (pod.metadata.name.unwrap(), written)
    };
    pods.into_iter().map(of).collect()
}

fn is_quiet(headgate: &Headgate) {
    let text = headgate.text();
    let longest = text.lines().max_by_key(|line| line.len()).unwrap_or_default();
    let begins: String = longest.chars().take(300).collect();
    assert!(longest.len() <= LONGEST_LINE, "a line of {} bytes: {begins}…", longest.len());
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn thousands_of_garbled_reviews_and_requests_do_no_harm() {
    alone(|world| async move {
        let stage = Stage::with_nodes(world, "hostile", 1, &[]).await;
        let headgate = &stage.headgates[0];
        stage.cluster.deploy("web", 3, &[("http", 8080)]).await;
        let running = stage.wait_asked("web", 3).await;
        let files = Files::shared();
        let (address, pid, before) = (headgate.webhook().await, headgate.pid(), pods(&stage).await);
        let knowing = Knowing {
            path: files.path.clone(),
            namespace: stage.cluster.namespace.clone(),
            pods: running.keys().cloned().collect(),
        };

        let clients = (0..CLIENTS).map(|_| Client::of_https(&address, &files.trusted)).collect();
        let sending = send_all(clients, REQUESTS, move |number| request(number, &knowing));
        let began = std::time::Instant::now();
        let tally = while_it_lives(headgate, sending).await;
        eprintln!("{REQUESTS} requests in {:?} came to {:?}", began.elapsed(), tally.came);
        assert_eq!(tally.wrong, [""; 0]);
        assert!(tally.came[&200] > REQUESTS / 10 && tally.came[&400] > REQUESTS / 10, "{:?}", tally.came);
        assert!(!tally.came.contains_key(&500), "{:?}", tally.came);

        is_quiet(headgate);
        assert_eq!(headgate.pid(), pid);
        assert_eq!(pods(&stage).await, before);
        assert_eq!(stage.s.aws.registered(&stage.group.arn).await, targets(&running, 8080));
        assert_eq!(stage.s.aws.calls("DeregisterTargets", &stage.group.name).await, []);
        wait::until("the descriptors are free again", || async {
            let open = headgate.descriptors();
            if open < FEW { Ok(()) } else { Err(open) }
        })
        .await;

        // The API server gets answers as before.
        let pod = bare_pod("genuine", &json!({"app": "other", "headgate.dev/inject": "true"}));
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let pod = serde_json::from_value(pod).unwrap();
        let made = stage.cluster.api::<Pod>().create(&parameters, &pod).await.unwrap();
        let gates = made.spec.unwrap().readiness_gates.unwrap_or_default();
        assert_eq!(
            gates.iter().map(|gate| &*gate.condition_type).collect::<Vec<_>>(),
            ["headgate.dev/target-health"]
        );
        let (evicted, ip) = running.iter().next().unwrap();
        assert_eq!(stage.evict(evicted).await, Answer::Done, "its node stays: {}", stage.said());
        stage.wait_only_deregistered(ip).await;
        stage.end().await;
    });
}

#[test]
fn odd_requests_for_probes_and_pages_are_answered_or_hung_up_on() {
    beside_others(|world| async move {
        let s = headgate_harness::scenario::Scenario::new(world, "hostile-pages").await;
        let headgate = s.headgate().await;
        for address in [headgate.admin(), headgate.debug()] {
            let clients = (0..4).map(|_| Client::of_http(address)).collect();
            let sending = send_all(clients, 400, |number| {
                let mut rng = fastrand::Rng::with_seed(number);
                let (path, body) = (requests::page(&mut rng), vec![b'x'; rng.usize(0..2000)]);
                let sent = match rng.u8(0..3) {
                    0 => requests::strange(&path, &body, &mut rng),
                    1 => requests::request("POST", &path, "", &body),
                    _ => requests::request("GET", &path, "Accept: text/plain;q=x, */*\r\n", b""),
                };
                (sent, None)
            });
            let tally = while_it_lives(&headgate, sending).await;
            eprintln!("400 requests to {address} came to {:?}", tally.came);
            assert_eq!(tally.wrong, [""; 0]);
            assert!(tally.came[&200] > 5 && !tally.came.contains_key(&500), "{:?}", tally.came);
        }
        is_quiet(&headgate);
        headgate.probe("/metrics").await.unwrap();
        headgate.probe("/debug/bindings").await.unwrap();
    });
}

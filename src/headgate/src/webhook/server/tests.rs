use futures::future::BoxFuture;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::{sync::mpsc, time::sleep};

use super::*;
use crate::{
    metrics::{Format, Level, Metrics},
    runtime::{clock::Clock, pulse::Pulse, views::Views},
    serving::connections::Connections,
    webhook::{
        ask::{Asking, QUEUE, Question},
        evict::Evicting,
        giving::{Giving, Options},
        namespaces::{Namespaces, ReadNamespace},
        node_reads::{NodeReads, ReadNode},
        notes::{Notes, Writer, queue::Note},
        path::{CallPath, FIXED},
    },
};
use headgate_core::{
    Cause, Failure, FailureClass, WallTime,
    model::{
        NodeFacts, Signals,
        eviction::{LONGEST_RETRY, Limits as Waits, Ruling},
        leaving::{Asked, Mark},
        object::Uid,
    },
};

/// A secret path for tests.
const PATH: &str = "/5ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4";

/// A namespace that sets no limit.
struct Silent;

impl ReadNamespace for Silent {
    fn max_grace<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<String>, Failure>> {
        Box::pin(async { Ok(None) })
    }
}

/// A webhook whose engine has ended.
fn webhook() -> Webhook {
    let (questions, _) = mpsc::channel(QUEUE);
    let (scopes, clock) = (vec![headgate_core::Scope::Cluster], Clock::start());
    let asking =
        Asking { scopes, namespaces_are_selected: false, questions, pulse: Arc::new(Pulse::new(clock)) };
    let metrics = Arc::new(Metrics::new(Arc::new(Views::default()), Clock::start(), Level::Debug));
    let (notices, _) = crate::kube::events::channel(clock);
    let notes = Notes::new(Waits::default(), clock, metrics.clone());
    let evicting = Evicting::new(notes, NodeReads::blind(), notices);
    let (_, path) = watch::channel(CallPath::from_path(PATH));
    let giving = Giving::new(Options { probe_grace: 5, max_grace: None, image: None });
    let namespaces = Namespaces::new(Silent, clock);
    Webhook { asking, evicting, metrics, clock, path, giving, namespaces }
}

async fn post(webhook: &Webhook, body: impl Into<Bytes>) -> (u16, String) {
    post_to(PATH, webhook, body).await
}

async fn post_to(path: &str, webhook: &Webhook, body: impl Into<Bytes>) -> (u16, String) {
    let request = HttpRequest::post(path).body(Full::from(body.into())).unwrap();
    respond(webhook, request).await
}

async fn answered<B>(webhook: &Webhook, request: HttpRequest<B>) -> Response<Full<Bytes>>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let connections = Connections::new("webhook", LIMITS, webhook.metrics.clone(), webhook.clock);
    let connection = connections.enter([127, 0, 0, 1].into());
    webhook.respond(request, &connection, &Room::default()).await
}

async fn respond(webhook: &Webhook, request: HttpRequest<Full<Bytes>>) -> (u16, String) {
    let response = answered(webhook, request).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn review() -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": "CREATE", "namespace": "shop", "name": "", "dryRun": false,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "userInfo": {"username": "a", "groups": ["b"]},
            "object": {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"generateName": "web-", "labels": {"app": "web"},
                    "annotations": {"headgate.dev/hold": "20s", "headgate.dev/injected": "GateAdded"}},
                "spec": {
                    "terminationGracePeriodSeconds": 30,
                    "readinessGates": [{"conditionType": "example.com/x"}],
                    "initContainers": [{"name": "proxy", "restartPolicy": "Always"}],
                    "containers": [{"name": "web", "lifecycle": {"postStart": null},
                        "ports": [{"name": "http", "containerPort": 8080}]}],
                },
            },
        },
    })
}

/// Applies the patch of an answer to the pod.
fn patched(review: &Value, answer: &str) -> Value {
    let answer: Value = serde_json::from_str(answer).unwrap();
    let response = &answer["response"];
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&review["apiVersion"], &review["kind"]));
    assert_eq!((&response["allowed"], &response["uid"]), (&Value::Bool(true), &review["request"]["uid"]));
    let mut pod = review["request"]["object"].clone();
    if let Some(patch) = response.get("patch") {
        assert_eq!(response["patchType"], "JSONPatch");
        let patch: k8s_openapi::ByteString = serde_json::from_value(patch.clone()).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
        json_patch::patch(&mut pod, &patch).unwrap();
    }
    pod
}

#[tokio::test]
async fn a_new_pod_gets_gate_and_hold_even_if_the_engine_says_nothing() {
    let webhook = webhook();
    let (status, answer) = post(&webhook, review().to_string()).await;
    assert_eq!(status, 200);
    let pod = patched(&review(), &answer);
    assert_eq!(pod["spec"]["readinessGates"][1]["conditionType"], "headgate.dev/target-health");
    assert_eq!(pod["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 20);
    assert_eq!(pod["spec"]["initContainers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 20);
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 50);
    let page = webhook.metrics.page(Format::Prometheus).unwrap();
    for line in [
        "headgate_webhook_requests_total{status=\"200\"} 1",
        "headgate_injections_total{decision=\"HoldAdded\"} 1",
        "headgate_injections_total{decision=\"BindingsUnknown\"} 1",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

#[tokio::test]
async fn a_dry_run_is_answered_like_any_other_and_counts_nothing() {
    let (webhook, mut dry) = (webhook(), review());
    let (_, answer) = post(&webhook, review().to_string()).await;
    dry["request"]["dryRun"] = true.into();
    let (_, dry_answer) = post(&webhook, dry.to_string()).await;
    assert_eq!(patched(&dry, &dry_answer), patched(&review(), &answer));
    assert!(
        webhook
            .metrics
            .page(Format::Prometheus)
            .unwrap()
            .contains("headgate_injections_total{decision=\"HoldAdded\"} 1")
    );
}

#[tokio::test]
async fn what_is_not_asked_here_is_refused_with_what_was_expected() {
    let webhook = webhook();
    let get = |path: &str| HttpRequest::get(path).body(Full::default()).unwrap();
    for (request, status, said) in
        [(get("/"), 404, "there is nothing here"), (get(PATH), 405, "expected POST")]
    {
        let (is, body) = respond(&webhook, request).await;
        assert_eq!(is, status);
        assert!(body.contains(said), "{body}");
    }
    let huge = vec![b' '; LARGEST_BODY + 1];
    let (status, body) = post(&webhook, huge).await;
    assert_eq!(status, 413);
    assert!(body.contains("at most 4194304 bytes"), "{body}");
    let deep = "[".repeat(LARGEST_BODY);
    assert_eq!(post(&webhook, deep).await.0, 400);
    let mut nested = review();
    for _ in 0..100 {
        nested["request"]["object"]["spec"] = json!({"containers": [nested["request"]["object"]["spec"]]});
    }
    assert_eq!(post(&webhook, nested.to_string()).await.0, 400, "nested deeper than 128");
}

/// A body that fails the test if the server reads it.
struct Unread;

impl Body for Unread {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        panic!("the body is read")
    }
}

#[tokio::test]
async fn a_request_on_a_path_that_is_not_served_is_refused_unread_and_hung_up_on() {
    let webhook = webhook();
    let near =
        [&PATH[..64], &format!("{PATH}/"), &format!("{PATH}/x"), &PATH.replace('7', "8")].map(str::to_owned);
    for path in ["/", "/headgate", "/5ec4e7"].map(str::to_owned).into_iter().chain(near) {
        let request = HttpRequest::post(&path).body(Unread).unwrap();
        let response = answered(&webhook, request).await;
        assert_eq!(response.status(), 404, "{path}");
        assert_eq!(response.headers()["connection"], "close");
    }
    let page = webhook.metrics.page(Format::Prometheus).unwrap();
    assert!(page.contains("headgate_webhook_requests_total{status=\"404\"} 7"), "{page}");
}

#[tokio::test]
async fn which_question_it_is_its_content_says_and_not_the_path() {
    let mut webhook = webhook();
    (_, webhook.path) = watch::channel(Some(CallPath::fixed()));
    let (_, answer) = post_to(FIXED, &webhook, review().to_string()).await;
    let pod = patched(&review(), &answer);
    assert_eq!(pod["spec"]["readinessGates"][1]["conditionType"], "headgate.dev/target-health");
    let (status, answer) = post_to(FIXED, &webhook, eviction(false)).await;
    assert!(status == 200 && !answer.contains("patch"), "{answer}");
    let page = webhook.metrics.page(Format::Prometheus).unwrap();
    assert!(page.contains("headgate_eviction_requests_total{"), "{page}");
}

fn eviction(dry_run: bool) -> String {
    let mut review = review();
    review["request"]["subResource"] = "eviction".into();
    review["request"]["name"] = "web".into();
    review["request"]["object"] = json!({"metadata": {"name": "web"}, "deleteOptions": {}});
    if dry_run {
        review["request"]["object"]["deleteOptions"]["dryRun"] = json!(["All"]);
    }
    review.to_string()
}

/// The answer to an eviction request if the engine returns `ruling`. The test engine answers only one query.
async fn evicted(ruling: Ruling, dry_run: bool) -> (Value, String) {
    let (mut webhook, (questions, mut asked)) = (webhook(), mpsc::channel(1));
    webhook.asking.questions = questions;
    tokio::spawn(async move {
        if let Some(Question::MayEvict { pod, answer, .. }) = asked.recv().await {
            assert_eq!(pod.to_string(), "shop/web");
            let _ = answer.send(ruling);
        }
    });
    let (status, answer) = post_to(PATH, &webhook, eviction(dry_run)).await;
    assert_eq!(status, 200);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    (answer["response"].clone(), webhook.metrics.page(Format::Prometheus).unwrap())
}

fn wait(mark: Option<Mark>) -> Ruling {
    let (cause, retry) = (Cause::EvictionWaitsForBudget, Duration::from_secs(5));
    Ruling::Wait { cause, retry, uid: Uid::new("u-1"), mark }
}

#[tokio::test]
async fn an_eviction_that_waits_is_answered_with_429_and_when_to_ask_again() {
    let (response, page) = evicted(wait(None), false).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(429)));
    assert_eq!(response["status"]["details"]["retryAfterSeconds"], 5);
    let said = response["status"]["message"].as_str().unwrap();
    assert!(said.contains("pod shop/web cannot be evicted yet: its PodDisruptionBudget"), "{said}");
    let counted = "headgate_eviction_requests_total{answer=\"wait\",reason=\"EvictionWaitsForBudget\"} 1";
    assert!(page.contains(counted), "{page}");
}

#[tokio::test]
async fn what_cannot_be_known_or_decided_is_let_through() {
    for (ruling, reason) in [
        (Ruling::Regardless(Cause::NobodyDecides, Uid::new("u-1")), "EvictionUnsafe"),
        (Ruling::Regardless(Cause::GraceCutsHold, Uid::new("u-1")), "EvictionUnsafe"),
        (Ruling::Pass(Cause::BindingsUnknown), "NotListedYet"),
    ] {
        let (response, page) = evicted(ruling, false).await;
        assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
        let counted = format!("headgate_eviction_requests_total{{answer=\"pass\",reason=\"{reason}\"}} 1");
        assert!(page.contains(&counted), "{page}");
    }
}

/// A cluster with one node in the given state. `None`: the node cannot be read.
struct OneNode(Option<NodeFacts>);

impl ReadNode for OneNode {
    fn read<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Option<NodeFacts>, Failure>> {
        assert_eq!(node, "n");
        let denied = || Failure::new(FailureClass::Denied, "403", "no");
        Box::pin(std::future::ready(self.0.clone().map(Some).ok_or_else(denied)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_hold_is_let_through_if_its_node_is_read_and_remains_and_that_is_said_once() {
    let open = NodeFacts { takes_pods: true, ..NodeFacts::default() };
    for (node, passes) in [(Some(open), true), (Some(NodeFacts::default()), false), (None, false)] {
        let mark = Mark::Asked(Asked::first(WallTime::default()));
        let asks = Ruling::AskNode { node: "n".into(), retry: LONGEST_RETRY, uid: Uid::new("u-1"), mark };
        let mut webhook = engine_that_rules(1, asks);
        webhook.evicting.nodes = NodeReads::new(OneNode(node), Signals::default(), webhook.clock);
        for _ in 0..2 {
            let (_, answer) = post_to(PATH, &webhook, eviction(false)).await;
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["response"]["allowed"], passes);
        }
        let page = webhook.metrics.page(Format::Prometheus).unwrap();
        let (answer, reason) = if passes { ("pass", "HoldMissing") } else { ("wait", "EvictionWaits") };
        let counted =
            format!("headgate_eviction_requests_total{{answer=\"{answer}\",reason=\"{reason}\"}} 2");
        assert!(page.contains(&counted), "{page}");
        assert_eq!(page.contains("headgate_notices_total{reason=\"HoldMissing\"} 1"), passes, "{page}");
        let noted = format!("headgate_leaving_notes_waiting {}", u8::from(!passes));
        assert!(page.contains(&noted), "it is noted only if it waits: {page}");
    }
}

/// An engine that needs `millis` milliseconds for each query, and requires a record on each pod.
fn engine_that_takes(millis: u64) -> Webhook {
    engine_that_rules(millis, wait(Some(Mark::Asked(Asked::first(WallTime::default())))))
}

/// An engine that needs `millis` milliseconds for each query, and always returns `ruling`.
fn engine_that_rules(millis: u64, ruling: Ruling) -> Webhook {
    let (mut webhook, (questions, mut asked)) = (webhook(), mpsc::channel(QUEUE));
    webhook.asking.questions = questions;
    let pulse = webhook.asking.pulse.clone();
    tokio::spawn(async move {
        while let Some(question) = asked.recv().await {
            sleep(Duration::from_millis(millis)).await;
            pulse.beat(true);
            if let Question::MayEvict { answer, .. } = question {
                let _ = answer.send(ruling.clone());
            }
        }
    });
    webhook
}

/// A writer that is slower than the API server's timeout.
struct Slow;

impl Writer for Slow {
    async fn write(&self, _: &Note) -> Result<(), Failure> {
        sleep(Duration::from_secs(4)).await;
        Ok(())
    }
}

/// Sends a thousand evictions at once, and returns the number of answers with each reason.
async fn storm(webhook: &Webhook) -> Vec<(String, usize)> {
    let room = Room::default();
    let connections = Connections::new("webhook", LIMITS, webhook.metrics.clone(), webhook.clock);
    let all = (0..1000).map(|at| {
        let mut review: Value = serde_json::from_str(&eviction(false)).unwrap();
        review["request"]["name"] = format!("web-{at}").into();
        let request = HttpRequest::post(PATH).body(Full::from(review.to_string())).unwrap();
        let (webhook, room, connection) = (&webhook, &room, connections.enter([127, 0, 0, 1].into()));
        async move {
            let response = webhook.respond(request, &connection, room).await;
            assert_eq!(response.status(), 200);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let answer: Value = serde_json::from_slice(&body).unwrap();
            let response = &answer["response"];
            assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(429)));
            let seconds = response["status"]["details"]["retryAfterSeconds"].as_u64().unwrap();
            assert!((1..=5).contains(&seconds), "{seconds}");
        }
    });
    futures::future::join_all(all).await;
    let page = webhook.metrics.page(Format::Prometheus).unwrap();
    let counted = page.lines().filter_map(|line| {
        let line = line.strip_prefix("headgate_eviction_requests_total{answer=\"wait\",reason=\"")?;
        let (reason, count) = line.split_once("\"} ")?;
        Some((reason.to_owned(), count.parse().unwrap()))
    });
    let mut counted: Vec<_> = counted.collect();
    counted.sort();
    counted
}

#[tokio::test(start_paused = true)]
async fn a_thousand_evictions_at_once_are_all_told_to_ask_again_however_long_a_note_takes() {
    let webhook = engine_that_takes(1);
    tokio::spawn(webhook.evicting.notes.clone().write(Slow));
    let began = webhook.clock.now();
    assert_eq!(storm(&webhook).await, [("EvictionWaitsForBudget".into(), 1000)]);
    let took = webhook.clock.since(began);
    assert!(took < EVICTION, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn evictions_that_find_headgate_too_busy_are_told_so_in_time() {
    let webhook = engine_that_takes(100);
    let began = webhook.clock.now();
    let answers = storm(&webhook).await;
    let [(busy, late), (said, known)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((&**said, &**busy), ("EvictionWaitsForBudget", "EvictionWaits"));
    assert!(*known >= 5 && known + late == 1000, "{answers:?}");
    let took = webhook.clock.since(began);
    assert!(took <= EVICTION, "{took:?}");
}

/// A writer whose writes are permanently rejected.
struct Denied;

impl Writer for Denied {
    async fn write(&self, _: &Note) -> Result<(), Failure> {
        Err(Failure::new(FailureClass::Denied, "403", "no"))
    }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_cannot_be_noted_is_let_through_when_it_is_asked_for_again() {
    let webhook = engine_that_takes(1);
    tokio::spawn(webhook.evicting.notes.clone().write(Denied));
    let ask = async || {
        let (_, answer) = post_to(PATH, &webhook, eviction(false)).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["response"]["allowed"].as_bool().unwrap()
    };
    assert!(!ask().await, "nothing is known of it yet");
    sleep(Duration::from_secs(1)).await;
    assert!(ask().await);
    let page = webhook.metrics.page(Format::Prometheus).unwrap();
    assert!(page.contains("{answer=\"pass\",reason=\"EvictionUnsafe\"} 1"), "{page}");
    assert!(!ask().await, "it is tried anew");
}

#[tokio::test]
async fn a_dry_run_of_an_eviction_is_let_through_and_nobody_is_asked() {
    let (response, page) = evicted(wait(None), true).await;
    assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
    assert!(!page.contains("headgate_eviction_requests_total{"), "{page}");
}

/// The JSON pointers of all values in a document.
fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                places(inner, &format!("{here}/{}", escaped(key)), all);
            }
        }

        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, inner)| places(inner, &format!("{here}/{at}"), all));
        }
        _ => {}
    }
}

fn odd(random: &mut fastrand::Rng) -> Value {
    match random.u8(0..12) {
        0 => Value::Null,
        1 => json!({}),
        2 => json!([]),
        3 => json!(-1),
        4 => json!(u64::MAX),
        5 => json!(1e300),
        6 => json!(""),
        7 => json!("x".repeat(random.usize(0..100_000))),
        8 => json!([null, {"name": null}, 7, [[]]]),
        9 => json!({"a/b~c": {"": [true]}}),
        10 => json!("Always; HoldAdded: 4294967295h in , (; \u{0}ä"),
        _ => json!(true),
    }
}

/// A randomly changed body, which may no longer be valid JSON.
fn bad(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut document = review();
    let mut all = Vec::new();
    places(&document, "", &mut all);
    for _ in 0..random.usize(0..4) {
        let place = &all[random.usize(0..all.len())];
        if let Some(value) = document.pointer_mut(place) {
            *value = odd(random);
        }
    }
    let mut body = document.to_string().into_bytes();
    match random.u8(0..6) {
        0 => body.truncate(random.usize(0..=body.len())),
        1 => (0..random.usize(1..20)).for_each(|_| {
            let at = random.usize(0..body.len());
            body[at] = random.u8(..);
        }),
        2 => body = (0..random.usize(0..2000)).map(|_| random.u8(..)).collect(),
        _ => {}
    }
    body
}

#[tokio::test]
async fn five_thousand_bad_inputs_are_answered_by_a_proper_review_or_a_4xx() {
    let webhook = webhook();
    let (mut answered, mut refused) = (0, 0);
    for seed in 0..5_000 {
        let body = bad(&mut fastrand::Rng::with_seed(seed));
        let (status, answer) = post_to(PATH, &webhook, body.clone()).await;
        let allowed = status == 200 && answer.contains("\"allowed\":true");
        assert!(allowed || (400..500).contains(&status), "seed {seed}: {status} {answer}");
        let (status, answer) = post(&webhook, body.clone()).await;
        if status == 200 {
            answered += 1;
            // The test only checks that the patch applies, not which changes it contains.
            match serde_json::from_slice(&body) {
                Ok(review) => drop(patched(&review, &answer)),
                Err(_) => assert!(answer.contains("\"allowed\":true"), "seed {seed}: {answer}"),
            }
        } else {
            refused += 1;
            assert!((400..500).contains(&status) && !answer.is_empty(), "seed {seed}: {status} {answer}");
        }
    }
    assert!(answered > 500 && refused > 500, "{answered} answered, {refused} refused");
}

//! What goes wrong around Headgate is said once and clearly, counted while it goes on, and said to be over.

use headgate_harness::{
    gateway::Gateway,
    headgate::{Headgate, command},
    proxy::Proxy,
    scenario::{Scenario, http_port},
    shared_world::beside_others,
    wait,
};
use serde_json::Value;

/// The lines about watches.
fn about_watches(headgate: &Headgate) -> Vec<Value> {
    let about = |line: &Value| line["message"].as_str().is_some_and(|said| said.contains("watch"));
    headgate.lines().into_iter().filter(|line| about(line) && line["level"] != "INFO").collect()
}

/// Waits until watches of a kind have failed so often.
async fn wait_failures(headgate: &Headgate, kind: &str, count: f64) {
    let metric = format!("headgate_watch_failures_total{{kind=\"{kind}\"}}");
    wait::until("the watch has failed again and again", || async {
        let failures = headgate.metric(&metric).await.unwrap_or_default();
        if failures >= count { Ok(()) } else { Err(failures) }
    })
    .await;
}

async fn wait_over(headgate: &Headgate) {
    wait::until("headgate says that it is over", || async {
        let over = headgate.logged(|line| {
            line["message"].as_str().is_some_and(|said| said.starts_with("the watches work again, after"))
        });
        if over.len() == 1 { Ok(()) } else { Err(headgate.text()) }
    })
    .await;
}

#[test]
fn an_api_server_that_is_away_is_one_line_and_a_counter() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "flood").await;
        let group = s.web(1).await;
        let proxy = Proxy::to_api_server(s.facts()).await;
        let kubeconfig = proxy.kubeconfig(s.facts(), &s.facts().folder);
        let only = format!("--namespaces={}", s.cluster.namespace);
        let headgate = Headgate::start(s.facts(), &kubeconfig, &[&only]).await;
        s.wait_registered(&group, "web", 1, 8080).await;
        proxy.cut();
        wait_failures(&headgate, "pods", 8.0).await;
        let lines = about_watches(&headgate);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert!(lines[0]["message"].as_str().unwrap().contains("cannot be reached"), "{lines:#?}");
        proxy.heal();
        s.cluster.scale("web", 2).await;
        s.wait_registered(&group, "web", 2, 8080).await;
        wait_over(&headgate).await;
    });
}

#[test]
fn a_kind_that_is_not_there_is_one_line_that_says_what_to_install() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "nocrd").await;
        let gateway = Gateway::to(s.cluster.client.clone()).await;
        gateway.refuse("/targetbindings", 404, "404 page not found");
        let kubeconfig = gateway.kubeconfig(&s.facts().folder);
        let only = format!("--namespaces={}", s.cluster.namespace);
        let headgate = Headgate::start_unready(s.facts(), &kubeconfig, &[&only]).await;
        wait_failures(&headgate, "targetbindings", 8.0).await;
        let lines = about_watches(&headgate);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert!(lines[0]["message"].as_str().unwrap().contains("`headgate crd`"), "{lines:#?}");
        gateway.relent();
        wait_over(&headgate).await;
        wait::until("headgate is ready", || headgate.probe("/readyz")).await;
    });
}

#[test]
fn a_right_that_is_missing_is_one_line_that_says_which() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "noright").await;
        let gateway = Gateway::to(s.cluster.client.clone()).await;
        gateway.refuse("/services", 403, "services is forbidden");
        let kubeconfig = gateway.kubeconfig(&s.facts().folder);
        let only = format!("--namespaces={}", s.cluster.namespace);
        let headgate = Headgate::start_unready(s.facts(), &kubeconfig, &[&only]).await;
        wait_failures(&headgate, "services", 8.0).await;
        let lines = about_watches(&headgate);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let said = lines[0]["message"].as_str().unwrap();
        assert!(said.contains("verbs list and watch on services"), "{said}");
        assert!(!headgate.text().contains("Status {"), "no dumps: {}", headgate.text());
    });
}

/// Starts a Headgate that cannot do anything at AWS, with a Service that waits for it, and waits until it has tried for a
/// while for this `cause`.
async fn without_aws(s: &Scenario, environment: &[(&str, &str)], cause: &str) -> Headgate {
    s.cluster.service("web", "web", http_port(), Some("http=not-reached")).await;
    let only = format!("--namespaces={}", s.cluster.namespace);
    let headgate = Headgate::start_within(s.facts(), &s.facts().kubeconfig, &[&only], environment).await;
    let metric = format!("headgate_aws_unreachable_total{{cause=\"{cause}\"}}");
    wait::until("headgate has tried again and again", || async {
        let failures = headgate.metric(&metric).await.unwrap_or_default();
        if failures >= 5.0 { Ok(()) } else { Err((failures, headgate.text())) }
    })
    .await;
    headgate
}

/// Everything that shows that AWS is out of reach shows it, with this word and this part of the sentence.
async fn is_said_everywhere(s: &Scenario, headgate: &Headgate, reason: &str, part: &str) {
    let lines = headgate.lines();
    assert!(lines.len() <= 10, "{}: {lines:#?}", lines.len());
    let warnings: Vec<_> = lines.iter().filter(|line| line["level"] != "INFO").collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    let said = warnings[0]["message"].as_str().unwrap();
    assert!(warnings[0]["reason"] == reason && said.contains(part) && said.contains("expected"), "{said}");
    assert!(!headgate.text().contains("DispatchFailure"), "no dumps: {}", headgate.text());

    s.cluster.wait_warning("web", reason, part).await;
    let ready = headgate.probe("/readyz").await.unwrap();
    assert!(ready.starts_with("ok\n") && ready.contains(reason) && ready.contains(part), "{ready}");
    assert_eq!(headgate.metric("headgate_aws_reachable").await, Some(0.0));
    let address = format!("--address={}", headgate.debug());
    let own = format!("--own-namespace={}", s.cluster.namespace);
    let (code, said) = command(s.facts(), &["doctor", &address, &own]).await;
    let found = said.lines().find(|line| line.starts_with("error") && line.contains(reason));
    assert!(code == Some(1) && found.is_some_and(|line| line.contains(part)), "{said}");
}

/// The URL of a port at which nobody listens, and what keeps others from it.
fn nobody() -> (tokio::net::TcpSocket, String) {
    let refusing = tokio::net::TcpSocket::new_v4().unwrap();
    refusing.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let endpoint = format!("http://{}", refusing.local_addr().unwrap());
    (refusing, endpoint)
}

#[test]
fn an_aws_that_refuses_connections_is_said_once_and_everywhere() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "refused").await;
        let (_refusing, endpoint) = nobody();
        let environment = [("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", &*endpoint)];
        let headgate = without_aws(&s, &environment, "ConnectionRefused").await;
        is_said_everywhere(&s, &headgate, "AwsUnreachable", &format!("{endpoint} refuses the connection"))
            .await;
    });
}

#[test]
fn an_aws_that_is_away_for_the_first_minute_is_ten_lines_at_most_however_many_services_wait() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "away").await;
        let (_refusing, endpoint) = nobody();
        for at in 0..10 {
            let groups = format!("http=away-{at}-blue,http=away-{at}-green");
            s.cluster.service(&format!("web-{at}"), "web", http_port(), Some(&groups)).await;
        }
        let began = std::time::Instant::now();
        let environment = [("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", &*endpoint)];
        let only = format!("--namespaces={}", s.cluster.namespace);
        let headgate = Headgate::start_within(s.facts(), &s.facts().kubeconfig, &[&only], &environment).await;
        // Said once when it begins, and again when it has lasted for a minute.
        wait::until("headgate says that it goes on", || async {
            let goes_on = |line: &Value| line["message"].as_str().is_some_and(|said| said.contains(" now: "));
            if headgate.logged(goes_on).is_empty() { Err(headgate.lines()) } else { Ok(()) }
        })
        .await;
        assert!(began.elapsed() >= std::time::Duration::from_secs(60));
        let lines = headgate.lines();
        assert!(lines.len() <= 10, "{}: {lines:#?}", lines.len());
        let warnings: Vec<_> = lines.iter().filter(|line| line["level"] != "INFO").collect();
        assert_eq!(warnings.len(), 2, "{warnings:#?}");
        for line in warnings {
            let said = line["message"].as_str().unwrap();
            let names = said.contains(&format!("{endpoint} refuses the connection"));
            assert!(names && said.contains("expected"), "{said}");
        }
        assert!(
            headgate.metric("headgate_aws_unreachable_total{cause=\"ConnectionRefused\"}").await > Some(10.0)
        );
    });
}

#[test]
fn missing_credentials_are_said_once_and_everywhere() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "keyless").await;
        let environment = [
            ("AWS_ACCESS_KEY_ID", ""),
            ("AWS_SECRET_ACCESS_KEY", ""),
            ("AWS_CONFIG_FILE", "/dev/null"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
        ];
        let headgate = without_aws(&s, &environment, "NoCredentials").await;
        is_said_everywhere(&s, &headgate, "NoAwsCredentials", "there are no AWS credentials").await;
    });
}

#[test]
fn a_slip_in_the_name_of_an_annotation_is_an_event_with_the_nearest_name() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "slip").await;
        s.cluster.service("web", "web", http_port(), None).await;
        s.cluster.set_annotation("web", "headgate.dev/target-group", Some("blue")).await;
        let headgate = s.headgate().await;
        s.cluster.wait_warning("web", "UnknownAnnotation", "expected headgate.dev/target-groups").await;
        // Beside what is known, which goes on.
        let group = s.group("api").await;
        s.cluster.deploy("api", 1, &[("http", 8080)]).await;
        s.cluster.service("api", "api", http_port(), Some(&format!("http={}", group.name))).await;
        s.cluster.set_annotation("api", "headgate.dev/hodl", Some("60s")).await;
        s.cluster.wait_warning("api", "UnknownAnnotation", "expected headgate.dev/hold").await;
        s.wait_registered(&group, "api", 1, 8080).await;
        let shown = headgate.probe("/debug/bindings").await.unwrap();
        assert!(shown.contains("headgate.dev/target-group,"), "the doctor sees it: {shown}");
    });
}

#[test]
fn a_namespace_that_does_not_exist_is_said_by_the_log_and_by_the_doctor() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "nowhere").await;
        let arguments = [&*format!("--namespaces={},nope", s.cluster.namespace)];
        let headgate = Headgate::start(s.facts(), &s.facts().kubeconfig, &arguments).await;
        headgate.wait_leads().await;
        wait::until("the namespace is missed", || async {
            let said = headgate.lines().into_iter().find(|line| line["namespace"] == "nope");
            said.ok_or_else(|| headgate.text())
        })
        .await;
        let address = format!("--address={}", headgate.debug());
        let own = format!("--own-namespace={}", s.cluster.namespace);
        let (_, said) = command(s.facts(), &["doctor", &address, &own]).await;
        assert!(said.contains("NamespaceMissing  namespace nope"), "{said}");
    });
}

#[test]
fn a_level_that_does_not_exist_is_an_error_that_names_those_that_do() {
    beside_others(|world| async move {
        let (code, said) = command(world.facts(), &["run", "--log=debugg"]).await;
        assert!(
            code == Some(2) && said.contains("\"debugg\" is no level; expected error, warn, info"),
            "{said}"
        );
    });
}

#[test]
fn a_namespace_of_its_own_that_is_not_there_is_said_once() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "nohome").await;
        let only = format!("--namespaces={}", s.cluster.namespace);
        let arguments = [&*only, "--own-namespace=not-there"];
        let headgate = Headgate::start_unready(s.facts(), &s.facts().kubeconfig, &arguments).await;
        wait::until("the lease was asked for again and again", || async {
            let failures = headgate.metric("headgate_lease_failures_total{verb=\"create\"}").await;
            if failures.unwrap_or_default() >= 4.0 { Ok(()) } else { Err(failures) }
        })
        .await;
        let about = |line: &&Value| line["message"].as_str().is_some_and(|said| said.contains("the lease"));
        let lines: Vec<Value> = headgate.lines().iter().filter(about).cloned().collect();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        let error = lines[0]["error"].as_str().unwrap();
        assert!(error.contains("there is no namespace not-there; expected"), "{error}");
    });
}

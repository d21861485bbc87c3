//! Problems around Headgate are reported once and clearly, counted while they last, and reported when they end.

use headgate_harness::{
    gateway::Gateway,
    headgate::{Headgate, command},
    proxy::Proxy,
    scenario::{Scenario, http_port},
    shared_world::beside_others,
    wait,
};
use serde_json::Value;

/// The log lines about watches.
fn about_watches(headgate: &Headgate) -> Vec<Value> {
    let about = |line: &Value| line["message"].as_str().is_some_and(|said| said.contains("watch"));
    headgate.lines().into_iter().filter(|line| about(line) && line["level"] != "INFO").collect()
}

/// Waits until watches of a kind have failed this often.
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
        assert!(lines[0]["message"].as_str().unwrap().contains("is unreachable"), "{lines:#?}");
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

/// Starts a Headgate that cannot use AWS, with a Service that waits for it, and waits until it has failed for some time
/// with this `cause`.
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

/// Checks that everything that shows an unreachable AWS has this reason and this part of the message.
async fn is_said_everywhere(s: &Scenario, headgate: &Headgate, reason: &str, part: &str) {
    let lines = headgate.lines();
    assert!(lines.len() <= 10, "{}: {lines:#?}", lines.len());
    let warnings: Vec<_> = lines.iter().filter(|line| line["level"] != "INFO").collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    let said = warnings[0]["message"].as_str().unwrap();
    assert!(warnings[0]["reason"] == reason && said.contains(part), "{said}");
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

/// The URL of a port on which nothing listens, and the socket that reserves it.
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
        is_said_everywhere(&s, &headgate, "AwsUnreachable", &format!("{endpoint} refuses connections")).await;
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

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
            is_said_everywhere(&s, &headgate, "NoAwsCredentials", "No AWS credentials").await;
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
            assert!(said.contains("NamespaceNotServed  namespace nope"), "{said}");
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
            let about =
                |line: &&Value| line["message"].as_str().is_some_and(|said| said.contains("the Lease"));
            let lines: Vec<Value> = headgate.lines().iter().filter(about).cloned().collect();
            assert_eq!(lines.len(), 1, "{lines:#?}");
            let error = lines[0]["error"].as_str().unwrap();
            assert!(error.contains("there is no namespace not-there. Create"), "{error}");
        });
    }
}

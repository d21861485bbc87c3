//! A replica of Headgate: a process that can be killed, and restarted at the same address.

use std::path::PathBuf;

use headgate_harness::{headgate::Headgate, proxy::Proxy, wait};
use localstack_world::Facts;

/// The settings of a Lease: duration, renew deadline, retry period.
pub type Lease = [&'static str; 3];

/// The arguments for a Lease.
pub fn lease_arguments(lease: Lease) -> [String; 3] {
    let [duration, deadline, retry] = lease;
    [
        format!("--lease-duration={duration}"),
        format!("--lease-renew-deadline={deadline}"),
        format!("--lease-retry-period={retry}"),
    ]
}

/// A running replica.
pub struct Replica {
    /// Its process.
    pub headgate: Headgate,
    started_with: Start,
}

/// The start settings of a replica.
pub struct Start {
    facts: Facts,
    kubeconfig: PathBuf,
    arguments: Vec<String>,
    ways: Option<Ways>,
    /// The logs of its earlier processes.
    log: String,
}

/// Connections that can be interrupted.
pub struct Ways {
    /// To AWS.
    pub aws: Proxy,
    /// To the API server.
    pub api_server: Proxy,
}

impl Start {
    /// A replica that connects to AWS and the API server directly.
    pub fn new(facts: &Facts, arguments: Vec<String>) -> Self {
        let (facts, kubeconfig) = (facts.clone(), facts.kubeconfig.clone());
        Self { facts, kubeconfig, arguments, ways: None, log: String::new() }
    }

    /// A replica whose connections can be interrupted.
    pub async fn with_ways(facts: &Facts, arguments: Vec<String>) -> Self {
        let ways = Ways { aws: Proxy::to_aws(facts).await, api_server: Proxy::to_api_server(facts).await };
        let kubeconfig = ways.api_server.kubeconfig(facts, &facts.folder);
        Self { kubeconfig, ways: Some(ways), ..Self::new(facts, arguments) }
    }

    /// Starts the process, and waits until it is ready.
    pub async fn start(self) -> Replica {
        let endpoint = self.ways.as_ref().map(|ways| format!("http://{}", ways.aws.address()));
        let environment: Vec<(&str, &str)> = endpoint
            .iter()
            .map(|endpoint| ("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", &**endpoint))
            .collect();
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let headgate = Headgate::start_within(&self.facts, &self.kubeconfig, &arguments, &environment).await;
        wait::until("headgate is ready", || headgate.probe("/readyz")).await;
        Replica { headgate, started_with: self }
    }
}

impl Replica {
    /// Its connections.
    ///
    /// # Panics
    /// It was started without them.
    pub fn ways(&self) -> &Ways {
        self.started_with.ways.as_ref().expect("a replica whose connections can be cut")
    }

    /// Kills it with SIGKILL. Returns the settings of a successor at the same address.
    pub async fn kill(self) -> Start {
        let (log, Self { headgate, mut started_with }) = (self.log(), self);
        started_with.log = log;
        for argument in &mut started_with.arguments {
            if argument.starts_with("--webhook-address=") {
                *argument = format!("--webhook-address={}", headgate.webhook().await);
            }
        }
        headgate.kill().await;
        started_with
    }

    /// The logs of its processes.
    pub fn log(&self) -> String {
        format!("{}{}\n", self.started_with.log, self.headgate.text())
    }
}

/// The index of the leader, if exactly one leads.
pub async fn leader(replicas: &[Replica]) -> Option<usize> {
    let mut leading = Vec::new();
    for (at, replica) in replicas.iter().enumerate() {
        if replica.headgate.leads().await {
            leading.push(at);
        }
    }
    match leading[..] {
        [leader] => Some(leader),
        _ => None,
    }
}

/// Waits until all are ready and one leads. Returns its index.
pub async fn wait_recovered(replicas: &[Replica]) -> usize {
    wait::until("all replicas are ready, and one leads", || async {
        for replica in replicas {
            replica.headgate.probe("/readyz").await?;
        }
        leader(replicas).await.ok_or_else(|| "not one leads".to_owned())
    })
    .await
}

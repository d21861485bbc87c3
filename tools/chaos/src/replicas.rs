//! Two replicas of Headgate with one Lease, each with ways of its own to the API server and to AWS.

use std::path::PathBuf;

use headgate_harness::{headgate::Headgate, proxy::Proxy, wait};
use localstack_world::Facts;

/// The Lease of both: duration, renew deadline, retry period.
const LEASE: [&str; 3] = ["--lease-duration=4s", "--lease-renew-deadline=3s", "--lease-retry-period=500ms"];

/// A replica that runs.
pub struct Replica {
    /// Its process.
    pub headgate: Headgate,
    /// What it is started with.
    ways: Ways,
}

/// How a replica is reached and what it reaches, for as long as the run lasts.
pub struct Ways {
    /// To AWS.
    pub aws: Proxy,
    /// To the API server.
    pub api_server: Proxy,
    facts: Facts,
    kubeconfig: PathBuf,
    arguments: Vec<String>,
    /// What its processes before this one have logged.
    log: String,
}

impl Replica {
    /// Starts the first process of a replica, with these arguments besides its Lease.
    pub async fn first(facts: &Facts, arguments: &[String]) -> Self {
        let (aws, api_server) = (Proxy::to_aws(facts).await, Proxy::to_api_server(facts).await);
        let kubeconfig = api_server.kubeconfig(facts, &facts.folder);
        let webhook = ["--webhook-address=127.0.0.1:0", "--webhook-names=127.0.0.1"];
        let own = LEASE.iter().chain(&webhook).map(|argument| (*argument).to_owned());
        let arguments = own.chain(arguments.iter().cloned()).collect();
        let ways = Ways { aws, api_server, facts: facts.clone(), kubeconfig, arguments, log: String::new() };
        let mut replica = ways.start().await;
        // Others come to the same address, which the API server calls.
        let address = format!("--webhook-address={}", replica.headgate.webhook().await);
        for argument in &mut replica.ways.arguments {
            if argument.starts_with("--webhook-address=") {
                argument.clone_from(&address);
            }
        }
        replica
    }

    /// Its ways.
    pub fn ways(&self) -> &Ways {
        &self.ways
    }

    /// Kills it with SIGKILL; gives what another process of it needs.
    pub async fn kill(mut self) -> Ways {
        self.ways.log = self.log();
        self.headgate.kill().await;
        self.ways
    }

    /// What its processes have logged.
    pub fn log(&self) -> String {
        format!("{}{}\n", self.ways.log, self.headgate.text())
    }
}

impl Ways {
    /// Starts a process, and waits until it is ready.
    pub async fn start(self) -> Replica {
        let endpoint = format!("http://{}", self.aws.address());
        let environment = [("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", &*endpoint)];
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        // A replica that is up for half an hour need not remember each detail.
        let arguments = [&["--log=info"][..], &arguments].concat();
        let headgate = Headgate::start_within(&self.facts, &self.kubeconfig, &arguments, &environment).await;
        wait::until("headgate is ready", || headgate.probe("/readyz")).await;
        Replica { headgate, ways: self }
    }
}

/// Which of them leads, if exactly one does.
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

/// Waits until all are ready and one leads; gives which.
pub async fn wait_recovered(replicas: &[Replica]) -> usize {
    wait::until("all replicas are ready, and one leads", || async {
        for replica in replicas {
            replica.headgate.probe("/readyz").await?;
        }
        leader(replicas).await.ok_or_else(|| "not one leads".to_owned())
    })
    .await
}

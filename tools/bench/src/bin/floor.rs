//! The floor of `make bench`: the least that a program needs which watches pods and calls AWS.
//!
//! It has Headgate's own watch, slim types, client and connection settings, and sends one AWS call for each event, at
//! once. It has no ledger, no limits, no retries, and no state except the registered targets.
//! `floor [--namespace=NAME] APP=ARN ...` registers pods with the label `app: APP` at port 8080.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a failure ends the program with a message

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use headgate::{
    aws::TargetGroups,
    kube::{
        client,
        watch::{Following, Relists, Watches},
        watch_failures::WatchFailures,
    },
    metrics::{Level, Metrics},
    runtime::{clock::Clock, views::Views},
};
use headgate_core::{
    Call, CallItem, Cause, Change, Input, Moment, Scope, Target,
    model::{object::Uid, pod::PodFacts, target_group::TargetGroupArn},
};
use tokio::sync::mpsc;

const PORT: u16 = 8080;

struct Floor {
    aws: TargetGroups,
    groups: BTreeMap<String, TargetGroupArn>,
    registered: HashMap<Uid, (TargetGroupArn, Target)>,
}

#[tokio::main]
async fn main() {
    rustls::crypto::aws_lc_rs::default_provider().install_default().expect("the first TLS provider");
    let (mut scope, mut groups) = (Scope::Cluster, BTreeMap::new());
    for argument in std::env::args().skip(1) {
        match argument.split_once('=').expect("--namespace=NAME or APP=ARN") {
            ("--namespace", name) => scope = Scope::Namespace(name.into()),
            (app, arn) => {
                groups.insert(app.to_owned(), TargetGroupArn::parse(arn).expect("an ARN"));
            }
        }
    }
    let (inbox, mut inputs) = mpsc::channel(4096);
    let watches = Watches {
        client: client::connect().await.expect("a cluster"),
        inbox,
        following: Following {
            clock: Clock::start(),
            metrics: Arc::new(Metrics::new(Arc::new(Views::default()), Clock::start(), Level::Default)),
            failures: WatchFailures::default(),
        },
        relists: Relists::new(&[]),
    };
    tokio::spawn(watches.pods(scope));
    let aws = TargetGroups::connect().await.expect("AWS");
    let mut floor = Floor { aws, groups, registered: HashMap::new() };
    while let Some(input) = inputs.recv().await {
        let Input::Pod { change, .. } = input else { continue };
        match change {
            Change::Applied(pod) => floor.applied(pod),
            Change::Deleted(pod) => floor.gone(pod),
            Change::Relisted(_, pods) => {
                for pod in pods {
                    floor.applied(pod);
                }
                eprintln!("ready");
            }
        }
    }
}

impl Floor {
    fn applied(&mut self, pod: PodFacts) {
        let Some(group) = pod.labels.get("app").and_then(|app| self.groups.get(app)) else { return };
        if pod.terminating || pod.finished {
            return self.gone(pod);
        }
        let Some(ip) = pod.ips.first() else { return };
        let (group, target) = (group.clone(), Target::new(*ip, PORT));
        if self.registered.insert(pod.uid.clone(), (group.clone(), target)).is_none() {
            self.call(Call::Register { group, items: vec![item(pod, target)] });
        }
    }

    fn gone(&mut self, pod: PodFacts) {
        if let Some((group, target)) = self.registered.remove(&pod.uid) {
            self.call(Call::Deregister { group, items: vec![item(pod, target)] });
        }
    }

    fn call(&self, call: Call) {
        let aws = self.aws.clone();
        tokio::spawn(async move {
            if let Err(failure) = aws.make(&call).await {
                eprintln!("{}: {}", call.action(), failure.message);
            }
        });
    }
}

fn item(pod: PodFacts, target: Target) -> CallItem {
    CallItem { target, pod: pod.key, uid: pod.uid, reason: Cause::PodHasIp, since: Moment::START, attempt: 1 }
}

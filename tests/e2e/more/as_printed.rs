//! The commands on quick-start pages work: they are typed as printed, and must print the output below them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use headgate_harness::{
    headgate::{Headgate, beside, command},
    lbc::{INJECT, Lbc, bind},
    rights,
    scenario::{Scenario, http_port},
    shared_world::beside_others,
    typed::{Step, Terminal, blocks, has_aws_cli, page},
    wait,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

/// The address for the commands. They cannot find a Headgate that is not a pod.
struct Address(PathBuf);

impl Address {
    fn of(s: &Scenario) -> Self {
        Self(s.facts().folder.join(format!("{}-asked", s.cluster.namespace)))
    }

    fn leads_to(&self, headgate: &Headgate) {
        std::fs::write(&self.0, headgate.debug()).unwrap();
    }
}

/// A terminal with this kubeconfig, in which `headgate` uses that address and these flags of `migrate`.
async fn terminal(s: &Scenario, address: &Address, kubeconfig: &Path, migrate: &str) -> Terminal {
    let mut terminal = Terminal::in_world(s.facts(), &[("KUBECONFIG", kubeconfig.to_str().unwrap())]);
    let (program, address) = (beside("headgate"), address.0.display());
    let (program, own) = (program.display(), &s.cluster.namespace);
    let asks = format!(
        "headgate() {{ local more; [ \"$1\" = migrate ] && more='--own-namespace={own} {migrate}'; \
         '{program}' \"$@\" --address=\"$(cat '{address}')\" $more; }}"
    );
    assert_eq!(terminal.run(&asks).await.1, 0);
    terminal
}

/// The steps of a page or its section, with these names.
fn steps(name: &str, section: Option<&str>, names: &[(&str, &str)]) -> Vec<Step> {
    let rename = |text: &str| names.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    blocks(&page(name, section)).concat().iter().map(|step| step.renamed(rename)).collect()
}

/// Waits until `headgate status` shows this.
async fn wait_status(s: &Scenario, headgate: &Headgate, says: &str) {
    let address = format!("--address={}", headgate.debug());
    wait::until(&format!("the status says: {says}"), || async {
        let (_, said) = command(s.facts(), &["status", &address]).await;
        if said.contains(says) { Ok(()) } else { Err(said) }
    })
    .await;
}

#[test]
fn the_runbook_for_unhealthy_targets_is_as_printed() {
    if !has_aws_cli() {
        eprintln!("there is no AWS CLI here: docs/operate/runbook.md is not tested");
        return;
    }
    beside_others(|world| async move {
        let s = Scenario::new(world, "pager").await;
        let group = s.group("web").await;
        let modify = s.aws.client().modify_target_group().target_group_arn(&group.arn);
        modify.health_check_interval_seconds(5).health_check_timeout_seconds(2).send().await.unwrap();
        let headgate = s.headgate().await;
        s.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        wait_status(&s, &headgate, "1 target group").await;
        s.cluster.deploy("web", 3, &[("http", 8080)]).await;
        wait_status(&s, &headgate, "3 of 3 wanted targets healthy").await;
        // Nothing listens there.
        let modify = s.aws.client().modify_target_group().target_group_arn(&group.arn);
        modify.health_check_port("9").send().await.unwrap();
        let address = Address::of(&s);
        address.leads_to(&headgate);
        let mut terminal = terminal(&s, &address, &s.facts().kubeconfig, "").await;
        let names = [("web-1", &*group.name), ("shop", &s.cluster.namespace)];
        let steps = steps("operate/runbook.md", Some("Targets are unhealthy"), &names);
        assert!(steps.len() >= 8, "{steps:#?}");
        for step in &steps {
            terminal.follow(step).await;
        }
    });
}

/// A Headgate in place of a Deployment's pods: scaling the Deployment to 0 stops it.
async fn run_as_deployment(s: &Scenario, address: &Address) {
    let own = s.cluster.api::<Deployment>();
    let mut running = None;
    loop {
        let wanted = own.get("headgate").await.unwrap().spec.unwrap().replicas != Some(0);
        match running.take() {
            None if wanted => {
                let headgate = s.headgate().await;
                address.leads_to(&headgate);
                running = Some(headgate);
            }
            Some(headgate) if !wanted => drop(headgate.terminate().await),
            other => running = other,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[test]
fn the_way_from_lbc_and_back_goes_as_printed() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "lbc-page").await;
        let namespaces: Api<Namespace> = Api::all(s.cluster.client.clone());
        let label = json!({"metadata": {"labels": {INJECT: "enabled"}}});
        namespaces.patch(&s.cluster.namespace, &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
        let group = s.group("web").await;
        let lbc = Lbc::start(&s).await;
        s.cluster.service("web", "web", http_port(), None).await;
        bind(&s.cluster, "web", &group.arn).await;
        s.cluster.deploy("web", 2, &[("http", 8080)]).await;
        s.cluster.deploy("headgate", 1, &[]).await;
        wait::until("two targets are healthy", || async {
            let targets = s.aws.targets(&group.arn).await;
            let healthy = targets.values().filter(|state| *state == "healthy").count();
            if healthy == 2 && targets.len() == 2 { Ok(()) } else { Err(targets) }
        })
        .await;
        let registered = s.aws.registered(&group.arn).await;
        let address = Address::of(&s);
        let its = format!("target group {}", group.name);
        let names = [("target group web", &*its), ("shop", &s.cluster.namespace)];
        let steps = steps("guides/from-lbc.md", None, &names);
        let type_all = async {
            wait::until("Headgate runs", || async { std::fs::read_to_string(&address.0) }).await;
            // A user with only the permissions that the page lists.
            let mover = rights::of_movers(&s, &s.cluster, &lbc.own, &lbc.webhook).await;
            let mut terminal = terminal(&s, &address, &mover, &lbc.flags().join(" ")).await;
            assert_eq!(steps.len(), 3, "{steps:#?}");
            for step in &steps {
                terminal.follow(step).await;
                assert_eq!(s.aws.registered(&group.arn).await, registered, "{step:#?}");
            }
        };
        tokio::select! {
            () = type_all => {}
            () = run_as_deployment(&s, &address) => unreachable!("it goes on"),
        }
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
        lbc.remove().await;
    });
}

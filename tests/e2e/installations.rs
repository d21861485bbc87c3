//! Two installations of Headgate that share their own namespace.

use std::collections::BTreeSet;

use headgate_harness::{
    headgate::{Headgate, command},
    scenario::{Scenario, http_port, targets},
    shared_world::beside_others,
    wait,
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;

/// The flag of the second installation.
const SECOND: &str = "--lease-name=second";

/// The arguments of a Headgate that manages the namespace of `served`, with the namespace of `own` as its own.
fn arguments(own: &Scenario, served: &Scenario, lease: Option<&str>) -> Vec<String> {
    let own = format!("--own-namespace={}", own.cluster.namespace);
    let served = format!("--namespaces={}", served.cluster.namespace);
    [own, served].into_iter().chain(lease.map(str::to_owned)).collect()
}

async fn start(own: &Scenario, served: &Scenario, lease: Option<&str>) -> Headgate {
    let arguments = arguments(own, served, lease);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Headgate::start(own.facts(), &own.facts().kubeconfig, &arguments).await
}

async fn uninstall(own: &Scenario, served: &Scenario, lease: Option<&str>) -> (Option<i32>, String) {
    let arguments = arguments(own, served, lease);
    let all: Vec<&str> =
        ["uninstall", "--remove-targets"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    command(own.facts(), &all).await
}

async fn ledgers(s: &Scenario) -> Vec<String> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("headgate.dev", "v1alpha1", "TargetLedger"));
    let api: Api<DynamicObject> = Api::namespaced_with(s.cluster.client.clone(), &s.cluster.namespace, &kind);
    api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

#[test]
fn two_with_one_lease_are_told_apart_and_the_one_that_does_nothing_says_why() {
    beside_others(|world| async move {
        let (one, two) = (Scenario::new(world, "one").await, Scenario::new(world, "two").await);
        let first = start(&one, &one, None).await;
        first.wait_leads().await;
        let second = start(&one, &two, None).await;
        wait::until_equal("the second knows", &Some(1.0), || second.metric("headgate_lease_conflict")).await;
        let said = second.logged(|line| line["lease"] == "headgate");
        let said = said[0]["message"].as_str().unwrap();
        assert!(said.contains("give each its own --lease-name"), "{said}");
        let leader: Value = serde_json::from_str(&second.probe("/debug/leader").await.unwrap()).unwrap();
        assert_eq!(leader["holderServes"], format!("the namespaces {}", one.cluster.namespace));
        second.probe("/readyz").await.unwrap();
        assert!(!second.leads().await);
        assert_eq!(first.metric("headgate_lease_conflict").await, Some(0.0));

        // As if replicas are replaced by others with different namespaces.
        first.terminate().await;
        second.wait_leads().await;
        wait::until_equal("that is over", &Some(0.0), || second.metric("headgate_lease_conflict")).await;
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn two_with_leases_of_their_own_leave_each_others_targets_alone_even_in_one_target_group() {
        beside_others(|world| async move {
            let (one, two) = (Scenario::new(world, "one").await, Scenario::new(world, "two").await);
            let group = one.web(2).await;
            two.cluster.deploy("web", 1, &[("http", 8080)]).await;
            two.cluster.service("web", "web", http_port(), Some(&group.name)).await;
            let first = start(&one, &one, None).await;
            let of_one = one.wait_registered(&group, "web", 2, 8080).await;
            let second = start(&one, &two, Some(SECOND)).await;
            let of_two = targets(&two.cluster.wait_running("web", 1).await, 8080);
            let mut all = targets(&of_one, 8080);
            all.extend(of_two.clone());
            one.wait_targets(&group, &all).await;
            assert!(first.leads().await && second.leads().await);
            wait::until("each has a ledger of its own", || async {
                let names = ledgers(&one).await;
                let second = names.iter().filter(|name| name.ends_with(".second")).count();
                if (names.len(), second) == (2, 1) { Ok(()) } else { Err(names) }
            })
            .await;

            // When the first installation runs again, it deregisters the pods that terminated in the meantime. The
            // other one does not.
            first.terminate().await;
            // Before an address becomes free that this pod could get.
            two.cluster.scale("web", 2).await;
            let of_two = targets(&two.cluster.wait_running("web", 2).await, 8080);
            one.cluster.scale("web", 1).await;
            one.wait_quiet("web", 1).await;
            second.terminate().await;
            let second = start(&one, &two, Some(SECOND)).await;
            let all: BTreeSet<String> = targets(&of_one, 8080).union(&of_two).cloned().collect();
            one.wait_targets(&group, &all).await;
            assert_eq!(one.aws.calls("DeregisterTargets", &group.name).await, []);

            second.terminate().await;
            let (code, said) = uninstall(&one, &two, None).await;
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains(&format!("managed the namespaces {}", one.cluster.namespace)), "{said}");
            let (code, said) = uninstall(&one, &two, Some(SECOND)).await;
            assert_eq!(code, Some(0), "{said}");
            one.wait_targets(&group, &targets(&of_one, 8080)).await;
            assert_eq!(ledgers(&one).await.len(), 1);
        });
    }
}

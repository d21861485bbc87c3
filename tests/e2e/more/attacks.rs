//! Objects of a careless or hostile tenant, at sizes that once stopped every replica, and their effect on another
//! tenant's pods.

use std::{collections::BTreeSet, fs, net::SocketAddr, time::Duration};

use headgate_harness::{
    aws::Group,
    hostile::{
        large_pod, large_selector, many, names_that_do_not_exist, never_started, slow_reader,
        touch_large_selector,
    },
    scenario::{http_port, targets},
    shared_world::alone,
    tenants::Tenants,
    wait,
};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::json;

/// The maximum wait of another tenant for an action that takes milliseconds without an attack.
const SOON: Duration = Duration::from_secs(5);

/// The resident memory of a process in MiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

/// Deletes a pod of tenant A, and waits until it is deregistered.
async fn delete_one(t: &Tenants, group: &Group) {
    let running = t.a.running("web").await;
    let (pod, _) = running.first_key_value().unwrap();
    let target = targets(&running.clone().into_iter().take(1).collect(), 8080);
    t.a.end_pod(pod).await;
    wait::within(SOON, "the deletion has reached AWS", || async {
        let calls = t.s.aws.calls("DeregisterTargets", &group.name).await;
        let told = calls.into_iter().flat_map(|(targets, _)| targets);
        if told.into_iter().any(|told| target.contains(&told)) { Ok(()) } else { Err(()) }
    })
    .await;
}

#[test]
fn fifty_thousand_labels_and_as_many_of_a_selector_keep_no_other_tenant_waiting() {
    alone(|world| async move {
        let t = Tenants::new(world, "labels").await;
        let (group, theirs) = (t.s.group("web").await, t.s.group("evil").await);
        t.bind(&t.a, &group, 3).await;
        let _headgate = t.headgate(&[]).await;
        t.s.wait_targets(&group, &t.targets(&t.a, 3).await).await;

        large_selector(&t.b, &theirs.name).await;
        t.b.wait_warning("large-pod", "LimitExceeded", "the labels of a pod").await;
        t.b.wait_warning("large", "LimitExceeded", "the selector of a Service").await;
        for _ in 0..2 {
            // Each write is an event for every replica.
            for at in 0..5 {
                touch_large_selector(&t.b, at).await;
            }
            delete_one(&t, &group).await;
            t.s.wait_targets(&group, &t.targets(&t.a, 3).await).await;
        }
    });
}

#[test]
fn names_of_target_groups_that_do_not_exist_keep_no_other_tenant_s_from_being_looked_up() {
    alone(|world| async move {
        let t = Tenants::new(world, "names").await;
        let headgate = t.headgate(&[]).await;
        names_that_do_not_exist(&t.b).await;
        t.b.wait_warning("s0", "TargetGroupNotFound", "aaa-0-").await;

        let group = t.s.group("zzz").await;
        t.a.deploy_gated("web", 2, &[("http", 8080)]).await;
        t.a.wait_running("web", 2).await;
        t.a.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        wait::within(SOON, "it is looked up, and its pods are registered", || async {
            let registered = t.s.aws.registered(&group.arn).await;
            if registered.len() == 2 { Ok(()) } else { Err(registered) }
        })
        .await;
        t.a.wait_gates("web", 2, "True", "TargetsHealthy").await;
        let calls = headgate.sum("headgate_aws_calls_total", &[("action", "DescribeTargetGroups")]).await;
        assert!(calls.is_some_and(|calls| calls > 8.0), "{calls:?}");
    });
}

#[test]
fn two_hundred_bad_parts_are_one_event_and_keep_none_of_another_tenant_back() {
    alone(|world| async move {
        let t = Tenants::new(world, "parts").await;
        let headgate = t.headgate(&[]).await;
        let parts: Vec<String> = (0..200).map(|at| format!("no_port{at}=")).collect();
        for service in 0..20 {
            t.b.service(&format!("s{service:02}"), "web", http_port(), Some(&parts.join(","))).await;
        }
        t.a.service("web", "web", http_port(), Some("oops=")).await;
        t.a.wait_warning("web", "InvalidBinding", "oops").await;
        t.b.wait_warning("s19", "InvalidBinding", " more)").await;
        assert_eq!(t.b.warnings("s00").await.len(), 1);
        let lines = headgate.logged(|line| line["object"] == format!("{}/s00", t.b.namespace));
        assert_eq!(lines.len(), 1, "{lines:?}");
    });
}

#[test]
fn pods_with_large_labels_that_come_and_go_leave_no_memory_behind() {
    alone(|world| async move {
        let t = Tenants::new(world, "memory").await;
        let group = t.s.group("web").await;
        t.bind(&t.a, &group, 2).await;
        let headgate = t.headgate(&[]).await;
        t.s.wait_targets(&group, &t.targets(&t.a, 2).await).await;
        // 0.9 MB each, and each with another workload.
        for at in 0..40 {
            large_pod(&t.b, at).await;
        }
        delete_one(&t, &group).await;
        let resident = resident(headgate.pid());
        assert!(resident < 128, "{resident} MiB");
    });
}

/// A user who may write the status of one pod writes another pod's address into it. A kubelet may do that for the pods
/// of its node.
#[test]
fn a_status_with_the_address_of_a_pod_on_another_node_takes_no_target_and_both_are_told() {
    alone(|world| async move {
        let t = Tenants::new(world, "forged").await;
        let group = t.s.group("web").await;
        t.a.deploy_gated("web", 2, &[("http", 8080)]).await;
        t.a.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        let headgate = t.headgate(&[]).await;
        t.a.wait_gates("web", 2, "True", "TargetsHealthy").await;
        let running = t.a.running("web").await;
        let (victim, ip) = running.first_key_value().unwrap();

        t.b.create::<Pod>(never_started("forged", &many(1))).await;
        let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}});
        t.b.api::<Pod>()
            .patch_status("forged", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
        t.b.wait_warning("forged", "AddressContested", " on node ").await;
        t.a.wait_warning(victim, "AddressContested", "forged on no node").await;
        wait::until("it is counted", || async {
            let pods = headgate.metric("headgate_contested_pods").await;
            if pods == Some(1.0) { Ok(()) } else { Err(pods) }
        })
        .await;
        assert_eq!(t.named("DeregisterTargets", &group).await, BTreeSet::new());
        t.a.wait_gates("web", 2, "True", "TargetsHealthy").await;
        // It ends when the pod with that address is deleted.
        delete_one(&t, &group).await;
        assert!(!t.s.aws.registered(&group.arn).await.is_empty());
    });
}

/// Connections of one address that request metrics and do not read the answer.
#[test]
fn slow_readers_of_metrics_take_neither_memory_nor_the_kubelet_s_probes_away() {
    alone(|world| async move {
        let t = Tenants::new(world, "readers").await;
        let headgate = t.headgate(&[]).await;
        let admin: SocketAddr = headgate.admin().parse().unwrap();
        let mut readers = Vec::new();
        for _ in 0..400 {
            readers.push(slow_reader(admin).await);
            if readers.len() % 50 == 0 {
                assert!(headgate.probe("/livez").await.is_ok());
            }
        }
        let resident = resident(headgate.pid());
        assert!(resident < 128, "{resident} MiB");
        let open = headgate.sum("headgate_connections", &[("server", "admin")]).await;
        assert!(open.is_none_or(|open| open <= 70.0), "{open:?}");
        assert!(headgate.probe("/readyz").await.is_ok());
    });
}

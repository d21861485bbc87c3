//! Namespaces that do not trust each other: which may bind which target group.

use std::collections::BTreeSet;

use headgate_harness::{
    grants::{self, of},
    headgate::Headgate,
    rights,
    scenario::{Scenario, http_port},
    shared_world::{alone, beside_others},
    tenants::Tenants,
    wait,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

fn all(some: &[&BTreeSet<String>]) -> BTreeSet<String> {
    some.iter().flat_map(|targets| targets.iter().cloned()).collect()
}

#[test]
fn a_service_of_another_namespace_changes_nothing_of_a_target_group_that_it_names() {
    beside_others(|world| async move {
        let t = Tenants::new(world, "attack").await;
        let group = t.s.group("web").await;
        // Older than all objects of A, which must not matter.
        t.b.service("older", "web", http_port(), None).await;
        t.b.deploy("web", 1, &[("http", 8080)]).await;
        t.bind(&t.a, &group, 2).await;
        let foreign = BTreeSet::from([t.s.foreign_target(&group).await]);
        let headgate = t.headgate(&["--read-interval=1s"]).await;
        let of_a = t.targets(&t.a, 2).await;
        t.s.wait_targets(&group, &all(&[&of_a, &foreign])).await;

        t.b.service("web", "web", http_port(), Some(&format!("http={}", group.arn))).await;
        let first = "bound first by namespace";
        t.b.wait_warning("web", "NotGranted", first).await;
        t.b.set_annotation("web", "headgate.dev/paused", Some("true")).await;
        t.b.set_annotation("web", "headgate.dev/ownership", Some("exclusive")).await;
        t.b.annotate("older", Some(&format!("http={}", group.name))).await;
        t.b.wait_warning("older", "NotGranted", first).await;

        // A continues: its pods are registered and deregistered as before.
        t.a.scale("web", 1).await;
        t.s.wait_quiet_in(&t.a, "web", 1).await;
        let of_a = t.targets(&t.a, 1).await;
        t.s.wait_targets(&group, &all(&[&of_a, &foreign])).await;
        t.a.scale("web", 3).await;
        let of_a = t.targets(&t.a, 3).await;
        t.s.wait_targets(&group, &all(&[&of_a, &foreign])).await;
        let seen = format!("headgate_foreign_targets{{target_group=\"{}\"}}", group.name);
        wait::until_equal("the foreign target is read", &Some(1.0), || headgate.metric(&seen)).await;
        let of_b = t.targets(&t.b, 1).await;
        assert!(t.named("RegisterTargets", &group).await.is_disjoint(&of_b));
        assert!(t.named("DeregisterTargets", &group).await.is_disjoint(&foreign));
        assert!(t.a.warnings("web").await.is_empty(), "{:?}", t.a.warnings("web").await);
        let said = t.doctor(&headgate).await;
        let held = format!("no grant names it: namespace {} holds it", t.a.namespace);
        assert!(said.contains(&held) && said.contains("NotGranted"), "{said}");
    });
}

#[test]
fn with_a_grant_for_both_both_bind_and_who_loses_it_keeps_its_targets_and_gets_no_more() {
    beside_others(|world| async move {
        let t = Tenants::new(world, "granted").await;
        let (a, b, admin) = (&*t.a.namespace, &*t.b.namespace, &t.s.cluster);
        let (group, name) = (t.s.group("web").await, t.s.name("grant"));
        grants::write(admin, &name, &of(&group.name, &[a, b])).await.unwrap();
        t.bind(&t.a, &group, 1).await;
        t.bind(&t.b, &group, 1).await;
        let headgate = t.headgate(&[]).await;
        let (of_a, of_b) = (t.targets(&t.a, 1).await, t.targets(&t.b, 1).await);
        t.s.wait_targets(&group, &all(&[&of_a, &of_b])).await;
        let said = t.doctor(&headgate).await;
        let bound =
            format!("the grants {name} name it: these namespaces may bind it: the namespaces {a}, {b}");
        assert!(said.contains(&bound), "{said}");

        grants::change(admin, &name, &of(&group.name, &[a])).await;
        t.b.wait_warning("web", "NotGranted", "Extend TargetGroupGrant").await;
        t.b.scale("web", 2).await;
        let of_both = t.targets(&t.b, 2).await;
        t.a.scale("web", 2).await;
        let of_a = t.targets(&t.a, 2).await;
        t.s.wait_targets(&group, &all(&[&of_a, &of_b])).await;
        assert_eq!(t.s.aws.calls("DeregisterTargets", &group.name).await, []);

        grants::change(admin, &name, &of(&group.name, &[a, b])).await;
        t.s.wait_targets(&group, &all(&[&of_a, &of_both])).await;
        grants::api(admin).delete(&name, &DeleteParams::default()).await.unwrap();
        t.b.wait_warning("web", "NoGrant", "several namespaces share it").await;
        wait::until("the doctor prints the grant that would be needed", || async {
            let said = t.doctor(&headgate).await;
            let lines =
                ["  kind: TargetGroupGrant".to_owned(), format!("    namespaces: {{names: [{a}, {b}]}}")];
            if lines.iter().all(|line| said.contains(line)) { Ok(()) } else { Err(said) }
        })
        .await;
        t.b.scale("web", 3).await;
        let of_b = t.targets(&t.b, 3).await;
        t.s.wait_targets(&group, &all(&[&of_a, &of_b])).await;
    });
}

#[test]
fn with_named_namespaces_grants_count_too_and_without_the_right_to_read_them_it_goes_on() {
    beside_others(|world| async move {
        let t = Tenants::new(world, "named").await;
        let (a, b, own) = (&*t.a.namespace, &*t.b.namespace, &t.s.cluster);
        let (group, label) = (t.s.group("web").await, t.s.name("team"));
        t.bind(&t.a, &group, 1).await;
        t.bind(&t.b, &group, 1).await;
        let spec =
            json!({"targetGroups": [group.name], "namespaces": {"selector": {"matchLabels": {&label: "b"}}}});
        let grant = t.s.name("grant");
        grants::write(own, &grant, &spec).await.unwrap();
        t.label_b(&label, Some("b")).await;
        let arguments = [format!("--namespaces={a},{b}"), format!("--own-namespace={}", own.namespace)];
        let arguments = arguments.each_ref().map(String::as_str);
        let headgate = t.s.headgate_of(&arguments).await;
        t.a.wait_warning("web", "NotGranted", "Extend TargetGroupGrant").await;
        let (of_a, of_b) = (t.targets(&t.a, 1).await, t.targets(&t.b, 1).await);
        t.s.wait_targets(&group, &of_b).await;
        grants::change(own, &grant, &of(&group.name, &[a, b])).await;
        t.s.wait_targets(&group, &all(&[&of_a, &of_b])).await;
        headgate.terminate().await;

        // Roles in the two namespaces only.
        for served in [&t.a, &t.b] {
            rights::grant_within(&t.s, served, "headgate", &rights::rules_of(rights::ROLE)).await;
        }
        rights::grant(&t.s, "headgate-own-namespace", &rights::rules_of(rights::OWN_NAMESPACE)).await;
        let kubeconfig = rights::service_account(&t.s).await;
        let headgate = Headgate::start(t.s.facts(), &kubeconfig, &arguments).await;
        t.a.scale("web", 2).await;
        let of_a = t.targets(&t.a, 2).await;
        t.s.wait_targets(&group, &all(&[&of_a, &of_b])).await;
        let said = headgate.text();
        assert!(said.contains("targetgroupgrants") && said.contains("continuing without them"), "{said}");
        let found = t.doctor(&headgate).await;
        assert!(found.contains("RightMissing"), "{found}");
    });
}

#[test]
fn a_grant_that_makes_no_sense_is_refused_with_what_was_expected() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "nonsense").await;
        let names = json!({"names": ["shop"]});
        let selector = |expression: Value| json!({"selector": {"matchExpressions": [expression]}});
        for (spec, said) in [
            (json!({"namespaces": names}), "spec.targetGroups"),
            (json!({"targetGroups": [], "namespaces": names}), "at least 1 items"),
            (
                json!({"targetGroups": ["a b"], "namespaces": names}),
                "set the name or the ARN of a target group",
            ),
            (json!({"targetGroups": ["web", "web"], "namespaces": names}), "Duplicate value"),
            (json!({"targetGroups": ["web"]}), "spec.namespaces"),
            (json!({"targetGroups": ["web"], "namespaces": {}}), "set the names of namespaces, a selector"),
            (
                json!({"targetGroups": ["web"], "namespaces": {"names": ["shop-*"]}}),
                "for many namespaces, use the selector",
            ),
            (
                json!({"targetGroups": ["web"], "namespaces": selector(json!({"key": "a", "operator": "Like"}))}),
                "supported values",
            ),
            (
                json!({"targetGroups": ["web"], "namespaces": selector(json!({"key": "a", "operator": "In"}))}),
                "set values with In and NotIn",
            ),
            (json!({"targetGroups": ["web"], "namespaces": names, "allow": ["All"]}), "supported values"),
        ] {
            let refused = grants::write(&s.cluster, &s.name("bad"), &spec).await.unwrap_err().to_string();
            assert!(refused.to_lowercase().contains(&said.to_lowercase()), "{spec}: {refused}");
        }
        let good = json!({
            "targetGroups": ["arn:aws:elasticloadbalancing:*:123456789012:targetgroup/none-*"],
            "namespaces": selector(json!({"key": "a/b", "operator": "DoesNotExist"})), "allow": ["Exclusive"],
        });
        grants::write(&s.cluster, &s.name("good"), &good).await.unwrap();
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn without_the_kind_optional_grants_are_given_up_and_taken_up_and_required_ones_are_waited_for() {
        alone(|world| async move {
            let t = Tenants::new(world, "no-grants").await;
            let group = t.s.group("web").await;
            t.bind(&t.a, &group, 1).await;
            let kinds: Api<CustomResourceDefinition> = Api::all(t.s.cluster.client.clone());
            let name = "targetgroupgrants.headgate.dev";
            let kind = kinds.get(name).await.unwrap();
            kinds.delete(name, &DeleteParams::default()).await.unwrap();
            wait::until("the kind is gone", || async {
                if kinds.get_opt(name).await.unwrap().is_none() { Ok(()) } else { Err(()) }
            })
            .await;
            let own = t.arguments();
            let mut arguments: Vec<&str> = own.iter().map(String::as_str).collect();
            arguments.extend(["--grants=required", "--lease-name=strict"]);
            let strict = Headgate::start_unready(t.s.facts(), &t.s.facts().kubeconfig, &arguments).await;
            let headgate = t.headgate(&[]).await;
            let of_a = t.targets(&t.a, 1).await;
            t.s.wait_targets(&group, &of_a).await;
            let said = |headgate: &Headgate, part: &str| {
                let part = part.to_owned();
                headgate.logged(move |line| {
                    line["level"] == "WARN"
                        && line["message"].as_str().is_some_and(|said| said.contains(&part))
                })
            };
            assert_eq!(
                said(&headgate, "continuing without them (--grants=optional)").len(),
                1,
                "{}",
                headgate.text()
            );
            wait::until("the other one says that it waits", || async {
                let said = said(&strict, "Headgate registers and deregisters nothing until they can be read");
                if said.len() == 1 { Ok(()) } else { Err(strict.text()) }
            })
            .await;
            assert!(strict.probe("/readyz").await.unwrap_err().contains("not every watch has listed"));
            let found = t.doctor(&headgate).await;
            assert!(found.contains("NotInstalled") && found.contains("RightMissing"), "{found}");

            let mut again =
                CustomResourceDefinition { spec: kind.spec, ..CustomResourceDefinition::default() };
            again.metadata.name = Some(name.into());
            kinds.create(&PostParams::default(), &again).await.unwrap();
            let (grant, spec) = (t.s.name("grant"), of(&group.name, &[&t.b.namespace]));
            wait::until("there are grants", || grants::write(&t.s.cluster, &grant, &spec)).await;
            t.a.wait_warning("web", "NotGranted", "Extend TargetGroupGrant").await;
            wait::until("the other one is ready", || strict.probe("/readyz")).await;
            assert_eq!(t.s.aws.registered(&group.arn).await, of_a, "what was registered stays for a while");
        });
    }
}

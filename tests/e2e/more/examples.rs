//! The examples: their permissions are those of deploy/iam, cfn-lint accepts the template, and the application gets the
//! gate, the hold and targets.

use std::{collections::BTreeSet, fs, process::Command};

use headgate_harness::{injection::Stage, root, shared_world::beside_others, webhook::Configuration};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use serde_json::Value;

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Words of a text with this prefix.
fn named(text: &str, prefix: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| c.is_whitespace() || ['"', ',', '[', ']'].contains(&c));
    words.filter(|word| word.starts_with(prefix)).map(str::to_owned).collect()
}

#[test]
fn the_role_of_each_example_is_the_tagged_policy() {
    let policy = read("deploy/iam/aws-tagged.json");
    let wanted = named(&policy, "elasticloadbalancing:");
    assert_eq!(wanted.len(), 5, "{wanted:?}");
    // The tag of the condition is on both target groups, which terraform makes from one block.
    for (path, tags) in [("examples/cloudformation/headgate.yaml", 3), ("examples/terraform/main.tf", 2)] {
        let text = read(path);
        assert_eq!(named(&text, "elasticloadbalancing:"), wanted, "{path}");
        for part in ["HeadgateReads", "HeadgateMovesTargets", "aws:ResourceTag/headgate.dev/managed"] {
            assert!(policy.contains(part) && text.contains(part), "{path} has no {part}");
        }
        assert_eq!(text.matches("headgate.dev/managed").count(), tags, "{path}");
    }
}

#[test]
fn cfn_lint_accepts_the_cloudformation_template() {
    let Ok(clients) = std::env::var("HEADGATE_CLIENTS") else {
        eprintln!("there is no cfn-lint here: examples/cloudformation is not checked");
        return;
    };
    let lint = |path: &std::path::Path| {
        Command::new(format!("{clients}/cfn-lint")).arg("--template").arg(path).output().unwrap()
    };
    let template = root().join("examples/cloudformation/headgate.yaml");
    let output = lint(&template);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // The check works: a target type that does not exist is an error.
    let wrong = std::env::temp_dir().join(format!("headgate-example-{}.yaml", std::process::id()));
    fs::write(&wrong, fs::read_to_string(&template).unwrap().replace("TargetType: ip", "TargetType: pod"))
        .unwrap();
    let output = lint(&wrong);
    fs::remove_file(&wrong).unwrap();
    assert!(!output.status.success(), "cfn-lint accepts a target type that does not exist");
}

#[test]
fn the_sample_application_gets_its_gate_its_hold_and_its_targets() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "example").await;
        let Stage { s, labelled, .. } = &stage;
        let group = s.group("web").await;
        let headgate = stage.headgate(&[]).await;
        let configuration = Configuration::install(s, &[&headgate]).await;
        let text = read("examples/app/app.yaml").replace("shop-nlb", &group.name);
        for document in text.split("\n---\n") {
            let mut object: Value = serde_saphyr::from_str(document).unwrap();
            let kind = object["kind"].as_str().unwrap().to_owned();
            if kind == "Namespace" {
                // The test's own namespace has this label too.
                assert_eq!(object["metadata"]["labels"]["headgate.dev/inject"], "true");
                continue;
            }
            object["metadata"]["namespace"] = labelled.namespace.clone().into();
            match kind.as_str() {
                "Deployment" => drop(labelled.create::<Deployment>(object).await),
                "Service" => drop(labelled.create::<Service>(object).await),
                "PodDisruptionBudget" => drop(labelled.create::<PodDisruptionBudget>(object).await),
                other => panic!("the test does not know how to create a {other}"),
            }
        }
        let running = labelled.wait_gates("web", 3, "True", "TargetsHealthy").await;
        assert_eq!(s.aws.registered(&group.arn).await.len(), running.len());
        for name in running.keys() {
            let pod = labelled.api::<Pod>().get(name).await.unwrap();
            let spec = pod.spec.unwrap();
            let hook = spec.containers[0].lifecycle.clone().and_then(|lifecycle| lifecycle.pre_stop);
            assert_eq!(hook.and_then(|hook| hook.sleep).map(|sleep| sleep.seconds), Some(150), "{name}");
            assert_eq!(spec.termination_grace_period_seconds, Some(180), "{name}");
        }
        configuration.remove().await;
        headgate.terminate().await;
    });
}

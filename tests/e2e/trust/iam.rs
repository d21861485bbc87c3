//! The IAM policies in `deploy/iam`: exactly the five actions, in every partition of AWS. `make iam` writes them.

use std::{collections::BTreeSet, fs};

use headgate_harness::{
    helm::{block, deployment, of_kind, rendered},
    root,
};
use serde_json::{Value, json};

const PARTITIONS: [&str; 4] = ["aws", "aws-cn", "aws-us-gov", "aws-eusc"];
/// The line of the template for the tagged policies only.
const TAGGED: &str =
    ",\n      \"Condition\": {\"StringEquals\": {\"aws:ResourceTag/headgate.dev/managed\": \"true\"}}";

#[test]
fn the_policies_are_the_template_with_their_partition() {
    let folder = root().join("deploy/iam");
    let template = fs::read_to_string(folder.join("template.json")).unwrap();
    assert!(template.contains(TAGGED), "template.json has no line with the condition on the tag");
    for partition in PARTITIONS {
        let tagged = template.replace("PARTITION", partition);
        for (name, wanted) in
            [(partition.to_owned(), tagged.replace(TAGGED, "")), (format!("{partition}-tagged"), tagged)]
        {
            let file = folder.join(&name).with_extension("json");
            if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
                fs::write(&file, &wanted).unwrap();
            }
            let written = fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(written, wanted, "deploy/iam/{name}.json: run `make iam` and commit what it writes");
        }
    }
}

/// The commands of the page are for the chart with its defaults, installed as `headgate` in namespace `headgate`.
#[test]
fn trust_policies_and_commands_name_what_the_chart_installs() {
    block(async {
        let all = rendered(&["--namespace=headgate"]).await.unwrap();
        let pod = &deployment(&all, "run")["spec"]["template"]["spec"];
        let account = pod["serviceAccountName"].as_str().unwrap();
        let namespace = deployment(&all, "run")["metadata"]["namespace"].as_str().unwrap();
        assert!(of_kind(&all, "ServiceAccount").iter().any(|one| one["metadata"]["name"] == account));
        let condition = |file: &str| -> Value {
            let text = fs::read_to_string(root().join("deploy/iam/trust").join(file)).unwrap();
            let policy: Value = serde_json::from_str(&text).unwrap();
            policy["Statement"][0]["Condition"]["StringEquals"].clone()
        };
        let tags = json!({
            "aws:RequestTag/kubernetes-namespace": namespace,
            "aws:RequestTag/kubernetes-service-account": account,
        });
        assert_eq!(condition("pod-identity.json"), tags);
        let subject = format!("system:serviceaccount:{namespace}:{account}");
        assert_eq!(condition("irsa.json")["ISSUER:sub"], subject);
        let pages = ["docs/install/iam.md", "docs/install/network.md"];
        let text: String = pages.map(|page| fs::read_to_string(root().join(page)).unwrap()).concat();
        let ports = pod["containers"][0]["ports"].as_array().unwrap();
        let port = &ports.iter().find(|port| port["name"] == "webhook").unwrap()["containerPort"];
        for wanted in [
            format!("--namespace {namespace} --service-account {account} "),
            format!("--protocol tcp --port {port} "),
            format!(
                "rollout restart deployment/{}`",
                deployment(&all, "run")["metadata"]["name"].as_str().unwrap()
            ),
        ] {
            assert!(text.contains(&wanted), "none of {pages:?} has {wanted:?}");
        }
    });
}

fn policy(name: &str) -> Value {
    let path = root().join("deploy/iam").join(name).with_extension("json");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn statement<'a>(policy: &'a Value, action: &str) -> &'a Value {
    let action = json!(format!("elasticloadbalancing:{action}"));
    let statements = policy["Statement"].as_array().unwrap();
    let mut with = statements.iter().filter(|one| one["Action"].as_array().unwrap().contains(&action));
    let found = with.next().unwrap_or_else(|| panic!("nothing allows {action}"));
    assert_eq!((with.next(), &found["Effect"]), (None, &json!("Allow")));
    found
}

#[test]
fn each_policy_allows_the_five_actions_and_writes_to_target_groups_of_its_partition_only() {
    for partition in PARTITIONS {
        for name in [partition.to_owned(), format!("{partition}-tagged")] {
            let policy = policy(&name);
            let statements = policy["Statement"].as_array().unwrap().iter();
            let actions: BTreeSet<&str> = statements
                .flat_map(|one| one["Action"].as_array().unwrap())
                .map(|action| action.as_str().unwrap().strip_prefix("elasticloadbalancing:").unwrap())
                .collect();
            let wanted = [
                "DeregisterTargets",
                "DescribeTargetGroupAttributes",
                "DescribeTargetGroups",
                "DescribeTargetHealth",
                "RegisterTargets",
            ];
            assert_eq!(actions, BTreeSet::from(wanted), "{name}");
            assert_eq!(policy["Version"], "2012-10-17", "{name}");
            for action in ["RegisterTargets", "DeregisterTargets"] {
                let groups = format!("arn:{partition}:elasticloadbalancing:*:*:targetgroup/*/*");
                assert_eq!(statement(&policy, action)["Resource"], groups, "{name}");
            }
            for action in ["DescribeTargetGroups", "DescribeTargetGroupAttributes", "DescribeTargetHealth"] {
                let read = statement(&policy, action);
                assert_eq!(read["Resource"], "*", "{name}: AWS knows no resources for {action}");
                assert_eq!(read["Condition"], Value::Null, "{name}");
            }
        }
    }
}

#[test]
fn the_policies_of_all_partitions_are_the_same_but_for_the_partition() {
    for kind in ["", "-tagged"] {
        let of_aws = policy(&format!("aws{kind}")).to_string();
        for partition in PARTITIONS {
            let is = policy(&format!("{partition}{kind}")).to_string();
            assert_eq!(is, of_aws.replace("arn:aws:", &format!("arn:{partition}:")), "{partition}{kind}");
        }
    }
}

#[test]
fn the_tagged_policies_are_the_others_with_a_condition_on_the_target_group() {
    for partition in PARTITIONS {
        let mut tagged = policy(&format!("{partition}-tagged"));
        let mut conditions = Vec::new();
        for statement in tagged["Statement"].as_array_mut().unwrap() {
            let condition = statement.as_object_mut().unwrap().remove("Condition");
            conditions.extend(condition.map(|condition| (statement["Sid"].clone(), condition)));
        }
        let tag = json!({"StringEquals": {"aws:ResourceTag/headgate.dev/managed": "true"}});
        assert_eq!(conditions, [(json!("HeadgateMovesTargets"), tag)], "{partition}");
        assert_eq!(tagged, policy(partition), "{partition}");
    }
}

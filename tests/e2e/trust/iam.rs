//! The IAM policies in `deploy/iam`: the five actions, in every partition of AWS, and nothing else.

use std::collections::BTreeSet;

use headgate_harness::root;
use serde_json::{Value, json};

const PARTITIONS: [&str; 3] = ["aws", "aws-cn", "aws-us-gov"];

fn policy(name: &str) -> Value {
    let path = root().join("deploy/iam").join(name).with_extension("json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
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

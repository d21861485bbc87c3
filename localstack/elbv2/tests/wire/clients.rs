//! Tests with common clients: the AWS CLI and boto3.
//!
//! The tests look in the folder `HEADGATE_CLIENTS`, where the clients must be (CI installs them there). Without it,
//! they use installed programs. If a program is missing, the test logs that and passes.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;

use crate::pod::Pod;
use crate::stand::Stand;

/// Environment variables that the CLI, boto3 and other clients use.
fn with_environment(command: &mut Command, stand: &Stand) {
    let endpoint = format!("http://{}", stand.running.addresses().api);
    command
        .env("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", endpoint)
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_DEFAULT_REGION", "us-east-1")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_PAGER", "")
        .stdin(Stdio::null())
        .kill_on_drop(true);
}

/// Runs a command to its end and returns its output. Panics if it fails.
async fn run(mut command: Command, stand: &Stand) -> String {
    with_environment(&mut command, stand);
    let output = command.output().await.unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{said}\n{complained}");
    said.trim().to_owned()
}

/// The program of a client.
fn client(program: &str) -> PathBuf {
    std::env::var_os("HEADGATE_CLIENTS")
        .map_or_else(|| program.into(), |folder| Path::new(&folder).join(program))
}

async fn is_there(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(client(program));
    let ended = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().await;
    let there = ended.is_ok_and(|status| status.success());
    if !there {
        let promised = std::env::var_os("HEADGATE_CLIENTS");
        assert!(
            promised.is_none(),
            "{program} {arguments:?} does not run from HEADGATE_CLIENTS={promised:?}"
        );
        eprintln!("{program} {arguments:?} does not run here: not tested");
    }
    there
}

#[tokio::test]
async fn the_aws_cli_sets_up_waits_and_takes_down() {
    if !is_there("aws", &["--version"]).await {
        return;
    }
    let stand = Stand::new().await;
    stand.set(json!({"profile": "instant"})).await;
    let aws = async |line: &str| {
        let mut command = Command::new(client("aws"));
        command.arg("elbv2").args(line.split(' ').filter(|word| !word.is_empty())).args(["--output", "text"]);
        run(command, &stand).await
    };
    let balancer = aws("create-load-balancer --name edge --type network --subnets subnet-a subnet-b \
        --query LoadBalancers[0].LoadBalancerArn")
    .await;
    let group =
        aws("create-target-group --name web --target-type ip --protocol TCP --port 8080 --vpc-id vpc-1 \
        --health-check-interval-seconds 5 --healthy-threshold-count 2 --query TargetGroups[0].TargetGroupArn")
        .await;
    aws(&format!(
        "create-listener --load-balancer-arn {balancer} --protocol TCP --port 8000 --default-actions \
         Type=forward,TargetGroupArn={group}"
    ))
    .await;
    aws(&format!("wait load-balancer-available --load-balancer-arns {balancer}")).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    let target = format!("--target-group-arn {group} --targets Id={},Port=8080", pod.at.ip());
    aws(&format!("register-targets {target}")).await;
    aws(&format!("wait target-in-service {target}")).await;
    aws(&format!(
        "modify-target-group-attributes --target-group-arn {group} --attributes \
         Key=deregistration_delay.timeout_seconds,Value=1"
    ))
    .await;
    aws(&format!("deregister-targets {target}")).await;
    aws(&format!("wait target-deregistered {target}")).await;
    let ask =
        format!("describe-target-health {target} --query TargetHealthDescriptions[0].TargetHealth.Reason");
    assert_eq!(aws(&ask).await, "Target.NotRegistered");
    aws(&format!("delete-load-balancer --load-balancer-arn {balancer}")).await;
    aws(&format!("delete-target-group --target-group-arn {group}")).await;
    assert_eq!(aws("describe-target-groups --query length(TargetGroups)").await, "0");
}

/// Calls about targets, and the errors as a program sees them.
const BOTO3: &str = r#"
import sys, boto3
from botocore.exceptions import ClientError
elb = boto3.client("elbv2")
lb = elb.create_load_balancer(Name="edge", Type="application", Subnets=["subnet-a", "subnet-b"])["LoadBalancers"][0]
tg = elb.create_target_group(Name="web", TargetType="ip", Protocol="HTTP", Port=8080, VpcId="vpc-1",
    HealthCheckIntervalSeconds=5, HealthCheckPath="/health", Tags=[{"Key": "team", "Value": "edge"}])["TargetGroups"][0]
arn = tg["TargetGroupArn"]
elb.create_listener(LoadBalancerArn=lb["LoadBalancerArn"], Protocol="HTTP", Port=8000,
    DefaultActions=[{"Type": "forward", "TargetGroupArn": arn}])
elb.get_waiter("load_balancer_available").wait(LoadBalancerArns=[lb["LoadBalancerArn"]], WaiterConfig={"Delay": 1})
target = {"Id": sys.argv[1], "Port": 8080}
elb.register_targets(TargetGroupArn=arn, Targets=[target])
elb.get_waiter("target_in_service").wait(TargetGroupArn=arn, Targets=[target], WaiterConfig={"Delay": 1})
health = elb.describe_target_health(TargetGroupArn=arn)["TargetHealthDescriptions"]
assert [(h["Target"]["Id"], h["HealthCheckPort"], h["TargetHealth"]["State"]) for h in health] == [
    (sys.argv[1], "8080", "healthy")], health
for page in elb.get_paginator("describe_target_groups").paginate(PaginationConfig={"PageSize": 1}):
    assert page["TargetGroups"][0]["LoadBalancerArns"] == [lb["LoadBalancerArn"]], page
tags = elb.describe_tags(ResourceArns=[arn])["TagDescriptions"][0]["Tags"]
assert tags == [{"Key": "team", "Value": "edge"}], tags
try:
    elb.register_targets(TargetGroupArn=arn, Targets=[{"Id": "10.4.40.87"}])
    raise AssertionError("an address outside the VPC was taken without a zone")
except ClientError as refused:
    assert refused.response["Error"]["Code"] == "ValidationError", refused.response
    assert refused.response["Error"]["Type"] == "Sender", refused.response
try:
    elb.delete_target_group(TargetGroupArn=arn)
    raise AssertionError("a group in use was deleted")
except elb.exceptions.ResourceInUseException:
    pass
elb.modify_target_group_attributes(TargetGroupArn=arn,
    Attributes=[{"Key": "deregistration_delay.timeout_seconds", "Value": "0"}])
elb.deregister_targets(TargetGroupArn=arn, Targets=[target])
elb.get_waiter("target_deregistered").wait(TargetGroupArn=arn, Targets=[target], WaiterConfig={"Delay": 1})
elb.delete_load_balancer(LoadBalancerArn=lb["LoadBalancerArn"])
elb.delete_target_group(TargetGroupArn=arn)
print("done")
"#;

#[tokio::test]
async fn boto3_sets_up_waits_pages_and_meets_errors() {
    if !is_there("python3", &["-c", "import boto3"]).await {
        return;
    }
    let stand = Stand::new().await;
    stand.set(json!({"profile": "instant"})).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    let mut command = Command::new(client("python3"));
    command.args(["-c", BOTO3, &pod.at.ip().to_string()]);
    assert_eq!(run(command, &stand).await, "done");
}

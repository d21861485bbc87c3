//! TargetBindings: created from the annotation, and written by users.

use std::collections::BTreeSet;

use headgate_harness::{
    bindings::{api, condition, pods_of, wait_binding, write},
    scenario::{Scenario, http_port, targets},
    shared_world::{alone, beside_others},
    wait,
};
use k8s_openapi::{
    api::core::v1::Service, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

const FINALIZER: &str = "headgate.dev/targets";

async fn wait_none(s: &Scenario) {
    wait::until("there is no TargetBinding", || async {
        let all = api(s).list(&ListParams::default()).await.unwrap().items;
        if all.is_empty() { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
}

fn is_ready(object: &DynamicObject) -> bool {
    condition(object, "Ready") == "True AsExpected"
}

#[test]
fn the_annotation_makes_a_binding_that_shows_everything_and_goes_with_the_service() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "made").await;
        let group = s.web(2).await;
        let _headgate = s.headgate().await;
        s.wait_registered(&group, "web", 2, 8080).await;
        let made = wait_binding(&s, "is ready", is_ready).await;

        let service = s.cluster.api::<Service>().get("web").await.unwrap();
        assert_eq!(made.labels().get("headgate.dev/made-from").map(String::as_str), Some("service"));
        assert_eq!(made.owner_references()[0].uid, service.uid().unwrap());
        assert_eq!(made.data["spec"]["targetGroup"]["arn"], group.arn);
        assert_eq!(made.data["spec"]["serviceRef"], json!({"name": "web", "port": "http"}));
        let status = &made.data["status"];
        assert_eq!(
            (&status["wanted"], &status["registered"], &status["healthy"]),
            (&json!(2), &json!(2), &json!(2))
        );
        assert_eq!(status["observedGeneration"], json!(made.metadata.generation));
        assert_eq!(condition(&made, "TargetGroupFound"), "True AsExpected");

        let path = format!("/apis/headgate.dev/v1alpha1/namespaces/{}/targetbindings", s.cluster.namespace);
        let table = s.cluster.table(&path).await;
        let columns: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            columns,
            [
                "Name",
                "Target group",
                "Wanted",
                "Healthy",
                "Initial",
                "Draining",
                "Foreign",
                "Read",
                "Ready",
                "Reason"
            ]
        );
        let cells = &table["rows"][0]["cells"];
        assert_eq!((&cells[1], &cells[2], &cells[3]), (&json!(group.name), &json!(2), &json!(2)));

        // A user deletes it, and Headgate creates it again. The targets do not change.
        api(&s).delete(&made.name_any(), &DeleteParams::default()).await.unwrap();
        let again = wait_binding(&s, "is back", |object| object.uid() != made.uid()).await;
        assert_eq!(again.name_any(), made.name_any());
        // A user changes it, without any effect.
        let elsewhere = json!({"spec": {"targetGroup": {"arn": format!("{}0", group.arn)}}});
        api(&s).patch(&made.name_any(), &PatchParams::default(), &Patch::Merge(&elsewhere)).await.unwrap();
        wait_binding(&s, "is as it was made", |object| object.data["spec"] == made.data["spec"]).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);

        s.cluster.annotate("web", None).await;
        s.wait_targets(&group, &BTreeSet::new()).await;
        wait_none(&s).await;
        s.cluster.annotate("web", Some(&format!("http={}", group.name))).await;
        wait_binding(&s, "is made again", |_| true).await;
        s.cluster.api::<Service>().delete("web", &DeleteParams::default()).await.unwrap();
        wait_none(&s).await;
    });
}

/// A target in the same subnet as another, far from the addresses that pods get.
fn foreign_target_beside(target: &str) -> String {
    let (ip, port) = target.rsplit_once(':').unwrap();
    let [a, b, c, _] = ip.parse::<std::net::Ipv4Addr>().unwrap().octets();
    format!("{a}.{b}.{}.250:{port}", c | 0x1f)
}

#[test]
fn a_written_binding_needs_no_service_and_its_end_takes_exactly_its_own_targets() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "written").await;
        let group = s.group("tg").await;
        s.cluster.deploy("mine", 2, &[("http", 8080)]).await;
        s.cluster.deploy("web", 1, &[("http", 8080)]).await;
        s.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        let _headgate = s.headgate().await;
        let web = targets(&s.cluster.wait_running("web", 1).await, 8080);
        write(&s, "mine", pods_of("mine", &group.name)).await.unwrap();
        let mine = targets(&s.cluster.wait_running("mine", 2).await, 8080);
        let foreign_target = foreign_target_beside(web.first().unwrap());
        s.aws.register_by_hand(&group.arn, &foreign_target).await;
        let foreign = BTreeSet::from([foreign_target]);
        let all: BTreeSet<String> = web.iter().chain(&mine).chain(&foreign).cloned().collect();
        s.wait_targets(&group, &all).await;
        let has = |object: &DynamicObject| object.finalizers().iter().any(|name| name == FINALIZER);
        wait::until("the written binding is kept by a finalizer and shows a foreign target", || async {
            let object = api(&s).get("mine").await.unwrap();
            let status = &object.data["status"];
            let shows = status["healthy"] == 2
                && status["foreign"] == 1
                && condition(&object, "Ready") == "True AsExpected";
            if has(&object) && shows { Ok(()) } else { Err(format!("{object:?}")) }
        })
        .await;

        api(&s).delete("mine", &DeleteParams::default()).await.unwrap();
        let rest: BTreeSet<String> = web.union(&foreign).cloned().collect();
        s.wait_targets(&group, &rest).await;
        wait::until("the written binding is gone", || async {
            let there = api(&s).get_opt("mine").await.unwrap();
            if there.is_none() { Ok(()) } else { Err(format!("{there:?}")) }
        })
        .await;
    });
}

#[test]
fn a_written_binding_follows_a_service_and_its_mistakes_are_events_and_conditions() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "follow").await;
        let group = s.group("tg").await;
        let _headgate = s.headgate().await;
        let of_service = |port: &str| json!({"targetGroup": {"arn": group.arn}, "serviceRef": {"name": "web", "port": port}});
        write(&s, "mine", of_service("http")).await.unwrap();
        s.cluster.wait_warning("mine", "InvalidBinding", "There is no Service web").await;
        wait_binding(&s, "says so", |object| condition(object, "Ready") == "False InvalidBinding").await;
        s.cluster.deploy("web", 1, &[("http", 8080)]).await;
        s.cluster.service("web", "web", http_port(), None).await;
        s.wait_registered(&group, "web", 1, 8080).await;
        wait_binding(&s, "is ready", is_ready).await;
        let patch = json!({"spec": of_service("htpt")});
        api(&s).patch("mine", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        s.cluster
            .wait_warning("mine", "InvalidBinding", "names port \"htpt\", which the Service lacks")
            .await;
        let told =
            wait_binding(&s, "says so", |object| condition(object, "Ready") == "False InvalidBinding").await;
        assert_eq!(told.data["status"]["observedGeneration"], json!(told.metadata.generation));
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, [], "what was valid stays in force");
    });
}

#[test]
fn a_binding_that_makes_no_sense_is_refused_with_what_was_expected() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "refused").await;
        let group = json!({"name": "web"});
        let pods = json!({"matchLabels": {"app": "web"}});
        let service = json!({"name": "web", "port": "http"});
        for (spec, said) in [
            (json!({"targetGroup": group}), "set either serviceRef, or podSelector and port"),
            (
                json!({"targetGroup": group, "serviceRef": service, "podSelector": pods, "port": 80}),
                "set either serviceRef, or podSelector and port, not both",
            ),
            (json!({"targetGroup": group, "podSelector": pods}), "podSelector needs port"),
            (json!({"targetGroup": group, "serviceRef": service, "port": 80}), "set serviceRef.port"),
            (
                json!({"targetGroup": group, "podSelector": {"matchLabels": {}}, "port": 80}),
                "set at least one label",
            ),
            (json!({"targetGroup": group, "podSelector": pods, "port": 70000}), "1 to 65535"),
            (
                json!({"targetGroup": group, "podSelector": pods, "port": "HTTP"}),
                "lower-case letters, digits and hyphens",
            ),
            (json!({"targetGroup": {}, "serviceRef": service}), "either the ARN or the name"),
            (
                json!({"targetGroup": {"name": "web_1"}, "serviceRef": service}),
                "1 to 32 letters, digits and hyphens",
            ),
            (
                json!({"targetGroup": {"arn": "arn:aws:x"}, "serviceRef": service}),
                "set the ARN of a target group: arn:aws:elasticloadbalancing",
            ),
            (
                json!({"targetGroup": group, "serviceRef": service, "registerWhen": "soon"}),
                "supported values",
            ),
        ] {
            let refused = write(&s, "bad", spec.clone()).await.unwrap_err().to_string();
            assert!(refused.contains(said), "{spec}: {refused}");
        }
    });
}

const NAME: &str = "targetbindings.headgate.dev";
const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";

/// Replaces the schema of `spec` in the API server.
async fn set_schema(s: &Scenario, schema: &Value) {
    let api: Api<CustomResourceDefinition> = Api::all(s.cluster.client.clone());
    let patch = json!([{"op": "replace", "path": SPEC, "value": schema}]);
    let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
    api.patch(NAME, &PatchParams::default(), &patch).await.unwrap();
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn a_deleted_binding_waits_for_aws_and_says_how_to_let_it_go() {
        alone(|world| async move {
            let s = Scenario::new(world, "ending").await;
            let group = s.group("tg").await;
            s.cluster.deploy("mine", 1, &[("http", 8080)]).await;
            let _headgate = s.headgate().await;
            write(&s, "mine", pods_of("mine", &group.name)).await.unwrap();
            s.wait_registered(&group, "mine", 1, 8080).await;
            wait_binding(&s, "has its finalizer", |object| !object.finalizers().is_empty()).await;
            s.aws.set_available(false).await;
            api(&s).delete("mine", &DeleteParams::default()).await.unwrap();
            let kept = wait_binding(&s, "says that it is kept", |object| {
                condition(object, "Ready") == "False BindingRemoved"
            })
            .await;
            let said = kept.data["status"]["conditions"].to_string();
            assert!(said.contains("remove the finalizer headgate.dev/targets"), "{said}");
            s.aws.set_available(true).await;
            wait_none(&s).await;
            assert_eq!(s.aws.registered(&group.arn).await, BTreeSet::new());
        });
    }

    #[test]
    fn a_binding_that_was_stored_before_the_schema_refused_it_hides_no_other() {
        // The schema is shared by the whole world.
        alone(|world| async move {
            let s = Scenario::new(world, "stored").await;
            let group = s.group("web").await;
            s.cluster.deploy("web", 1, &[("http", 8080)]).await;
            let running = s.cluster.wait_running("web", 1).await;
            let definitions: Api<CustomResourceDefinition> = Api::all(s.cluster.client.clone());
            let before = json!(definitions.get(NAME).await.unwrap()).pointer(SPEC).unwrap().clone();
            set_schema(&s, &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})).await;
            for (name, spec) in [
                ("null", json!({"targetGroup": null, "serviceRef": {"name": "web"}})),
                (
                    "odd",
                    json!({"targetGroup": {"name": 7}, "serviceRef": "web", "paused": "yes", "port": 1.5}),
                ),
            ] {
                wait::until("it is stored", || write(&s, name, spec.clone())).await;
            }
            set_schema(&s, &before).await;

            let _headgate = s.headgate().await;
            write(&s, "good", pods_of("web", &group.name)).await.unwrap();
            s.wait_targets(&group, &targets(&running, 8080)).await;
            s.cluster.wait_warning("odd", "InvalidBinding", "spec is invalid (invalid type").await;
            s.cluster.wait_warning("null", "InvalidBinding", "Set targetGroup.arn or targetGroup.name").await;
            wait::until("the good one is shown", || async {
                let good = api(&s).get("good").await.unwrap();
                if is_ready(&good) { Ok(()) } else { Err(format!("{good:?}")) }
            })
            .await;
            for name in ["null", "odd"] {
                api(&s).delete(name, &DeleteParams::default()).await.unwrap();
            }
            wait_binding(&s, "is left", |left| left.name_any() == "good").await;
        });
    }
}

//! Objects that earlier versions have stored are read as they were meant.

use std::{collections::BTreeMap, time::Duration};

use headgate_core::{
    ledger::{Noted, PodMark},
    model::{
        gate::Shown,
        hold::Hold,
        object::Uid,
        policy::{HOLD, MIN_HEALTHY_PER_ZONE, REGISTER_WHEN},
        reason::Reason,
        service::TargetPort,
        target_binding::Pods,
    },
};
use kube::ResourceExt;
use serde_json::Value;

use super::{
    lease,
    ledger::stored,
    slim::SlimPod,
    written::{AnyBinding, SlimBinding},
};
use crate::{
    api::{
        TargetBinding,
        target_binding::{FINALIZER, FROM_SERVICE, MADE_FROM},
    },
    fixtures::Earlier,
};

/// Targets with the UIDs of their pods, as the world has them.
fn known(world: &Value, lists: &[(&str, Noted)]) -> BTreeMap<String, (Noted, PodMark)> {
    let of = |(list, noted): &(&str, Noted)| {
        let noted = *noted;
        let all = world[*list].as_object().unwrap().clone().into_iter();
        all.map(move |(target, uid)| (target, (noted, PodMark::of(&Uid::new(uid.as_str().unwrap())))))
    };
    lists.iter().flat_map(of).collect()
}

#[test]
fn a_ledger_has_its_targets_its_tombstones_and_what_was_about_to_be_registered() {
    for earlier in Earlier::all() {
        let world = earlier.get("world");
        let (registered, removed) = (("registered", Noted::Registered), ("removed", Noted::Removed));
        for (name, lists) in [
            ("ledger-tombstone", &[registered, removed][..]),
            ("ledger-intended", &[registered, ("intended", Noted::Intended)]),
        ] {
            let stored = stored(earlier.read(name)).unwrap();
            let (group, ledger) = stored.open().unwrap();
            assert_eq!(group.as_str(), world["group"]);
            let read: BTreeMap<String, (Noted, PodMark)> =
                ledger.iter().map(|(target, noted, mark)| (target.to_string(), (noted, mark))).collect();
            for (target, meant) in known(&world, lists) {
                assert_eq!(read.get(&target), Some(&meant), "{name}: {target}");
            }
        }
        let whole = stored(earlier.read("ledger-tombstone")).unwrap().open().unwrap().1;
        assert_eq!(whole.iter().count(), known(&world, &[registered, removed]).len(), "and nothing else");
    }
}

#[test]
fn a_lease_says_who_holds_it_and_a_released_one_that_nobody_does() {
    for earlier in Earlier::all() {
        let held = lease::read(&earlier.read("lease-held"));
        assert_eq!(held.record.holder.as_deref(), earlier.get("world")["leader"].as_str());
        assert_eq!(held.record.duration, Some(Duration::from_secs(15)));
        assert!(held.record.renewed.is_some() && held.record.acquired.is_some());
        let released = lease::read(&earlier.read("lease-released"));
        assert_eq!(released.record.holder, None);
        assert!(released.record.transitions >= held.record.transitions);
    }
}

#[test]
fn the_gate_of_a_pod_is_read_with_the_ip_that_it_is_open_for() {
    for earlier in Earlier::all() {
        let pod = |name: &str| earlier.read::<SlimPod>(name).into_facts().unwrap();
        let open = pod("pod-gate-open");
        let gate = open.gate.as_deref().unwrap();
        assert_eq!(gate.shown, Shown::Open(Some(open.ips[0])));
        assert!(
            gate.shown.is_open_for(&open.ips)
                && gate.expected.as_deref().is_some_and(|all| all.ends_with(":8080"))
        );
        assert!(open.ending.sleeps == 150 && open.ending.grace >= 180, "{:?}", open.ending);
        let closed = pod("pod-gate-closed");
        let shown = closed.gate.as_deref().unwrap().shown;
        assert!(matches!(shown, Shown::Closed | Shown::Missing) && !closed.ips.is_empty());
    }
}

#[test]
fn a_pod_that_leaves_is_read_with_how_far_it_is() {
    for earlier in Earlier::all() {
        let uid = Uid::new(earlier.get("world")["leaving"].as_str().unwrap());
        let leaving = |name: &str| {
            let pod = earlier.read::<SlimPod>(name).into_facts().unwrap();
            assert_eq!(pod.uid, uid);
            *pod.leaving.unwrap()
        };
        let waits = leaving("pod-leaving-waits");
        assert!(waits.waits.is_some_and(|(_, reason)| reason == Reason::EvictionWaitsForBudget), "{waits:?}");
        assert!(!waits.is_out() && !waits.ask.held && !waits.ask.early && waits.ask.asked >= waits.ask.since);
        let out = leaving("pod-deregistered");
        assert!(out.is_out() && out.ask.since == waits.ask.since);
        assert_eq!(out.deregistered.map(|(_, bound)| bound), Some(Duration::from_secs(3)));
        let free = leaving("pod-may-go");
        assert_eq!((free.let_go(), free.deregistered), (Some(Reason::EvictionAllowed), out.deregistered));
    }
}

#[test]
fn a_written_binding_is_read_with_its_policy_and_status_and_a_made_one_is_known_as_that() {
    for earlier in Earlier::all() {
        let facts = earlier.read::<SlimBinding>("binding-written").into_facts().unwrap();
        let Pods::Selected(labels, port, _) = &facts.pods else { panic!("{facts:?}") };
        assert_eq!((labels.get("app"), port), (Some("web"), &TargetPort::Number(8080)));
        let texts = [REGISTER_WHEN, HOLD, MIN_HEALTHY_PER_ZONE].map(|name| facts.policy.get(name));
        assert_eq!(texts, [Some("containers-ready"), Some("45s"), Some("2")]);
        assert_eq!(Hold::parse("45s"), Some(Hold::For(45)));
        let world = earlier.get("world");
        let whole: TargetBinding = earlier.read("binding-written");
        let status = whole.status.as_ref().unwrap();
        assert_eq!(status.target_group_arn.as_deref(), world["secondGroup"].as_str());
        assert!(status.wanted > 0 && status.registered == status.wanted && status.last_read.is_some());
        assert!(
            status
                .conditions
                .iter()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True")
        );
        assert!(whole.finalizers().iter().any(|name| name == FINALIZER));
        assert_eq!(
            TargetBinding::from(earlier.read::<AnyBinding>("binding-written")),
            whole,
            "nothing is lost of it"
        );

        let made: TargetBinding = earlier.read("binding-made");
        assert_eq!(made.labels()[MADE_FROM], FROM_SERVICE);
        assert_eq!(made.status.unwrap().target_group_arn.as_deref(), world["group"].as_str());
        assert_eq!(made.spec.service_ref.unwrap().name, "web");
    }
}

//! Unit tests of the module: when Headgate publishes views, and which problems it reports only once.

use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::{
    binding::settle,
    model::{
        Cause, Change, GroupRef, Resolution, Settled, Signals, target_group::GroupSettings, time::Window,
    },
    nodes::Nodes,
    testing::{arn, group, pod, service},
};

fn at(millis: u64) -> Moment {
    Moment::after_start(Duration::from_millis(millis))
}

/// The Service `web` binds the pod `a` to `blue`.
fn world() -> (Reports, Index, Groups, BindingKey) {
    let web = service("web").port("http", 80).annotated("http=blue").build();
    let origin = Origin::Service(web.key.clone());
    let blue = Arc::new(group("blue"));
    let found = |_: &GroupRef| Resolution::Found(blue.clone());
    let bindings = settle(&origin, &web, &Settled::default(), found).bindings;
    let mut index = Index::new(Duration::ZERO, Duration::ZERO);
    index.set_bindings(&origin, &bindings, Cause::BindingRemoved, at(0));
    index.apply(Change::Applied(pod("a", "u-a").at(1).build()), at(0));
    let mut groups = Groups::new(GroupSettings {
        late: Duration::from_secs(30),
        replacement_grace: Duration::from_secs(300),
        holder_patience: Duration::from_secs(3600),
        dates_registrations: false,
        add_window: Window { idle: Duration::ZERO, most: Duration::ZERO },
        read_only: false,
        bounds: crate::model::Bounds::default(),
        seed: 1,
    });
    groups.make(&arn("blue"));
    let key = bindings.into_keys().next().unwrap();
    (Reports::default(), index, groups, key)
}

/// The names of the views that are published at this time.
fn shown(reports: &mut Reports, index: &Index, groups: &mut Groups, millis: u64) -> Vec<String> {
    let nodes = Nodes::new(Signals::default(), Duration::ZERO);
    let shown = reports.flush(at(millis), false, &Bounds::default(), index, groups, nodes.last_seen());
    let name = |picture: &Picture| match picture {
        Picture::Binding(view) => format!("binding with {} targets", view.targets.len()),
        Picture::BindingGone(_) => "no binding".to_owned(),
        Picture::Group(_) => "group".to_owned(),
        Picture::GroupGone(_) => "no group".to_owned(),
        Picture::Origin(_) | Picture::OriginGone(_) => "origin".to_owned(),
    };
    shown.iter().map(name).collect()
}

#[test]
fn what_has_changed_is_shown_once_and_ten_times_a_second_at_most() {
    let (mut reports, index, mut groups, key) = world();
    assert_eq!((reports.due(), shown(&mut reports, &index, &mut groups, 0)), (None, vec![]));
    for _ in 0..2 {
        reports.touch_binding(key.clone());
        reports.touch_group(&arn("blue"));
    }
    assert_eq!(shown(&mut reports, &index, &mut groups, 0), ["binding with 1 targets", "group"]);
    assert_eq!(reports.due(), None, "nothing has changed since");
    reports.touch_binding(key);
    assert_eq!(reports.due(), Some(at(100)));
    assert_eq!(shown(&mut reports, &index, &mut groups, 99), [""; 0]);
    assert_eq!(shown(&mut reports, &index, &mut groups, 100), ["binding with 1 targets"]);
}

#[test]
fn of_a_binding_that_has_ended_it_is_shown_that_it_has() {
    let (mut reports, mut index, mut groups, key) = world();
    index.set_bindings(&key.origin, &BTreeMap::new(), Cause::BindingRemoved, at(1));
    reports.touch_binding(key);
    assert_eq!(shown(&mut reports, &index, &mut groups, 1), ["no binding"]);
}

#[test]
fn that_aws_throttles_is_shown_at_the_bindings_of_that_account_when_it_begins_and_ends() {
    let (mut reports, index, mut groups, key) = world();
    for throttled in [Throttled::everywhere("Describe calls"), Throttled::default()] {
        let says = throttled.of(&arn("blue")).is_some();
        for _ in 0..2 {
            reports.throttled(throttled.clone(), &index);
        }
        assert_eq!(reports.throttling(&arn("blue")).is_some(), says);
        let nodes = Nodes::new(Signals::default(), Duration::ZERO);
        let pictures =
            reports.flush(at(1_000), false, &Bounds::default(), &index, &mut groups, nodes.last_seen());
        let [Picture::Binding(view)] = &pictures[..] else { panic!("{pictures:?}") };
        let said = view.said.iter().any(|(reason, _)| *reason == Reason::Throttled);
        assert_eq!((&view.key, said), (&key, says));
        reports.not_before = at(0);
    }
}

#[test]
fn what_is_wrong_is_told_once_until_nothing_counts_as_told() {
    let (mut reports, .., key) = world();
    let wrong = || [(Reason::InvalidBinding, "no such port".to_owned())];
    assert_eq!(reports.news(&key.origin, wrong()), wrong().into());
    assert_eq!(reports.news(&key.origin, wrong()), [].into());
    reports.hush();
    assert_eq!(reports.news(&key.origin, wrong()), wrong().into());
}

//! Unit tests of the module: Services and TargetBindings that users create and delete.

use super::*;
use crate::{
    model::{
        self, Resolution, Target, TargetGroupArn, Texts,
        grant::{GroupPattern, Holders},
        service::PortRef,
        target_binding::Pods,
    },
    testing::{NAMESPACE, ServiceBuilder, group, service},
};

const GRACE: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn web() -> ServiceBuilder {
    service("web").port("http", 80)
}

/// A TargetBinding for the pods of the Service `web`.
fn written(uid: &str) -> BindingFacts {
    BindingFacts {
        key: ObjectKey::new(NAMESPACE, "written"),
        uid: Uid::new(uid),
        group: "blue".into(),
        pods: Pods::OfService("web".into(), PortRef::Name("http".into())),
        policy: Texts::default(),
        ending: false,
    }
}

/// The state after a list of exactly these Services and TargetBindings.
fn known(grace: Duration, all: Vec<ServiceBuilder>, written: Vec<BindingFacts>) -> Services {
    let mut services = Services::new(&Settings {
        service_grace: grace,
        relist_patience: Duration::ZERO,
        ..Settings::default()
    });
    let all = all.into_iter().map(ServiceBuilder::build).collect();
    services.apply(Watched::Service(Change::Relisted(Scope::Cluster, all)), at(0));
    services.apply(Watched::Binding(Change::Relisted(Scope::Cluster, written)), at(0));
    services
}

/// A source of target group owners that knows no owner.
struct Nobody;

impl Held for Nobody {
    fn holders(&self, _: &TargetGroupArn) -> Holders<'_> {
        Holders::Unknown
    }

    fn knows(&self, _: &GroupRef) -> bool {
        false
    }

    fn told(&self, _: &TargetGroupArn) -> BTreeSet<Target> {
        BTreeSet::new()
    }
}

/// The number of active bindings of an object after AWS has found its target groups.
fn settled(services: &mut Services, origin: &Origin) -> usize {
    let blue = Arc::new(group("blue"));
    services.settle(origin, |_| Resolution::Found(blue.clone()), &Nobody, at(0)).0.len()
}

fn delete(services: &mut Services, service: ServiceBuilder) {
    services.apply(Watched::Service(Change::Deleted(service.build())), at(1));
}

#[test]
fn a_deleted_service_is_remembered_for_its_grace_if_a_target_binding_has_targets_of_it() {
    let origin = Origin::TargetBinding(written("1").key);
    for (grace, has_targets, is_kept) in
        [(GRACE, true, true), (GRACE, false, false), (Duration::ZERO, true, false)]
    {
        let mut services = known(grace, vec![web(), service("other")], vec![written("1")]);
        if has_targets {
            assert_eq!(settled(&mut services, &origin), 1);
        }
        delete(&mut services, service("other"));
        assert!(services.gone.is_empty(), "nothing has targets of it");
        delete(&mut services, web());
        assert_eq!(!services.gone.is_empty(), is_kept, "{grace:?} {has_targets}");
    }
}

/// A Service with this number of ports, each with its own target group.
fn with_ports(name: &str, from: usize, count: usize) -> ServiceBuilder {
    let bindings: Vec<String> = (from..from + count).map(|at| format!("p{at}=g{at}")).collect();
    let ports = (0..count).fold(service(name), |service, at| {
        service.port(&format!("p{}", from + at), u16::try_from(at + 1).unwrap())
    });
    ports.annotated(&bindings.join(","))
}

#[test]
fn a_namespace_has_a_thousand_bindings_and_names_and_room_that_others_leave_is_taken() {
    let per_service = 100;
    let all: Vec<ServiceBuilder> =
        (0..=10).map(|at| with_ports(&format!("s{at:02}"), at * per_service, per_service)).collect();
    let beside = with_ports("beside", 0, 1).of("other");
    let mut services = known(Duration::ZERO, [all.clone(), vec![beside.clone()]].concat(), vec![]);
    let found = |reference: &GroupRef| Resolution::Found(Arc::new(group(&reference.to_string())));
    let origin = |service: &ServiceBuilder| Origin::Service(service.clone().build().key);
    let settle = |services: &mut Services, service: &ServiceBuilder| {
        services.settle(&origin(service), found, &Nobody, at(0)).0.len()
    };
    let counts: Vec<usize> = all.iter().map(|service| settle(&mut services, service)).collect();
    assert_eq!(counts.iter().sum::<usize>(), limits::BINDINGS.most);
    assert_eq!((counts[10], settle(&mut services, &beside)), (0, 1), "it is another namespace's affair");
    let known = &services.known[&origin(&all[10])].settled;
    assert!(known.doubtful && known.references.is_empty());
    let said: Vec<Reason> = known.problems.iter().map(|problem| problem.reason).collect();
    assert_eq!(said, [Reason::LimitExceeded; 2]);

    let gone = all[3].clone().build();
    let (changed, ..) = services.apply(Watched::Service(Change::Deleted(gone)), at(1));
    assert_eq!(changed, [origin(&all[3]), origin(&all[10])]);
    assert_eq!((settle(&mut services, &all[3]), settle(&mut services, &all[10])), (0, per_service));
    assert_eq!(services.known[&origin(&all[10])].settled.problems, []);
}

#[test]
fn two_hundred_bad_parts_are_few_texts() {
    let bad = vec!["x="; 200].join(",");
    let web = web().annotated(&bad);
    let mut services = known(GRACE, vec![web.clone()], vec![]);
    settled(&mut services, &Origin::Service(web.build().key));
    let known = services.known.values().next().unwrap();
    assert_eq!(known.settled.problems.len(), limits::PROBLEMS.most + 1);
}

#[test]
fn a_name_that_no_grant_lets_the_namespace_bind_is_not_looked_up() {
    let settings = Settings { grants: model::settings::Granting::Required, ..Settings::default() };
    let mut services = Services::new(&settings);
    let grants = GrantFacts {
        name: "front".into(),
        groups: vec![GroupPattern::parse("blue").unwrap()],
        namespaces: BTreeSet::from([NAMESPACE.into()]),
        exclusive: false,
    };
    services.apply(Watched::Grants(vec![grants]), at(0));
    let both = service("web").port("a", 1).port("b", 2).annotated("a=blue,b=green").build();
    let origin = Origin::Service(both.key.clone());
    services.apply(Watched::Service(Change::Relisted(Scope::Cluster, vec![both])), at(0));
    services.settle(&origin, |_| Resolution::Pending, &Nobody, at(0));
    let name = |name: &str| GroupRef::Name(name.into());
    let named = BTreeMap::from([
        (name("blue"), BTreeSet::from([NAMESPACE.into()])),
        (name("green"), BTreeSet::new()),
    ]);
    assert_eq!(services.take_renamed(&Nobody), named);
    let settled = &services.known[&origin].settled;
    let [problem] = &settled.problems[..] else { panic!("{:?}", settled.problems) };
    assert!(settled.refused && problem.reason == Reason::NotGranted, "{problem:?}");
}

#[test]
fn a_deleted_service_binds_on_for_its_grace_if_there_is_one_and_anything_is_in_force() {
    let web = || web().annotated("http=blue");
    let origin = Origin::Service(web().build().key);
    for (grace, in_force, stays) in
        [(GRACE, true, true), (GRACE, false, false), (Duration::ZERO, true, false)]
    {
        let mut services = known(grace, vec![web()], vec![]);
        if in_force {
            assert_eq!(settled(&mut services, &origin), 1);
        }
        delete(&mut services, web());
        let ends = services.known.get(&origin).is_some_and(|known| known.ends.is_some());
        assert_eq!(ends, stays, "{grace:?} {in_force}");
    }
}

#[test]
fn what_may_turn_out_to_bind_is_doubtful_until_it_is_settled() {
    let origin = Origin::Service(web().build().key);
    let mut services = known(GRACE, vec![web().annotated("http=blue"), service("other")], vec![]);
    let settled_of = |services: &Services| {
        let settled = &services.known[&origin].settled;
        (settled.doubtful, settled.unknown == Some(Unknown::Pending))
    };
    assert_eq!(settled_of(&services), (true, true));
    settled(&mut services, &origin);
    assert_eq!(settled_of(&services), (false, false));
    assert_eq!(services.known.len(), 1, "another one binds nothing");
}

#[test]
fn only_the_target_binding_that_was_deleted_is_forgotten() {
    let mut services = known(GRACE, vec![web()], vec![written("1")]);
    services.apply(Watched::Binding(Change::Deleted(written("0"))), at(1));
    assert!(services.written.contains_key(&written("1").key), "it has followed that one");
    services.apply(Watched::Binding(Change::Deleted(written("1"))), at(2));
    assert!(services.written.is_empty());
}

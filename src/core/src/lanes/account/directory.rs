//! The known target groups that users refer to. Headgate looks up each target group once, and repeats the look-up while
//! the group does not exist. Each replica also reads once how many healthy targets a group requires. The leader reads
//! this number again every hour.
//!
//! **Fairness.** A namespace may refer to any number of target groups that do not exist. The next look-up therefore
//! belongs to the namespace whose last look-up is oldest, and to its target group that has waited longest. If many
//! look-ups are due, one call contains several target groups of one namespace. A call never mixes namespaces, because
//! AWS rejects the whole call if one group does not exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    backoff::Backoff,
    model::{
        Call, Cause, Failure, FailureClass, GroupRef, LeastHealthy, Moment, Resolution, TargetGroupArn,
        TargetGroupFacts, TargetType, excerpt::beginning,
    },
};

const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The maximum delay after a temporary failure.
const LAST_RETRY: Duration = Duration::from_secs(15);
/// The maximum delay between look-ups of a target group that does not exist. The delay doubles each time, so each delay
/// is about equal to the age of the error.
const LAST_RETRY_OF_MISSING: Duration = Duration::from_mins(5);
/// The interval at which Headgate reads the attributes of a target group again, because users may change the
/// attributes. The same interval applies after a permanent failure.
const ATTRIBUTES_PERIOD: Duration = Duration::from_hours(1);
/// The maximum number of target groups in a `DescribeTargetGroups` call (ELBv2 API reference: `Names`,
/// `TargetGroupArns`: 20 items).
const IN_A_CALL: usize = 20;

/// The namespaces that refer to a target group.
pub type Namers = BTreeSet<Arc<str>>;

#[derive(Clone, Debug)]
struct Entry {
    state: Resolution,
    namers: Namers,
    in_flight: bool,
    /// Whether Headgate must look up this group alone. AWS rejected a call for several groups because one of the groups
    /// does not exist.
    alone: bool,
    retry: Backoff,
    missing: Backoff,
    attributes: Attributes,
}

/// The progress of reading the attributes of a target group.
#[derive(Clone, Debug)]
struct Attributes {
    in_flight: bool,
    /// The time at which the attributes were read, or at which the request failed permanently.
    read: Option<Moment>,
    retry: Backoff,
}

/// The kinds of look-ups, by priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// References without an answer yet.
    Unknown,
    /// References to target groups that AWS did not find.
    Missing,
    Attributes,
    /// Attributes that may have changed since Headgate read them.
    Changes,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Unknown, Self::Missing, Self::Attributes, Self::Changes];

    /// Whether a standby sends look-ups of this kind. A standby does not repeat look-ups of missing groups, and does
    /// not read attributes again.
    const fn is_of_a_standby(self) -> bool {
        matches!(self, Self::Unknown | Self::Attributes)
    }
}

impl Entry {
    /// The kind and time of the next look-up. `None`: no look-up is needed.
    fn due(&self) -> Option<(Kind, Moment)> {
        let due = self.retry.until().max(self.missing.until());
        match &self.state {
            _ if self.in_flight || self.namers.is_empty() => None,
            Resolution::Found(facts) => {
                let is_ip = facts.target_type == TargetType::Ip;
                let attributes = Some(&self.attributes).filter(|read| is_ip && !read.in_flight)?;
                let again = attributes.read.map_or(Moment::START, |read| read + ATTRIBUTES_PERIOD);
                let kind = if facts.least_healthy.is_some() { Kind::Changes } else { Kind::Attributes };
                Some((kind, attributes.retry.until().max(again)))
            }
            Resolution::Pending => Some((Kind::Unknown, due)),
            Resolution::Failed(..) => Some((Kind::Missing, due)),
        }
    }

    /// Stores attributes, and returns whether the attributes are new. After a permanent failure, the known attributes
    /// remain, or the default of AWS applies.
    fn learn_attributes(
        &mut self,
        group: &TargetGroupArn,
        result: &Result<LeastHealthy, Failure>,
        now: Moment,
    ) -> bool {
        let is_it = self.is_found_as(group);
        let Resolution::Found(facts) = &mut self.state else { return false };
        self.attributes.in_flight &= !is_it;
        let least = match result {
            Ok(least) => *least,
            Err(failure) => match failure.class {
                FailureClass::Throttled | FailureClass::Unavailable | FailureClass::Conflict => {
                    self.attributes.retry.failed(now);
                    return false;
                }
                _ => facts.least_healthy.unwrap_or(LeastHealthy::DEFAULT),
            },
        };
        self.attributes.retry.succeeded();
        self.attributes.read = Some(now);
        facts.least_healthy != Some(least) && {
            Arc::make_mut(facts).least_healthy = Some(least);
            true
        }
    }

    fn is_found_as(&self, group: &TargetGroupArn) -> bool {
        matches!(&self.state, Resolution::Found(facts) if facts.arn == *group)
    }
}

/// The number of entries above which the directory drops entries without a reference. Below this number, a Service that
/// is deleted and created again finds its target group immediately.
const REMEMBERED: usize = 1024;

/// The known target groups of one account and region. See the module docs.
#[derive(Clone, Debug)]
pub struct Directory {
    region: Box<str>,
    /// Whether this replica was the leader at the last call.
    leads: bool,
    entries: BTreeMap<GroupRef, Entry>,
    /// The references that no object uses any more.
    unnamed: BTreeSet<GroupRef>,
    /// The next look-ups of each [`Kind`], by their due times.
    due: [BTreeSet<(Moment, GroupRef)>; 4],
    /// The sequence number of the last look-up of each namespace with pending look-ups.
    served: BTreeMap<Arc<str>, u64>,
    look_ups: u64,
    seed: u64,
}

impl Directory {
    pub fn new(region: &str, seed: u64) -> Self {
        Self {
            region: region.into(),
            leads: false,
            entries: BTreeMap::new(),
            unnamed: BTreeSet::new(),
            due: Default::default(),
            served: BTreeMap::new(),
            look_ups: 0,
            seed,
        }
    }

    /// Returns the target group if it is in another region.
    fn elsewhere<'a>(&self, reference: &'a GroupRef) -> Option<&'a TargetGroupArn> {
        reference.arn().filter(|arn| arn.region() != &*self.region)
    }

    /// Returns the result of the look-up of `reference`.
    pub fn resolve(&self, reference: &GroupRef) -> Resolution {
        if let Some(arn) = self.elsewhere(reference) {
            let said = format!(
                "target group {} is in region {}, Headgate in {}. Bind a target group of that region.",
                arn.name(),
                arn.region(),
                self.region,
            );
            return Resolution::Failed(Cause::TargetGroupUnsupported, said.into());
        }
        self.entries.get(reference).map_or(Resolution::Pending, |entry| entry.state.clone())
    }

    /// Adds the references that these namespaces use. Removes references without a namespace if their group was not
    /// found, or if the directory has too many entries.
    pub fn refer<'a>(&mut self, renamed: impl Iterator<Item = (&'a GroupRef, &'a Namers)>) {
        let many = self.entries.len() > REMEMBERED;
        for (reference, namers) in renamed {
            let is_unnamed = namers.is_empty() || self.elsewhere(reference).is_some();
            if is_unnamed {
                self.unnamed.insert(reference.clone());
            } else {
                self.unnamed.remove(reference);
            }
            let known = self.change(reference, |entry| entry.namers.clone_from(namers));
            if is_unnamed || known.is_some() {
                continue;
            }
            self.seed = self.seed.wrapping_add(1);
            let entry = Entry {
                state: Resolution::Pending,
                namers: namers.clone(),
                in_flight: false,
                alone: false,
                retry: Backoff::new(FIRST_RETRY, LAST_RETRY, self.seed),
                missing: Backoff::new(FIRST_RETRY, LAST_RETRY_OF_MISSING, self.seed),
                attributes: Attributes {
                    in_flight: false,
                    read: None,
                    retry: Backoff::new(FIRST_RETRY, LAST_RETRY, self.seed),
                },
            };
            self.entries.insert(reference.clone(), entry);
            self.change(reference, |_| ());
        }
        let mut dropped = Vec::new();
        self.unnamed.retain(|reference| {
            let is_found = |entry: &Entry| matches!(entry.state, Resolution::Found(_));
            if !many && self.entries.get(reference).is_some_and(is_found) {
                return true;
            }
            dropped.push(reference.clone());
            false
        });
        for reference in dropped {
            self.change(&reference, |entry| entry.in_flight = true);
            self.entries.remove(&reference);
        }
    }

    /// The time at which the next look-up is due.
    pub fn next_due(&self, is_standby: bool) -> Option<Moment> {
        let kinds = Kind::ALL.into_iter().filter(|kind| !is_standby || kind.is_of_a_standby());
        kinds.filter_map(|kind| Some(self.due[kind as usize].first()?.0)).min()
    }

    /// Changes the entry of `reference`, and updates the time of its next look-up.
    fn change<T>(&mut self, reference: &GroupRef, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let entry = self.entries.get_mut(reference)?;
        if let Some((kind, due)) = entry.due() {
            self.due[kind as usize].remove(&(due, reference.clone()));
        }
        let changed = change(entry);
        if let Some((kind, due)) = entry.due() {
            self.due[kind as usize].insert((due, reference.clone()));
        }
        Some(changed)
    }

    /// Starts a look-up that is due, if any.
    pub fn start(&mut self, is_standby: bool, now: Moment) -> Option<Call> {
        let references = self.find(is_standby, now);
        if references.is_empty() {
            return Some(Call::ReadAttributes { group: self.read_attributes(is_standby, now)? });
        }
        Some(Call::FindGroups { references })
    }

    /// Starts to read the attributes of a group.
    fn read_attributes(&mut self, is_standby: bool, now: Moment) -> Option<TargetGroupArn> {
        let [_, _, first, changes] = &self.due;
        let changes = (!is_standby).then(|| changes.first()).flatten();
        let reference = &first.first().into_iter().chain(changes).find(|(due, _)| *due <= now)?.1.clone();
        self.change(reference, |entry| {
            entry.attributes.in_flight = true;
            if let Resolution::Found(facts) = &entry.state { Some(facts.arn.clone()) } else { None }
        })?
    }

    /// Records the attributes of a group, or the failure to read them. Returns the references whose entries changed.
    pub fn attributes_read(
        &mut self,
        group: &TargetGroupArn,
        result: &Result<LeastHealthy, Failure>,
        now: Moment,
    ) -> Vec<GroupRef> {
        // The IAM permission for this call does not depend on the target group, so a denial applies to all groups.
        let is_denied = result.as_ref().is_err_and(|failure| failure.class == FailureClass::Denied);
        let all = self.entries.iter().filter(|(_, entry)| is_denied || entry.is_found_as(group));
        let all: Vec<GroupRef> = all.map(|(reference, _)| reference.clone()).collect();
        let learnt = all.into_iter().filter(|reference| {
            self.change(reference, |entry| entry.learn_attributes(group, result, now)).unwrap_or(false)
        });
        learnt.collect()
    }

    /// Starts the look-up of one target group, or of several target groups of one namespace. The result is empty if no
    /// look-up is due.
    fn find(&mut self, is_standby: bool, now: Moment) -> Vec<GroupRef> {
        let [unknown, missing, ..] = &self.due;
        let missing = if is_standby { None } else { Some(missing) };
        let all = || unknown.iter().chain(missing.into_iter().flatten());
        let due = || all().filter(|(due, _)| *due <= now).map(|(_, reference)| reference);
        let namers = |reference| self.entries.get(reference).into_iter().flat_map(|entry| &entry.namers);
        let last = |namespace: &Arc<str>| self.served.get(namespace).copied().unwrap_or_default();
        let all = due().flat_map(|reference| namers(reference).map(move |namespace| (namespace, reference)));
        // If several namespaces are equal, `min_by_key` returns the first namespace. A namespace without a previous
        // look-up is first, and then the namespace that has waited longest.
        let Some((namespace, first)) = all.min_by_key(|(namespace, _)| last(namespace)) else {
            return Vec::new();
        };
        let goes_along = |other: &&GroupRef| {
            let known = |reference| self.entries.get(reference).filter(|entry: &&Entry| !entry.alone);
            let is_theirs = known(*other).is_some_and(|entry| entry.namers.contains(namespace));
            *other != first
                && is_theirs
                && known(first).is_some()
                && other.arn().is_some() == first.arn().is_some()
        };
        // If few look-ups are due, send one call for each look-up. Each result is then independent of the other
        // look-ups.
        let along = if due().nth(IN_A_CALL).is_some() { IN_A_CALL - 1 } else { 0 };
        let others = due().filter(goes_along).take(along).cloned();
        let (namespace, all): (_, Vec<GroupRef>) =
            (namespace.clone(), [first.clone()].into_iter().chain(others).collect());
        self.look_ups += 1;
        self.served.insert(namespace, self.look_ups);
        for reference in &all {
            self.change(reference, |entry| entry.in_flight = true);
        }
        let [unknown, missing, ..] = &self.due;
        if unknown.is_empty() && missing.is_empty() {
            self.served.clear();
        }
        all
    }

    /// Records the result of the look-up of `references`. Returns the references whose entries changed.
    pub fn answered(
        &mut self,
        references: &[GroupRef],
        result: &Result<Vec<TargetGroupFacts>, Failure>,
        now: Moment,
    ) -> Vec<GroupRef> {
        // AWS does not name the missing target group.
        let one_of_several = references.len() > 1
            && result
                .as_ref()
                .is_err_and(|failure| matches!(failure.class, FailureClass::Gone | FailureClass::Refused));
        if one_of_several {
            for reference in references {
                self.change(reference, |entry| (entry.in_flight, entry.alone) = (false, true));
            }
            return Vec::new();
        }
        let changed = references.iter().filter(|reference| {
            let is_it = |facts: &&TargetGroupFacts| match reference {
                GroupRef::Arn(arn) => facts.arn == *arn,
                GroupRef::Name(name) => facts.arn.name() == &**name,
            };
            let result = result.as_ref().map_err(Clone::clone).and_then(|all| {
                all.iter().find(is_it).ok_or_else(|| {
                    Failure::new(FailureClass::Gone, "TargetGroupNotFound", "it is not in the answer")
                })
            });
            self.learn(reference, result, now)
        });
        changed.cloned().collect()
    }

    /// Stores the result of a look-up. Returns whether the result is new.
    fn learn(
        &mut self,
        reference: &GroupRef,
        result: Result<&TargetGroupFacts, Failure>,
        now: Moment,
    ) -> bool {
        let (region, account) = (self.region.clone(), self.account());
        let changed = self.change(reference, |entry| {
            entry.in_flight = false;
            let state = match result {
                Ok(facts) => {
                    (entry.attributes.in_flight, entry.attributes.read) =
                        (false, facts.least_healthy.map(|_| now));
                    entry.retry.succeeded();
                    entry.missing.succeeded();
                    entry.alone = false;
                    Resolution::Found(Arc::new(facts.clone()))
                }
                Err(failure) => {
                    match failure.class {
                        FailureClass::Gone | FailureClass::Refused => entry.missing.failed(now),
                        _ => entry.retry.failed(now),
                    }
                    match sentence(reference, &region, account.as_deref(), &failure) {
                        Some((reason, said)) => Resolution::Failed(reason, said.into()),
                        // The failure contains no new information, so keep the earlier result.
                        None => entry.state.clone(),
                    }
                }
            };
            let changed = entry.state != state;
            entry.state = state;
            changed
        });
        changed.unwrap_or(false)
    }

    /// The account of the target groups that were found. `None`: no target group was found yet.
    fn account(&self) -> Option<Box<str>> {
        self.entries.values().find_map(|entry| match &entry.state {
            Resolution::Found(facts) => Some(facts.arn.account().into()),
            _ => None,
        })
    }

    /// Records whether this replica is the leader. At the start of a term, the leader immediately looks up all missing
    /// groups again, because a user may have created a missing group.
    pub fn lead(&mut self, leads: bool) {
        if std::mem::replace(&mut self.leads, leads) || !leads {
            return;
        }
        let failed = |(_, entry): &(&GroupRef, &Entry)| matches!(entry.state, Resolution::Failed(..));
        let failed = self.entries.iter().filter(failed).map(|(reference, _)| reference.clone());
        for reference in failed.collect::<Vec<_>>() {
            self.change(&reference, |entry| {
                entry.state = Resolution::Pending;
                entry.missing.succeeded();
            });
        }
    }

    /// Records that AWS reports this target group as missing, and schedules a new look-up.
    pub fn gone(&mut self, group: &TargetGroupArn) {
        let gone = self.entries.iter().filter(|(_, entry)| entry.is_found_as(group));
        let gone = gone.map(|(reference, _)| reference.clone());
        for reference in gone.collect::<Vec<_>>() {
            self.change(&reference, |entry| entry.state = Resolution::Pending);
        }
    }
}

fn sentence(
    reference: &GroupRef,
    region: &str,
    account: Option<&str>,
    failure: &Failure,
) -> Option<(Cause, String)> {
    let elsewhere = match (reference, account) {
        (GroupRef::Arn(arn), Some(account)) if arn.account() != account => Some((arn, account)),
        _ => None,
    };
    let name = reference.arn().map_or_else(|| reference.to_string(), |arn| arn.name().to_owned());
    let said = match (failure.class, elsewhere) {
        (FailureClass::Throttled | FailureClass::Unavailable | FailureClass::Conflict, _) => return None,
        (FailureClass::Denied, _) => format!(
            "target group {name}: IAM denies DescribeTargetGroups ({}: {}). Allow \
             elasticloadbalancing:DescribeTargetGroups.",
            failure.code,
            beginning(&failure.message)
        ),
        (_, Some((arn, account))) => format!(
            "target group {name} is in account {}, Headgate in account {account}. Bind a target group of that account.",
            arn.account(),
        ),
        (FailureClass::Gone | FailureClass::Refused | FailureClass::Full, None) => format!(
            "target group {name} does not exist in {region} ({}: {}). Create it, or correct the name.",
            failure.code,
            beginning(&failure.message)
        ),
    };
    let reason = match failure.class {
        FailureClass::Denied => Cause::AccessDenied,
        _ => Cause::TargetGroupNotFound,
    };
    Some((reason, said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arn, group};

    fn directory(reference: &GroupRef) -> Directory {
        let mut directory = Directory::new("us-east-1", 1);
        directory.refer([(reference, &by("shop"))].into_iter());
        directory
    }

    fn finds(call: Option<Call>) -> Vec<GroupRef> {
        if let Some(Call::FindGroups { references }) = call { references } else { Vec::new() }
    }

    fn by(namespace: &str) -> Namers {
        Namers::from([namespace.into()])
    }

    fn answered(
        directory: &mut Directory,
        reference: &GroupRef,
        result: Result<TargetGroupFacts, Failure>,
        now: Moment,
    ) -> bool {
        let changed =
            directory.answered(std::slice::from_ref(reference), &result.map(|facts| vec![facts]), now);
        !changed.is_empty()
    }

    fn name(name: &str) -> GroupRef {
        GroupRef::Name(name.into())
    }

    fn failure(class: FailureClass) -> Failure {
        Failure { class, code: "Code".into(), message: "text".into() }
    }

    #[test]
    fn a_reference_is_looked_up_once_and_again_only_while_there_is_no_group() {
        let blue = GroupRef::Name("blue".into());
        let mut directory = directory(&blue);
        assert_eq!(finds(directory.start(false, Moment::START)), std::slice::from_ref(&blue));
        assert_eq!((directory.start(false, Moment::START), directory.next_due(false)), (None, None));
        assert!(answered(&mut directory, &blue, Err(failure(FailureClass::Gone)), Moment::START));
        assert_eq!(finds(directory.start(false, Moment::START)), []);
        let later = directory.next_due(false).unwrap();
        assert_eq!(finds(directory.start(false, later)), std::slice::from_ref(&blue));
        assert!(answered(&mut directory, &blue, Ok(group("blue")), later));
        assert_eq!(directory.next_due(false), Some(later + ATTRIBUTES_PERIOD));
        directory.gone(&arn("blue"));
        assert_eq!(finds(directory.start(false, later)), [blue]);
    }

    #[test]
    fn a_namespace_that_names_thousands_keeps_no_other_waiting() {
        let mut directory = Directory::new("us-east-1", 1);
        let (evil, shop) = (by("evil"), by("shop"));
        let missing: Vec<GroupRef> = (0..1000).map(|at| name(&format!("a{at}"))).collect();
        directory.refer(missing.iter().map(|name| (name, &evil)));
        assert_eq!(finds(directory.start(false, Moment::START)).len(), IN_A_CALL);
        directory.refer([(&name("z"), &shop)].into_iter());
        assert_eq!(finds(directory.start(false, Moment::START)), [name("z")], "its turn comes next");
        let calls = std::iter::from_fn(|| {
            Some(finds(directory.start(false, Moment::START))).filter(|all| !all.is_empty())
        });
        assert_eq!(calls.count(), 1000 / IN_A_CALL - 2 + IN_A_CALL, "the last few one by one");
    }

    #[test]
    fn of_two_namespaces_that_name_the_same_the_one_that_names_more_does_not_hold_it_up() {
        let mut directory = Directory::new("us-east-1", 1);
        let evil = by("evil");
        let missing: Vec<GroupRef> = (0..100).map(|at| name(&format!("a{at}"))).collect();
        directory.refer(missing.iter().map(|name| (name, &evil)));
        let both = Namers::from(["evil".into(), "shop".into()]);
        directory.refer([(&name("z"), &both)].into_iter());
        finds(directory.start(false, Moment::START));
        assert_eq!(finds(directory.start(false, Moment::START)), [name("z")]);
    }

    #[test]
    fn names_and_arns_are_asked_for_apart_and_one_that_does_not_exist_stops_no_other_for_long() {
        let mut directory = Directory::new("us-east-1", 1);
        let all = [name("bad"), name("good"), GroupRef::Arn(arn("blue"))];
        let many: Vec<GroupRef> = (0..IN_A_CALL).map(|at| name(&format!("x{at}"))).collect();
        let shop = by("shop");
        directory.refer(all.iter().chain(&many).map(|reference| (reference, &shop)));
        let arns = finds(directory.start(false, Moment::START));
        assert_eq!(arns, [all[2].clone()], "no call has names and ARNs");
        let names = finds(directory.start(false, Moment::START));
        assert_eq!((names.len(), &names[..2]), (IN_A_CALL, &all[..2]));
        let gone = Err(failure(FailureClass::Gone));
        assert_eq!(directory.answered(&names, &gone, Moment::START), []);
        let alone =
            [finds(directory.start(false, Moment::START)), finds(directory.start(false, Moment::START))];
        assert_eq!(alone, [vec![name("bad")], vec![name("good")]], "one of them alone is known to be bad");
        assert_eq!(directory.answered(&alone[0], &gone, Moment::START), [name("bad")]);
        assert_eq!(directory.answered(&alone[1], &Ok(vec![group("good")]), Moment::START), [name("good")]);
    }

    #[test]
    fn one_that_does_not_exist_is_asked_for_every_five_to_ten_minutes_in_the_end_and_a_fault_more_often() {
        for (class, longest) in [(FailureClass::Gone, 600), (FailureClass::Unavailable, 30)] {
            let blue = name("blue");
            let (mut directory, mut now, mut waits) = (directory(&blue), Moment::START, Vec::new());
            for _ in 0..14 {
                assert_eq!(finds(directory.start(false, now)), std::slice::from_ref(&blue));
                answered(&mut directory, &blue, Err(failure(class)), now);
                let next = directory.next_due(false).unwrap();
                waits.push(next.since(now).as_secs());
                now = next;
            }
            assert!(waits[0] <= 1 && (longest / 2..=longest).contains(waits.last().unwrap()), "{waits:?}");
        }
    }

    #[test]
    fn attributes_are_read_once_by_each_replica_and_again_by_the_one_that_leads() {
        let blue = name("blue");
        let mut directory = directory(&blue);
        directory.start(true, Moment::START);
        let unread = TargetGroupFacts { least_healthy: None, ..group("blue") };
        answered(&mut directory, &blue, Ok(unread), Moment::START);
        let read = Call::ReadAttributes { group: arn("blue") };
        let least = |directory: &Directory| match directory.resolve(&blue) {
            Resolution::Found(facts) => facts.least_healthy,
            other => panic!("{other:?}"),
        };
        assert_eq!(directory.start(true, Moment::START), Some(read.clone()));
        assert_eq!((directory.start(true, Moment::START), directory.next_due(true)), (None, None));

        let throttled = Err(failure(FailureClass::Throttled));
        assert_eq!(directory.attributes_read(&arn("blue"), &throttled, Moment::START), []);
        let later = directory.next_due(true).unwrap();
        assert!(later > Moment::START && least(&directory).is_none());
        assert_eq!(directory.start(true, later), Some(read.clone()));
        let many = LeastHealthy { count: 3, percent: 60 };
        assert_eq!(directory.attributes_read(&arn("blue"), &Ok(many), later), std::slice::from_ref(&blue));
        assert_eq!((least(&directory), directory.next_due(true)), (Some(many), None));

        // If Headgate can no longer read the attributes, the last value remains.
        let later = later + ATTRIBUTES_PERIOD;
        assert_eq!(
            (directory.next_due(false), directory.start(false, later)),
            (Some(later), Some(read.clone()))
        );
        let denied = Err(failure(FailureClass::Denied));
        assert_eq!(directory.attributes_read(&arn("blue"), &denied, later), []);
        assert_eq!(least(&directory), Some(many));
        let later = later + ATTRIBUTES_PERIOD;
        assert_eq!(directory.start(false, later), Some(read));
        let changed = Ok(LeastHealthy::DEFAULT);
        assert_eq!(directory.attributes_read(&arn("blue"), &changed, later), std::slice::from_ref(&blue));
        assert!(directory.served.is_empty(), "reading attributes is nobody's turn");
        directory.refer([(&blue, &Namers::new())].into_iter());
        assert_eq!(directory.next_due(false), None, "nothing names it");
        directory.gone(&arn("blue"));
        assert_eq!((directory.next_due(false), directory.start(false, later)), (None, None), "nor then");
        directory.refer([(&blue, &by("shop"))].into_iter());
        assert_eq!(finds(directory.start(false, later)), [blue]);
    }

    #[test]
    fn who_may_not_read_attributes_asks_once_an_hour_for_all() {
        let mut directory = Directory::new("us-east-1", 1);
        let (one, other) = (name("blue"), name("green"));
        directory.refer([(&one, &by("shop")), (&other, &by("shop"))].into_iter());
        for reference in [&one, &other] {
            directory.start(false, Moment::START);
            let facts = TargetGroupFacts { least_healthy: None, ..group(&reference.to_string()) };
            answered(&mut directory, reference, Ok(facts), Moment::START);
        }
        let Some(Call::ReadAttributes { group }) = directory.start(false, Moment::START) else { panic!() };
        let news = directory.attributes_read(&group, &Err(failure(FailureClass::Denied)), Moment::START);
        assert_eq!(news, [one, other]);
        assert_eq!(directory.next_due(false), Some(Moment::START + ATTRIBUTES_PERIOD));
    }

    #[test]
    fn a_standby_asks_once_for_each_and_a_leader_again_for_what_was_not_found() {
        let blue = name("blue");
        let mut directory = directory(&blue);
        assert_eq!(finds(directory.start(true, Moment::START)), std::slice::from_ref(&blue));
        answered(&mut directory, &blue, Err(failure(FailureClass::Gone)), Moment::START);
        let later = directory.next_due(false).unwrap();
        assert_eq!((directory.next_due(true), directory.start(true, later)), (None, None));
        assert_eq!(finds(directory.start(false, later)), [blue]);
    }

    #[test]
    fn a_group_that_was_found_is_remembered_while_nothing_names_it() {
        let blue = GroupRef::Name("blue".into());
        let mut directory = directory(&blue);
        directory.refer([(&blue, &Namers::new())].into_iter());
        assert_eq!(directory.next_due(false), None, "nothing was found, so nothing is asked");
        directory.refer([(&blue, &by("shop"))].into_iter());
        answered(&mut directory, &blue, Ok(group("blue")), Moment::START);
        directory.refer([(&blue, &Namers::new())].into_iter());
        assert!(matches!(directory.resolve(&blue), Resolution::Found(_)));
    }

    #[test]
    fn of_groups_that_nothing_names_a_thousand_are_remembered_and_then_none() {
        for (found, remembered) in [(REMEMBERED, true), (REMEMBERED + 1, false)] {
            let mut directory = Directory::new("us-east-1", 1);
            let names: BTreeSet<GroupRef> =
                (0..found).map(|at| GroupRef::Name(format!("g{at}").into())).collect();
            let (shop, nobody) = (by("shop"), Namers::new());
            directory.refer(names.iter().map(|name| (name, &shop)));
            for name in &names {
                let mut facts = group("blue");
                facts.arn = arn(&name.to_string());
                answered(&mut directory, name, Ok(facts), Moment::START);
            }
            directory.refer(names.iter().map(|name| (name, &nobody)));
            let one = names.first().unwrap();
            assert_eq!(matches!(directory.resolve(one), Resolution::Found(_)), remembered, "{found}");
        }
    }

    #[test]
    fn an_unknown_group_and_a_denied_look_up_are_said_and_a_passing_fault_is_not() {
        let blue = GroupRef::Name("blue".into());
        for (class, said) in [
            (
                FailureClass::Gone,
                Some((Cause::TargetGroupNotFound, "target group blue does not exist in us-east-1")),
            ),
            (FailureClass::Denied, Some((Cause::AccessDenied, "elasticloadbalancing:DescribeTargetGroups"))),
            (FailureClass::Throttled, None),
            (FailureClass::Unavailable, None),
        ] {
            let mut directory = directory(&blue);
            answered(&mut directory, &blue, Err(failure(class)), Moment::START);
            match (directory.resolve(&blue), said) {
                (Resolution::Failed(reason, text), Some((expected, part))) => {
                    assert!(reason == expected && text.contains(part), "{text}");
                }
                (Resolution::Pending, None) => {}
                other => panic!("{class:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_group_of_another_account_is_not_asked_to_be_created() {
        let theirs = "arn:aws:elasticloadbalancing:us-east-1:999999999999:targetgroup/blue/0123456789abcdef";
        let theirs = GroupRef::Arn(TargetGroupArn::parse(theirs).unwrap());
        let ours = GroupRef::Name("green".into());
        let mut directory = Directory::new("us-east-1", 1);
        directory.refer([(&theirs, &by("shop")), (&ours, &by("shop"))].into_iter());
        let said = |directory: &mut Directory| {
            answered(directory, &theirs, Err(failure(FailureClass::Gone)), Moment::START);
            match directory.resolve(&theirs) {
                Resolution::Failed(Cause::TargetGroupNotFound, said) => said,
                other => panic!("{other:?}"),
            }
        };
        assert!(said(&mut directory).contains("Create it"), "no account is known");
        answered(&mut directory, &ours, Ok(group("green")), Moment::START);
        let said = said(&mut directory);
        assert!(said.contains("is in account 999999999999, Headgate in account"), "{said}");
        assert!(!said.contains("Create it"), "{said}");
    }

    #[test]
    fn a_group_of_another_region_is_refused_without_asking() {
        let mut directory = Directory::new("eu-west-1", 1);
        let elsewhere = GroupRef::Arn(arn("blue"));
        directory.refer([(&elsewhere, &by("shop"))].into_iter());
        assert_eq!(directory.next_due(false), None);
        let Resolution::Failed(Cause::TargetGroupUnsupported, said) = directory.resolve(&elsewhere) else {
            panic!("not refused")
        };
        assert!(said.contains("is in region us-east-1, Headgate in eu-west-1"), "{said}");
    }

    #[test]
    fn an_account_is_named_only_if_it_is_another_one() {
        let reference = GroupRef::Arn(arn("blue"));
        let said = |account| {
            let gone = failure(FailureClass::Gone);
            sentence(&reference, "us-east-1", account, &gone).unwrap().1
        };
        assert!(said(Some("123456789012")).starts_with("target group blue does not exist in us-east-1"));
        assert!(said(None).starts_with("target group blue does not exist"));
        assert!(said(Some("210987654321")).contains("Headgate in account 210987654321"));
    }
}

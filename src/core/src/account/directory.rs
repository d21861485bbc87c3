//! What AWS knows of the target groups that users named: looked up once, asked again while there is none.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    model::{Failure, FailureClass, GroupRef, Moment, Reason, Resolution, TargetGroupArn, TargetGroupFacts},
    rate_limit::backoff::Backoff,
};

const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
struct Entry {
    state: Resolution,
    in_flight: bool,
    retry: Backoff,
}

/// So many target groups are remembered although nothing names them any more: a Service that is deleted and made
/// again finds its group at once.
const REMEMBERED: usize = 1024;

/// See the module.
#[derive(Clone, Debug)]
pub struct Directory {
    region: Box<str>,
    entries: BTreeMap<GroupRef, Entry>,
    /// Those that nothing names any more.
    unnamed: BTreeSet<GroupRef>,
    /// Those that are to be looked up, each with when.
    due: BTreeSet<(Moment, GroupRef)>,
    seed: u64,
}

impl Directory {
    pub fn new(region: &str, seed: u64) -> Self {
        let (entries, unnamed, due) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { region: region.into(), entries, unnamed, due, seed }
    }

    /// The region of a target group, if it is another one.
    fn elsewhere<'a>(&self, reference: &'a GroupRef) -> Option<&'a TargetGroupArn> {
        reference.arn().filter(|arn| arn.region() != &*self.region)
    }

    /// What is known of `reference`.
    pub fn resolve(&self, reference: &GroupRef) -> Resolution {
        if let Some(arn) = self.elsewhere(reference) {
            let said = format!(
                "target group {} is in region {}, and this Headgate works in region {}; expected a target group \
                 of that region, or a Headgate started with AWS_REGION={}",
                arn.name(),
                arn.region(),
                self.region,
                arn.region()
            );
            return Resolution::Failed(Reason::TargetGroupUnsupported, said.into());
        }
        self.entries.get(reference).map_or(Resolution::Pending, |entry| entry.state.clone())
    }

    /// Takes up references that have come to be named (`true`), and drops those that are named no more and have no group,
    /// or are too many.
    pub fn refer<'a>(&mut self, renamed: impl Iterator<Item = (&'a GroupRef, &'a bool)>) {
        let many = self.entries.len() > REMEMBERED;
        for (reference, is_named) in renamed {
            if !is_named || self.elsewhere(reference).is_some() {
                self.unnamed.insert(reference.clone());
            } else if !self.unnamed.remove(reference) && !self.entries.contains_key(reference) {
                self.seed = self.seed.wrapping_add(1);
                let retry = Backoff::new(FIRST_RETRY, LAST_RETRY, self.seed);
                self.due.insert((retry.until(), reference.clone()));
                let entry = Entry { state: Resolution::Pending, in_flight: false, retry };
                self.entries.insert(reference.clone(), entry);
            }
        }
        self.unnamed.retain(|reference| {
            let is_found = |entry: &Entry| matches!(entry.state, Resolution::Found(_));
            if !many && self.entries.get(reference).is_some_and(is_found) {
                return true;
            }
            if let Some(entry) = self.entries.remove(reference) {
                self.due.remove(&(entry.retry.until(), reference.clone()));
            }
            false
        });
    }

    /// When the next reference should be looked up.
    pub fn next_due(&self) -> Option<Moment> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Changes what is known of `reference`, and so when it is looked up.
    fn change<T>(&mut self, reference: &GroupRef, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let entry = self.entries.get_mut(reference)?;
        self.due.remove(&(entry.retry.until(), reference.clone()));
        let changed = change(entry);
        if !entry.in_flight && !matches!(entry.state, Resolution::Found(_)) {
            self.due.insert((entry.retry.until(), reference.clone()));
        }
        Some(changed)
    }

    /// Begins a look-up that is due.
    pub fn start(&mut self, now: Moment) -> Option<GroupRef> {
        let due = self.due.iter().take_while(|(due, _)| *due <= now);
        let reference = due.map(|(_, reference)| reference).min()?.clone();
        self.change(&reference, |entry| entry.in_flight = true);
        Some(reference)
    }

    /// The look-up of `reference` has ended. Says whether anything is known now that was not before.
    pub fn answered(
        &mut self,
        reference: &GroupRef,
        result: Result<TargetGroupFacts, Failure>,
        now: Moment,
    ) -> bool {
        let (region, account) = (self.region.clone(), self.account());
        let changed = self.change(reference, |entry| {
            entry.in_flight = false;
            let state = match result {
                Ok(facts) => {
                    entry.retry.succeeded();
                    Resolution::Found(Arc::new(facts))
                }
                Err(failure) => {
                    entry.retry.failed(now);
                    match sentence(reference, &region, account.as_deref(), &failure) {
                        Some((reason, said)) => Resolution::Failed(reason, said.into()),
                        // Nothing was learnt: what was known stays.
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

    /// The account that AWS is asked in, if a target group was found there.
    fn account(&self) -> Option<Box<str>> {
        self.entries.values().find_map(|entry| match &entry.state {
            Resolution::Found(facts) => Some(facts.arn.account().into()),
            _ => None,
        })
    }

    /// AWS says that this target group does not exist (any more): look its references up again.
    pub fn gone(&mut self, group: &TargetGroupArn) {
        let is_it = |entry: &Entry| matches!(&entry.state, Resolution::Found(facts) if facts.arn == *group);
        let gone =
            self.entries.iter().filter(|(_, entry)| is_it(entry)).map(|(reference, _)| reference.clone());
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
) -> Option<(Reason, String)> {
    let elsewhere = match (reference, account) {
        (GroupRef::Arn(arn), Some(account)) if arn.account() != account => Some((arn, account)),
        _ => None,
    };
    let said = match (failure.class, elsewhere) {
        (FailureClass::Throttled | FailureClass::Unavailable | FailureClass::Conflict, _) => return None,
        (FailureClass::Denied, _) => format!(
            "Headgate may not look up target group {reference} ({}: {}); expected its IAM policy to allow \
             elasticloadbalancing:DescribeTargetGroups",
            failure.code, failure.message
        ),
        (_, Some((arn, account))) => format!(
            "target group {} is in account {}, and this Headgate works in account {account}, where AWS knows none of that \
             ARN ({}: {}); expected a target group of that account, or a Headgate with credentials of account {}",
            arn.name(),
            arn.account(),
            failure.code,
            failure.message,
            arn.account()
        ),
        (FailureClass::Gone | FailureClass::Refused | FailureClass::Full, None) => format!(
            "AWS knows no target group {reference} in region {region} ({}: {}); expected the ARN or name of one \
             that exists; create it or correct the annotation, it is looked up again by itself",
            failure.code, failure.message
        ),
    };
    let reason = match failure.class {
        FailureClass::Denied => Reason::AccessDenied,
        _ => Reason::TargetGroupNotFound,
    };
    Some((reason, said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{arn, group};

    fn directory(reference: &GroupRef) -> Directory {
        let mut directory = Directory::new("us-east-1", 1);
        directory.refer([(reference, &true)].into_iter());
        directory
    }

    fn failure(class: FailureClass) -> Failure {
        Failure { class, code: "Code".into(), message: "text".into() }
    }

    #[test]
    fn a_reference_is_looked_up_once_and_again_only_while_there_is_no_group() {
        let blue = GroupRef::Name("blue".into());
        let mut directory = directory(&blue);
        assert_eq!(directory.start(Moment::START), Some(blue.clone()));
        assert_eq!((directory.start(Moment::START), directory.next_due()), (None, None));
        assert!(directory.answered(&blue, Err(failure(FailureClass::Gone)), Moment::START));
        assert_eq!(directory.start(Moment::START), None);
        let later = directory.next_due().unwrap();
        assert_eq!(directory.start(later), Some(blue.clone()));
        assert!(directory.answered(&blue, Ok(group("blue")), later));
        assert_eq!(directory.next_due(), None);
        directory.gone(&arn("blue"));
        assert_eq!(directory.start(later), Some(blue));
    }

    #[test]
    fn a_group_that_was_found_is_remembered_while_nothing_names_it() {
        let blue = GroupRef::Name("blue".into());
        let mut directory = directory(&blue);
        directory.refer([(&blue, &false)].into_iter());
        assert_eq!(directory.next_due(), None, "nothing was found, so nothing is asked");
        directory.refer([(&blue, &true)].into_iter());
        directory.answered(&blue, Ok(group("blue")), Moment::START);
        directory.refer([(&blue, &false)].into_iter());
        assert!(matches!(directory.resolve(&blue), Resolution::Found(_)));
    }

    #[test]
    fn of_groups_that_nothing_names_a_thousand_are_remembered_and_then_none() {
        for (found, remembered) in [(REMEMBERED, true), (REMEMBERED + 1, false)] {
            let mut directory = Directory::new("us-east-1", 1);
            let names: BTreeSet<GroupRef> =
                (0..found).map(|at| GroupRef::Name(format!("g{at}").into())).collect();
            directory.refer(names.iter().map(|name| (name, &true)));
            for name in &names {
                directory.answered(name, Ok(group("blue")), Moment::START);
            }
            directory.refer(names.iter().map(|name| (name, &false)));
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
                Some((Reason::TargetGroupNotFound, "AWS knows no target group blue in region")),
            ),
            (FailureClass::Denied, Some((Reason::AccessDenied, "elasticloadbalancing:DescribeTargetGroups"))),
            (FailureClass::Throttled, None),
            (FailureClass::Unavailable, None),
        ] {
            let mut directory = directory(&blue);
            directory.answered(&blue, Err(failure(class)), Moment::START);
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
        directory.refer([(&theirs, &true), (&ours, &true)].into_iter());
        let said = |directory: &mut Directory| {
            directory.answered(&theirs, Err(failure(FailureClass::Gone)), Moment::START);
            match directory.resolve(&theirs) {
                Resolution::Failed(Reason::TargetGroupNotFound, said) => said,
                other => panic!("{other:?}"),
            }
        };
        assert!(said(&mut directory).contains("create it"), "no account is known");
        directory.answered(&ours, Ok(group("green")), Moment::START);
        let said = said(&mut directory);
        assert!(said.contains("is in account 999999999999, and this Headgate works in account"), "{said}");
        assert!(!said.contains("create it"), "{said}");
    }

    #[test]
    fn a_group_of_another_region_is_refused_without_asking() {
        let mut directory = Directory::new("eu-west-1", 1);
        let elsewhere = GroupRef::Arn(arn("blue"));
        directory.refer([(&elsewhere, &true)].into_iter());
        assert_eq!(directory.next_due(), None);
        let Resolution::Failed(Reason::TargetGroupUnsupported, said) = directory.resolve(&elsewhere) else {
            panic!("not refused")
        };
        assert!(said.contains("is in region us-east-1") && said.contains("AWS_REGION=us-east-1"), "{said}");
    }

    #[test]
    fn an_account_is_named_only_if_it_is_another_one() {
        let reference = GroupRef::Arn(arn("blue"));
        let said = |account| {
            let gone = failure(FailureClass::Gone);
            sentence(&reference, "us-east-1", account, &gone).unwrap().1
        };
        assert!(said(Some("123456789012")).starts_with("AWS knows no target group"));
        assert!(said(None).starts_with("AWS knows no target group"));
        assert!(said(Some("210987654321")).contains("this Headgate works in account 210987654321"));
    }
}

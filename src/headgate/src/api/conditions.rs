//! Computes the conditions of a TargetBinding. All six conditions always exist, each with a stable reason, so that
//! `kubectl wait --for=condition=…` works for True and False.
//!
//! `Ready` and `TargetGroupFound` are True if nothing is wrong. `Conflict`, `RemovalHeld`, `Throttled` and `Paused` are
//! True if an operator may need the information. `lastTransitionTime` contains the start of the condition's present
//! state.

use headgate_core::Reason;

use crate::api::known::Known;

/// The content of a condition: its status, its reason and a sentence.
pub type Says = (&'static str, &'static str, String);

/// The reasons of `Conflict`: another writer or binding uses the same targets.
const CONFLICT: &[Reason] = &[Reason::UnknownWriter, Reason::TargetClaimedTwice, Reason::AddressContested];
/// The reasons of `RemovalHeld`: Headgate does not deregister targets that should be deregistered.
const REMOVAL_HELD: &[Reason] = &[
    Reason::RemovalsPaused,
    Reason::RemovalHeld,
    Reason::BindingRemoved,
    Reason::ListDoubted,
    Reason::ForeignTarget,
];
const THROTTLED: &[Reason] = &[Reason::Throttled];
const PAUSED: &[Reason] = &[Reason::ReadOnly, Reason::Paused];

/// Reasons that affect no desired target.
const HARMLESS: &[Reason] = &[
    Reason::TargetClaimedTwice,
    Reason::RemovalHeld,
    Reason::ListDoubted,
    Reason::Throttled,
    Reason::ReadOnly,
    Reason::Paused,
];

/// The input from which the conditions are computed.
pub struct About<'a> {
    /// The known state of the TargetBinding.
    pub known: &'a Known<'a>,
    /// The number of desired targets.
    pub wanted: i64,
    /// The number of healthy desired targets.
    pub healthy: i64,
}

impl About<'_> {
    /// Returns all conditions, each with its type.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Says)> {
        [
            ("TargetGroupFound", self.found()),
            ("Ready", self.ready()),
            ("Conflict", self.one_of(CONFLICT, "no other writer or binding uses its targets")),
            ("RemovalHeld", self.one_of(REMOVAL_HELD, "no deregistration waits for anything except AWS")),
            ("Throttled", self.one_of(THROTTLED, "AWS accepts calls at the rate at which they are sent")),
            ("Paused", self.one_of(PAUSED, "Headgate writes to the target group")),
        ]
        .into_iter()
    }

    fn found(&self) -> Says {
        let about_group =
            |reason: Reason| matches!(reason, Reason::TargetGroupNotFound | Reason::TargetGroupUnsupported);
        let bad = self.known.said.iter().find(|(reason, _)| about_group(*reason));
        match (bad, self.known.binding) {
            (Some((reason, said)), _) => ("False", reason.as_str(), said.clone()),
            (None, Some(binding)) => {
                ("True", Reason::AsExpected.as_str(), format!("the target group is {}", binding.key.group))
            }
            (None, None) => {
                ("Unknown", Reason::NotListedYet.as_str(), "the target group was not found yet".to_owned())
            }
        }
    }

    fn ready(&self) -> Says {
        let harmful = self.known.said.iter().find(|(reason, _)| !HARMLESS.contains(reason));
        if self.known.ending {
            let said = "deleted, and kept until AWS has accepted the deregistration of its targets. To \
                        delete it without that, remove the finalizer headgate.dev/targets, or run headgate \
                        uninstall";
            ("False", Reason::BindingRemoved.as_str(), said.to_owned())
        } else if let Some((reason, said)) = harmful {
            ("False", reason.as_str(), said.clone())
        } else if self.known.binding.is_none() {
            ("Unknown", Reason::NotListedYet.as_str(), "the target group was not found yet".to_owned())
        } else if self.wanted == 0 {
            ("False", Reason::NotSelected.as_str(), "no pod with an IP is selected".to_owned())
        } else if self.healthy < self.wanted {
            ("False", Reason::TargetUnhealthy.as_str(), "not every target is healthy".to_owned())
        } else {
            ("True", Reason::AsExpected.as_str(), "every target is healthy".to_owned())
        }
    }

    /// Returns True with the first of these reasons that applies, or False if none applies.
    fn one_of(&self, reasons: &[Reason], then: &str) -> Says {
        let said = |reason| self.known.said.iter().find(|(own, _)| own == reason);
        match reasons.iter().find_map(said) {
            Some((reason, said)) => ("True", reason.as_str(), said.clone()),
            None => ("False", Reason::AsExpected.as_str(), then.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(said: &[(Reason, String)]) -> Vec<(&'static str, Says)> {
        let known = Known {
            named: "web",
            binding: None,
            group: None,
            last_read: None,
            said,
            generation: None,
            ending: false,
        };
        About { known: &known, wanted: 0, healthy: 0 }.all().collect()
    }

    fn says(said: &[(Reason, String)], kind: &str) -> (&'static str, &'static str) {
        let all = conditions(said);
        let (_, (status, reason, _)) = all.iter().find(|(own, _)| *own == kind).unwrap();
        (status, reason)
    }

    #[test]
    fn every_condition_is_always_there_and_false_without_a_reason() {
        for (kind, reason) in [
            ("Conflict", "AsExpected"),
            ("RemovalHeld", "AsExpected"),
            ("Throttled", "AsExpected"),
            ("Paused", "AsExpected"),
        ] {
            assert_eq!(says(&[], kind), ("False", reason));
        }
        assert_eq!((says(&[], "Ready").0, says(&[], "TargetGroupFound").0), ("Unknown", "Unknown"));
    }

    #[test]
    fn each_reason_shows_in_its_condition_and_in_no_other_but_ready() {
        for (kind, reasons) in [
            ("Conflict", CONFLICT),
            ("RemovalHeld", REMOVAL_HELD),
            ("Throttled", THROTTLED),
            ("Paused", PAUSED),
        ] {
            for reason in reasons {
                let said = [(*reason, "because".to_owned())];
                for (own, (status, word, message)) in conditions(&said) {
                    if own == kind {
                        assert_eq!((status, word, &*message), ("True", reason.as_str(), "because"));
                    } else if own != "Ready" {
                        assert_ne!(word, reason.as_str(), "{own}");
                    }
                }
                let harms = says(&said, "Ready") == ("False", reason.as_str());
                assert_eq!(harms, !HARMLESS.contains(reason), "{reason}");
            }
        }
    }

    #[test]
    fn of_several_the_one_that_matters_most_is_shown() {
        let said = [(Reason::ListDoubted, "a".to_owned()), (Reason::RemovalsPaused, "b".to_owned())];
        assert_eq!(says(&said, "RemovalHeld"), ("True", "RemovalsPaused"));
    }
}

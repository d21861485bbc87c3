//! Reports changes of a set as Events and log lines: a rollout began, completed or stopped, or the API server rejects
//! pods. Reports have the same reasons and sentences as the conditions of the set.

use std::collections::BTreeMap;

use headgate_core::{
    Reason,
    model::{
        notice::{About, Notice, Notices},
        object::{ObjectKey, Uid},
    },
};
use headgate_daemonset::model::{
    Revision,
    status::{Roll, Status},
};
use tracing::{info, warn};

use crate::kube::daemonsets::status::{created, progress};

/// The parts of a status whose changes are reported.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    roll: Roll,
    current: Option<Revision>,
    update: Option<Revision>,
    refused: Option<Box<str>>,
    beyond: Vec<Box<str>>,
    late: usize,
}

impl Mark {
    fn of(status: &Status) -> Self {
        Self {
            roll: status.roll,
            current: status.remembered.current.clone(),
            update: status.remembered.update.clone(),
            refused: status.refused.clone(),
            beyond: status.beyond.clone(),
            late: status.late.len(),
        }
    }
}

/// The last reports about each set. A new leader repeats reports about problems, but not reports about progress.
#[derive(Debug, Default)]
pub struct Telling {
    said: Notices<(ObjectKey, Uid)>,
    /// The last state of each set, and the revision of its last reported rollout. At the first status, the revision of
    /// the rollout in progress is stored.
    rolls: BTreeMap<(ObjectKey, Uid), (Mark, Option<Revision>)>,
}

impl Telling {
    /// The reports that the present status of a set requires.
    pub fn news(&mut self, key: &ObjectKey, uid: &Uid, status: &Status) -> Vec<Notice> {
        let (set, mark) = ((key.clone(), uid.clone()), Mark::of(status));
        if self.rolls.get(&set).is_some_and(|(before, _)| *before == mark) {
            return Vec::new();
        }
        let mut wrong = Vec::new();
        if status.roll == Roll::Stopped {
            wrong.push((Reason::ProgressDeadlineExceeded, progress(status).2));
        }
        wrong.extend(status.beyond.iter().map(|said| (Reason::LimitExceeded, said.to_string())));
        if status.refused.is_some() {
            wrong.push((Reason::PodsRefused, created(status).2));
        }
        let mut news = self.said.set(&set, wrong);
        let remembered = &status.remembered;
        let update = remembered.update.clone().filter(|_| remembered.current != remembered.update);
        let Some((before, told)) = self.rolls.get_mut(&set) else {
            self.rolls.insert(set, (mark, update));
            return Self::told(key, uid, news);
        };
        *before = mark;
        match told {
            told if update.is_some() && *told != update && status.roll == Roll::GoesOn => {
                *told = update;
                news.push((Reason::NodesInTurn, progress(status).2));
            }
            told if update.is_none() && told.is_some() && status.roll == Roll::Done => {
                *told = None;
                news.push((Reason::AsExpected, progress(status).2));
            }
            _ => {}
        }
        Self::told(key, uid, news)
    }

    /// Converts reports to Events. Each report is also logged.
    fn told(key: &ObjectKey, uid: &Uid, news: Vec<(Reason, String)>) -> Vec<Notice> {
        for (reason, note) in &news {
            if reason.is_good_news() {
                info!(%reason, kind = "ingressdaemonset", object = %key, "{note}");
            } else {
                warn!(%reason, kind = "ingressdaemonset", object = %key, "{note}");
            }
        }
        let about = || About::IngressDaemonSet(key.clone(), uid.clone());
        news.into_iter().map(|(reason, note)| Notice { about: about(), reason, note }).collect()
    }

    /// Drops the records of all sets for which `is_there` is false.
    pub fn retain(&mut self, is_there: impl Fn(&ObjectKey, &Uid) -> bool) {
        let gone = |(key, uid): &&(ObjectKey, Uid)| !is_there(key, uid);
        let gone: Vec<_> = self.rolls.keys().filter(gone).cloned().collect();
        for set in gone {
            self.rolls.remove(&set);
            self.said.set(&set, []);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use headgate_core::WallTime;
    use headgate_daemonset::model::Remembered;

    use super::*;

    fn status(current: &str, update: &str, roll: Roll) -> Status {
        let turns =
            (roll == Roll::GoesOn).then(|| ("n1".into(), WallTime::since_1970(std::time::Duration::ZERO)));
        Status {
            generation: 1,
            remembered: Remembered {
                current: Some(current.into()),
                update: Some(update.into()),
                turns: turns.into_iter().collect(),
            },
            roll,
            late: (roll == Roll::Stopped).then(|| "n1".into()).into_iter().collect(),
            waits: BTreeMap::new(),
            nodes: 3,
            updated_nodes: 1,
            degraded: BTreeSet::new(),
            wanted: 3,
            pods: 3,
            updated: 1,
            ready: 3,
            available: 3,
            refused: None,
            beyond: Vec::new(),
        }
    }

    #[test]
    fn a_roll_is_told_when_it_begins_stops_and_is_complete_and_each_once() {
        let (key, uid) = (ObjectKey::new("ingress", "edge"), Uid::new("s-1"));
        let mut telling = Telling::default();
        let mut told = |status: &Status| -> Vec<Reason> {
            telling.news(&key, &uid, status).into_iter().map(|notice| notice.reason).collect()
        };
        assert_eq!(told(&status("a", "a", Roll::Done)), [], "it was so when this replica began to lead");
        assert_eq!(told(&status("a", "b", Roll::GoesOn)), [Reason::NodesInTurn]);
        assert_eq!(told(&status("a", "b", Roll::GoesOn)), []);
        assert_eq!(told(&status("a", "b", Roll::Stopped)), [Reason::ProgressDeadlineExceeded]);
        assert_eq!(told(&status("a", "b", Roll::Stopped)), []);
        assert_eq!(told(&status("a", "c", Roll::GoesOn)), [Reason::NodesInTurn], "another template");
        assert_eq!(told(&status("a", "c", Roll::Degraded)), []);
        assert_eq!(told(&status("c", "c", Roll::Done)), [Reason::AsExpected]);
        assert_eq!(told(&status("c", "c", Roll::Done)), []);
        let refused = Status { refused: Some("quota".into()), ..status("c", "c", Roll::Done) };
        assert_eq!(told(&refused), [Reason::PodsRefused]);
        assert_eq!(told(&status("c", "c", Roll::Done)), []);
        assert_eq!(told(&refused), [Reason::PodsRefused], "it was well in between");
    }

    #[test]
    fn what_exceeds_a_limit_is_told_once() {
        let (key, uid) = (ObjectKey::new("ingress", "edge"), Uid::new("s-1"));
        let mut telling = Telling::default();
        let large = Status { beyond: vec!["too much".into()], ..status("a", "a", Roll::TooLarge) };
        let notices = telling.news(&key, &uid, &large);
        let [Notice { reason: Reason::LimitExceeded, note, .. }] = &notices[..] else {
            panic!("{notices:?}")
        };
        assert_eq!(note, "too much");
        assert_eq!(telling.news(&key, &uid, &large), []);
    }

    #[test]
    fn who_begins_to_lead_in_the_middle_says_what_is_wrong_and_when_it_is_complete() {
        let (key, uid) = (ObjectKey::new("ingress", "edge"), Uid::new("s-1"));
        let mut telling = Telling::default();
        let notices = telling.news(&key, &uid, &status("a", "b", Roll::Stopped));
        let [notice] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!(notice.about, About::IngressDaemonSet(key.clone(), uid.clone()));
        assert!(notice.note.contains("pods of n1 not available in time"), "{}", notice.note);
        assert_eq!(telling.news(&key, &uid, &status("a", "b", Roll::GoesOn)), [], "it had begun before");
        assert_eq!(telling.news(&key, &uid, &status("b", "b", Roll::Done)).len(), 1);
        telling.retain(|_, of| of.as_str() == "s-2");
        assert!(telling.rolls.is_empty());
    }
}

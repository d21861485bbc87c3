//! This task manages grants: it receives messages from the watches, and sends all present grants to the engine.

use std::{sync::Arc, time::Duration};

use headgate_core::{
    Change, Input, Moment, Reason,
    model::{
        grant::GrantFacts,
        notice::{About, Notice, Notices},
    },
};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::{
    known::Known,
    seen::{News, Seen},
};
use crate::{
    kube::events,
    metrics::Metrics,
    runtime::{authority::Authority, clock::Clock},
};

/// The maximum number of messages in the queue. If the queue is full, the watches wait.
pub const QUEUE: usize = 256;
/// If the API server rejects the list for this long, Headgate assumes that the rejection is permanent.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The data of the task.
pub struct Keeper {
    /// Messages from the watches.
    pub news: mpsc::Receiver<News>,
    /// Inputs to the engine.
    pub inbox: mpsc::Sender<Input>,
    /// The queue of Events.
    pub notices: events::Sender,
    /// The data for `headgate doctor`.
    pub shown: watch::Sender<Shown>,
    /// Whether binding a target group requires a grant.
    pub required: bool,
    /// Whether this replica is the leader. Only the leader reports errors in grants.
    pub authority: Authority,
    /// The time.
    pub clock: Clock,
    /// The metrics.
    pub metrics: Arc<Metrics>,
}

/// The state of the grants, for people.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Whether grants are required.
    pub required: bool,
    /// The grants that are in effect. `None`: the engine has received no grants yet.
    pub all: Option<Vec<GrantFacts>>,
    /// The reasons why grants or namespace labels cannot be read.
    pub unread: Vec<String>,
    /// Each object with an invalid part, and a message that states what to write instead.
    pub problems: Vec<(String, String)>,
}

/// The state of a watch's list.
#[derive(Debug, Default)]
enum Source {
    /// The list is pending, or the API server does not answer.
    #[default]
    Awaited,
    /// The API server has rejected the list since `since`, for the reason `why`.
    Refused { since: Moment, why: String, told: bool },
    /// The list was received at least once.
    Listed,
}

impl Source {
    fn changed(&mut self) -> bool {
        let was_told = matches!(self, Self::Refused { told: true, .. });
        *self = Self::Listed;
        was_told
    }

    /// Records that the API server rejected the list. A received list remains valid.
    fn refused(&mut self, why: String, now: Moment) {
        match self {
            Self::Awaited => *self = Self::Refused { since: now, why, told: false },
            Self::Refused { why: before, .. } => *before = why,
            Self::Listed => {}
        }
    }

    /// Records a failure other than a rejection. The failure resets the time of earlier rejections, unless Headgate has
    /// already stopped waiting for the list.
    fn failed(&mut self) {
        if matches!(self, Self::Refused { told: false, .. }) {
            *self = Self::Awaited;
        }
    }

    /// The time at which Headgate stops waiting for a rejected list.
    fn due(&self) -> Option<Moment> {
        match self {
            Self::Refused { since, told: false, .. } => Some(*since + PATIENCE),
            _ => None,
        }
    }

    fn why(&self) -> Option<&str> {
        match self {
            Self::Refused { why, .. } => Some(why),
            _ => None,
        }
    }

    /// Stops waiting for the list after [`PATIENCE`]. Returns the reason once.
    fn give_up(&mut self, now: Moment) -> Option<&str> {
        match self {
            Self::Refused { since, why, told } if !*told && now.since(*since) >= PATIENCE => {
                *told = true;
                Some(why)
            }
            _ => None,
        }
    }

    fn is_settled(&self, required: bool) -> bool {
        matches!(self, Self::Listed) || (!required && matches!(self, Self::Refused { told: true, .. }))
    }
}

/// The state of the task.
#[derive(Debug, Default)]
struct Memory {
    known: Known,
    grants: Source,
    namespaces: Source,
    sent: Option<Vec<GrantFacts>>,
    said: Notices<About>,
    /// Objects whose errors were reported.
    bad: Vec<About>,
}

impl Memory {
    fn take(&mut self, news: News, now: Moment) {
        fn heard<T>(source: &mut Source, what: &str, seen: Seen<T>, now: Moment) -> Option<Change<T>> {
            match seen {
                Seen::Changed(change) => {
                    if source.changed() {
                        info!("{what} can be read now, and have effect");
                    }
                    Some(change)
                }
                Seen::Refused(why) => {
                    source.refused(why, now);
                    None
                }
                Seen::Failed => {
                    source.failed();
                    None
                }
            }
        }
        match news {
            News::Grants(seen) => {
                let change = heard(&mut self.grants, "TargetGroupGrants", seen, now);
                if let Some(change) = change {
                    self.known.take_grants(change);
                }
            }
            News::Namespaces(seen) => {
                let change = heard(&mut self.namespaces, "the labels of namespaces", seen, now);
                if let Some(change) = change {
                    self.known.take_namespaces(change);
                }
            }
        }
    }

    /// Stops waiting for lists that are overdue, and logs whether Headgate continues without them.
    fn give_up(&mut self, required: bool, now: Moment) {
        let then = if required {
            "Headgate registers and deregisters nothing until they can be read (--grants=required)"
        } else {
            "continuing without them (--grants=optional); they have effect as soon as they can be read"
        };
        if let Some(why) = self.grants.give_up(now) {
            warn!("cannot read grants: {why}; {then}");
        }
        if let Some(why) = self.namespaces.give_up(now) {
            warn!("cannot read the namespaces that grants select by their labels: {why}; {then}");
        }
    }

    fn due(&self) -> Option<Moment> {
        self.grants.due().into_iter().chain(self.namespaces.due()).min()
    }

    /// Returns all grants if they are complete and differ from the last sent grants.
    fn next(&mut self, required: bool) -> Option<Vec<GrantFacts>> {
        let ready = self.grants.is_settled(required)
            && (!self.known.lacks_namespaces() || self.namespaces.is_settled(required));
        let facts = ready.then(|| self.known.facts()).filter(|facts| self.sent.as_ref() != Some(facts))?;
        self.sent = Some(facts.clone());
        Some(facts)
    }

    fn shown(&self, required: bool) -> Shown {
        let namespaces = self.namespaces.why().filter(|_| self.known.lacks_namespaces());
        let unread = self.grants.why().into_iter().chain(namespaces).map(str::to_owned).collect();
        let problems = self.known.problems();
        let problems =
            problems.iter().flat_map(|(about, all)| all.iter().map(move |said| (named(about), said.clone())));
        Shown { required, all: self.sent.clone(), unread, problems: problems.collect() }
    }

    /// Returns errors that were not reported yet.
    fn unsaid(&mut self) -> Vec<Notice> {
        let mut problems = self.known.problems();
        problems.retain(|_, problems| !problems.is_empty());
        let gone = std::mem::take(&mut self.bad);
        for about in gone.iter().filter(|about| !problems.contains_key(*about)) {
            self.said.set(about, []);
        }
        self.bad = problems.keys().cloned().collect();
        let mut unsaid = Vec::new();
        for (about, problems) in problems {
            let problems = problems.into_iter().map(|problem| (Reason::InvalidGrant, problem));
            for (reason, note) in self.said.set(&about, problems) {
                unsaid.push(Notice { about: about.clone(), reason, note });
            }
        }
        unsaid
    }
}

impl Keeper {
    /// Runs until the engine or the watches have ended.
    pub async fn run(mut self) -> Result<(), String> {
        let mut memory = Memory::default();
        loop {
            let due = memory.due();
            tokio::select! {
                news = self.news.recv() => {
                    let news = news.ok_or("the watches have ended")?;
                    memory.take(news, self.clock.now());
                    // Messages that arrived together are processed as one change.
                    while let Ok(more) = self.news.try_recv() {
                        memory.take(more, self.clock.now());
                    }
                }
                () = self.clock.sleep_until(due.unwrap_or(Moment::START)), if due.is_some() => {}
                () = self.authority.changed() => {}
            }
            let now = self.clock.now();
            memory.give_up(self.required, now);
            if let Some(all) = memory.next(self.required) {
                let input = Input::Grants { all, seen: now };
                self.inbox.send(input).await.map_err(|_| "the engine has ended")?;
            }
            self.shown.send_replace(memory.shown(self.required));
            if self.authority.term().is_some() {
                memory.unsaid().into_iter().for_each(|notice| self.say(notice));
            }
        }
    }

    fn say(&self, notice: Notice) {
        let object: &dyn std::fmt::Display = match &notice.about {
            About::Grant(name, _) => name,
            About::Service(key, _)
            | About::TargetBinding(key, _)
            | About::Pod(key, _)
            | About::IngressDaemonSet(key, _) => key,
        };
        warn!(
            reason = %notice.reason, %object,
            "a part of a grant is invalid, and its last valid content remains in effect: {}", notice.note
        );
        self.metrics.noticed(notice.reason);
        if !self.notices.send(notice) {
            self.metrics.event_dropped();
        }
    }
}

/// The name of an object for messages.
fn named(about: &About) -> String {
    match about {
        About::Grant(name, _) => format!("TargetGroupGrant {name}"),
        About::Service(key, _)
        | About::TargetBinding(key, _)
        | About::Pod(key, _)
        | About::IngressDaemonSet(key, _) => key.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::{Scope, model::object::Uid};
    use serde_json::{Value, json};

    use super::*;
    use crate::kube::grants::seen::{Entry, Labelled};

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    fn entry(name: &str, namespaces: &Value) -> Entry {
        let spec = json!({"targetGroups": ["web"], "namespaces": namespaces});
        Entry { name: name.into(), about: About::Grant(name.into(), Uid::new("1")), spec }
    }

    fn grants(all: Vec<Entry>) -> News {
        News::Grants(Seen::Changed(Change::Relisted(Scope::Cluster, all)))
    }

    fn namespaces(all: &[&str]) -> News {
        let all = all.iter().map(|name| Labelled { name: (*name).into(), labels: [].into() });
        News::Namespaces(Seen::Changed(Change::Relisted(Scope::Cluster, all.collect())))
    }

    fn refused() -> News {
        News::Grants(Seen::Refused("no such kind".into()))
    }

    /// The names of the grants and namespaces that are now sent to the engine, if any.
    fn next(memory: &mut Memory, required: bool, now: u64) -> Option<Vec<String>> {
        memory.give_up(required, at(now));
        let all = memory.next(required)?;
        let one = |grant: &GrantFacts| {
            let namespaces: Vec<&str> = grant.namespaces.iter().map(|name| &**name).collect();
            format!("{} {}", grant.name, namespaces.join(","))
        };
        Some(all.iter().map(one).collect())
    }

    #[test]
    fn nothing_is_sent_before_what_is_needed_has_listed_and_nothing_twice() {
        let mut memory = Memory::default();
        memory.take(namespaces(&["x"]), at(0));
        assert_eq!(next(&mut memory, false, 0), None);
        memory.take(grants(vec![entry("front", &json!({"names": ["a"]}))]), at(1));
        assert_eq!(next(&mut memory, false, 1), Some(vec!["front a".into()]));
        assert_eq!(next(&mut memory, false, 1), None);
        memory.take(namespaces(&["x", "y"]), at(2));
        assert_eq!(next(&mut memory, false, 2), None, "no grant selects them");

        let mut memory = Memory::default();
        memory.take(grants(vec![entry("all", &json!({"selector": {}}))]), at(0));
        assert_eq!(next(&mut memory, false, 60), None, "which namespaces are there?");
        memory.take(namespaces(&["x", "y"]), at(61));
        assert_eq!(next(&mut memory, false, 61), Some(vec!["all x,y".into()]));

        let mut memory = Memory::default();
        memory.take(grants(vec![]), at(0));
        assert_eq!(next(&mut memory, true, 0), Some(vec![]), "there are none, and that is known");
    }

    #[test]
    fn a_list_that_is_refused_for_long_is_given_up_if_grants_are_optional_and_counts_when_it_comes() {
        for required in [false, true] {
            let mut memory = Memory::default();
            memory.take(refused(), at(1));
            assert_eq!(memory.due(), Some(at(11)));
            assert_eq!(next(&mut memory, required, 10), None);
            memory.take(refused(), at(10));
            let given_up = (!required).then(Vec::new);
            assert_eq!(next(&mut memory, required, 11), given_up);
            assert_eq!(
                (memory.due(), memory.shown(required).unread),
                (None, vec!["no such kind".to_owned()])
            );
            memory.take(grants(vec![entry("front", &json!({"names": ["a"]}))]), at(60));
            assert_eq!(next(&mut memory, required, 60), Some(vec!["front a".into()]));
            assert!(memory.shown(required).unread.is_empty());
            memory.take(refused(), at(70));
            assert_eq!(
                (next(&mut memory, required, 99), memory.due()),
                (None, None),
                "what was listed stays"
            );
        }
    }

    #[test]
    fn an_api_server_that_does_not_answer_is_waited_for() {
        let mut memory = Memory::default();
        memory.take(refused(), at(0));
        memory.take(News::Grants(Seen::Failed), at(5));
        assert_eq!((next(&mut memory, false, 60), memory.due()), (None, None));
        memory.take(refused(), at(61));
        assert_eq!(next(&mut memory, false, 70), None);
        assert_eq!(next(&mut memory, false, 71), Some(vec![]));
        memory.take(News::Grants(Seen::Failed), at(72));
        assert_eq!(next(&mut memory, false, 80), None, "given up it stays");
    }

    #[test]
    fn without_the_right_to_see_namespaces_only_grants_that_select_them_do_not_count() {
        let mut memory = Memory::default();
        let all = vec![entry("all", &json!({"selector": {}})), entry("named", &json!({"names": ["a"]}))];
        memory.take(grants(all), at(0));
        memory.take(News::Namespaces(Seen::Refused("may not".into())), at(0));
        assert_eq!(next(&mut memory, false, 9), None);
        assert_eq!(next(&mut memory, false, 10), Some(vec!["named a".into()]));
        assert_eq!(memory.shown(false).unread, ["may not"]);
        memory.take(namespaces(&["x"]), at(20));
        assert_eq!(next(&mut memory, false, 20), Some(vec!["all x".into(), "named a".into()]));
    }

    #[test]
    fn what_is_wrong_is_said_once_and_again_when_it_comes_back() {
        let mut memory = Memory::default();
        memory.take(grants(vec![entry("front", &json!({"names": ["A"]}))]), at(0));
        let said = memory.unsaid();
        assert_eq!((said.len(), said[0].reason), (1, Reason::InvalidGrant));
        assert!(said[0].note.contains("\"A\" is no namespace name"), "{said:?}");
        assert_eq!(memory.unsaid(), []);
        memory.take(grants(vec![entry("front", &json!({"names": ["a"]}))]), at(0));
        assert_eq!(memory.unsaid(), []);
        memory.take(grants(vec![entry("front", &json!({"names": ["A"]}))]), at(0));
        assert_eq!(memory.unsaid().len(), 1);
    }
}

//! Sends updates to the page as server-sent events (WHATWG HTML, "Server-sent events"). Each event contains the changes
//! since the last event.
//!
//! Each page checks the views and the journal once per second, and does not use the owner of the engine. If a browser
//! stops reading, only the memory of its connection is used until the server closes the connection.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use axum::{
    extract::State,
    http::HeaderMap,
    response::sse::{Event, Sse},
};
use futures::{Stream, stream};
use serde::Serialize;
use serde_json::json;

use super::server::Shown;
use crate::{
    journal::report::{Entry, Past},
    status::{draw, problems::Known, report::Status},
};

/// The interval between two checks of the views.
const PERIOD: Duration = Duration::from_secs(1);
/// The number of journal entries in the first event of a page, and the maximum number in a later event.
const ENTRIES: usize = 500;
/// A browser that lost its connection reconnects after this time.
const RETRY: Duration = Duration::from_secs(1);

/// Sends changes to the page, starting after the last event that the browser received.
pub async fn live(
    State(shown): State<Shown>,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let follower = Follower { shown, last, told: Told::default(), entries: None, queue: VecDeque::new() };
    Sse::new(stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await;
        Some((Ok(event), follower))
    }))
}

/// One page, and the state that was sent to it.
struct Follower {
    shown: Shown,
    /// The last event that the browser received on an earlier connection.
    last: Option<String>,
    told: Told,
    /// The number of the last journal entry that was sent.
    entries: Option<u64>,
    queue: VecDeque<Event>,
}

impl Follower {
    async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return event;
            }
            if self.entries.is_some() {
                tokio::time::sleep(PERIOD).await;
            }
            self.look();
        }
    }

    fn look(&mut self) {
        if let Some(said) = self.shown.elsewhere() {
            if self.told.elsewhere(&said) {
                self.send("elsewhere", None, &json!({ "message": said }));
            }
        } else {
            let (aws, unable) = (self.shown.aws.borrow().clone(), self.shown.authority.unable());
            let known = Known { views: &self.shown.views, aws, unable };
            let holder = self.shown.authority.holder().map(String::from);
            let status = draw::status(&known, holder, self.shown.clock.now());
            if let Some(news) = self.told.news(status) {
                self.send("status", None, &news);
            }
        }
        self.follow_journal();
    }

    fn follow_journal(&mut self) {
        let began = self.shown.journal.began();
        let resumed = self.last.take().and_then(|last| number_of(&last, &began));
        let after = self.entries.or(resumed);
        let past = self.shown.journal.entries(None, after, ENTRIES);
        let last = past.entries.last().map(|entry: &Entry| entry.number);
        let is_first = self.entries.is_none();
        self.entries = Some(last.or(after).unwrap_or_default());
        if last.is_some() || is_first {
            let id = self.entries.map(|number| format!("{began}-{number}"));
            let Past { leads_since, entries, .. } = past;
            let news = json!({ "whole": after.is_none(), "leadsSince": leads_since, "entries": entries });
            self.send("journal", id, &news);
        }
    }

    fn send(&mut self, name: &str, id: Option<String>, data: &impl Serialize) {
        let event = Event::default().event(name).retry(RETRY);
        let event = id.into_iter().fold(event, Event::id);
        // Serialization of these values to JSON cannot fail.
        self.queue.extend(event.json_data(data).ok());
    }
}

/// The number of the entry in the browser's last event, if the entry belongs to this replica's journal.
fn number_of(id: &str, began: &str) -> Option<u64> {
    let (of, number) = id.rsplit_once('-')?;
    if of == began { number.parse().ok() } else { None }
}

/// The status that was last sent to a page.
#[derive(Debug, Default)]
struct Told {
    /// The hash of each target group's status, by ARN.
    groups: BTreeMap<String, u64>,
    rest: Option<u64>,
    elsewhere: Option<String>,
}

/// The changes of the status since the last event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct News {
    /// Whether the page must discard the earlier status.
    whole: bool,
    answered_by: Option<String>,
    problems: Vec<crate::status::report::Problem>,
    leaving_nodes: Vec<crate::status::report::LeavingNode>,
    ingress_daemon_sets: Vec<crate::status::report::IngressDaemonSet>,
    /// The changed target groups.
    target_groups: Vec<crate::status::report::TargetGroup>,
    /// The ARNs of removed target groups.
    gone: Vec<String>,
}

impl Told {
    /// The changes between the last sent status and this status, if any.
    fn news(&mut self, status: Status) -> Option<News> {
        let whole = self.rest.is_none();
        self.elsewhere = None;
        let Status { answered_by, problems, leaving_nodes, ingress_daemon_sets, target_groups, .. } = status;
        let there: BTreeMap<String, u64> =
            target_groups.iter().map(|group| (group.arn.clone(), mark_of(group))).collect();
        let before = std::mem::replace(&mut self.groups, there);
        let is_new = |arn: &String| before.get(arn) != self.groups.get(arn);
        let target_groups: Vec<_> = target_groups.into_iter().filter(|group| is_new(&group.arn)).collect();
        let gone: Vec<String> = before.into_keys().filter(|arn| !self.groups.contains_key(arn)).collect();
        let rest = Some(mark_of(&(&answered_by, &problems, &leaving_nodes, &ingress_daemon_sets)));
        let same = std::mem::replace(&mut self.rest, rest) == rest;
        let nothing = same && target_groups.is_empty() && gone.is_empty();
        (!nothing).then_some(News {
            whole,
            answered_by,
            problems,
            leaving_nodes,
            ingress_daemon_sets,
            target_groups,
            gone,
        })
    }

    /// Records that another replica is the leader. Returns whether the page must receive the new message.
    fn elsewhere(&mut self, said: &str) -> bool {
        (self.groups, self.rest) = (BTreeMap::new(), None);
        let before = self.elsewhere.replace(said.to_owned());
        before.as_deref() != Some(said)
    }
}

/// A hash of the value's JSON.
fn mark_of(value: &impl Serialize) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(value).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::report::{Problem, TargetGroup};
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};

    fn group(arn: &str, held: usize) -> TargetGroup {
        TargetGroup {
            name: arn.to_owned(),
            arn: arn.to_owned(),
            bound_by: Vec::new(),
            zones: Vec::new(),
            foreign: 0,
            held,
            paused: None,
            last_read: None,
            oldest_removal: None,
        }
    }

    fn status(groups: &[(&str, usize)], problems: &[&str]) -> Status {
        let problem = |reason: &&str| Problem {
            reason: (*reason).to_owned(),
            about: String::new(),
            message: String::new(),
            since: None,
            target_groups: Vec::new(),
        };
        Status {
            at: MicroTime(Timestamp::UNIX_EPOCH),
            answered_by: None,
            problems: problems.iter().map(problem).collect(),
            leaving_nodes: Vec::new(),
            ingress_daemon_sets: Vec::new(),
            target_groups: groups.iter().map(|(arn, held)| group(arn, *held)).collect(),
        }
    }

    /// The target groups to send, the target groups to remove, and whether the message is complete.
    fn told(told: &mut Told, status: Status) -> Option<(Vec<String>, Vec<String>, bool)> {
        let News { whole, target_groups, gone, .. } = told.news(status)?;
        Some((target_groups.into_iter().map(|group| group.arn).collect(), gone, whole))
    }

    fn names(of: &[&str]) -> Vec<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_page_is_told_all_at_first_and_then_what_is_otherwise() {
        let mut page = Told::default();
        let all = |page: &mut Told, groups: &[(&str, usize)], problems: &[&str]| {
            told(page, status(groups, problems))
        };
        assert_eq!(all(&mut page, &[("a", 0), ("b", 0)], &[]), Some((names(&["a", "b"]), vec![], true)));
        assert_eq!(all(&mut page, &[("a", 0), ("b", 0)], &[]), None);
        assert_eq!(all(&mut page, &[("a", 0), ("b", 1)], &[]), Some((names(&["b"]), vec![], false)));
        assert_eq!(all(&mut page, &[("a", 0), ("b", 1)], &["Paused"]), Some((vec![], vec![], false)));
        assert_eq!(all(&mut page, &[("b", 1)], &["Paused"]), Some((vec![], names(&["a"]), false)));
        assert!(page.elsewhere("b leads") && !page.elsewhere("b leads"));
        assert_eq!(all(&mut page, &[("b", 1)], &["Paused"]), Some((names(&["b"]), vec![], true)));
    }

    #[test]
    fn a_browser_that_comes_back_goes_on_where_it_was_unless_it_was_with_another_replica() {
        assert_eq!(number_of("1700-42", "1700"), Some(42));
        assert_eq!(number_of("1701-42", "1700"), None);
        assert_eq!(number_of("nonsense", "1700"), None);
    }
}

//! Since when a replica sees what is written on the pods that leave: from then on its waits count, whatever time is written.

use std::{collections::BTreeMap, time::Duration};

use headgate_core::{
    engine::Input,
    model::{Change, LeavingFacts, Moment, PodFacts, Uid, WallTime},
};

/// A written time, and when it was seen first.
type Word = (WallTime, Moment);

/// What is written on a pod, each with when that was seen first.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub since: Word,
    pub asked: Word,
    pub out: Option<Word>,
}

impl Seen {
    fn of(facts: &LeavingFacts, before: Option<Self>, now: Moment) -> Self {
        let same =
            |at: WallTime, known: Option<Word>| known.filter(|(known, _)| *known == at).unwrap_or((at, now));
        Self {
            since: same(facts.ask.since, before.map(|before| before.since)),
            asked: same(facts.ask.asked, before.map(|before| before.asked)),
            out: facts.deregistered.map(|(at, _)| same(at, before.and_then(|before| before.out))),
        }
    }
}

/// Of all pods.
#[derive(Debug, Default)]
pub struct AllSeen(BTreeMap<Uid, Seen>);

impl AllSeen {
    /// The replica is told this.
    pub fn told(&mut self, input: &Input, now: Moment) {
        match input {
            Input::Pod { change: Change::Applied(pod), .. } => self.sees(pod, now),
            Input::Pod { change: Change::Relisted(_, pods), .. } => {
                for pod in pods {
                    self.sees(pod, now);
                }
            }
            _ => {}
        }
    }

    fn sees(&mut self, pod: &PodFacts, now: Moment) {
        let before = self.0.remove(&pod.uid);
        let leaving = pod.leaving.as_deref().filter(|_| pod.goes().is_none());
        self.0.extend(leaving.map(|facts| (pod.uid.clone(), Seen::of(facts, before, now))));
    }

    pub fn get(&self, uid: &Uid) -> Option<&Seen> {
        self.0.get(uid)
    }

    /// How long ago it is that this was seen first.
    pub fn ago(&self, uid: &Uid, word: impl Fn(&Seen) -> Word, now: Moment) -> Duration {
        self.get(uid).map(|seen| now.since(word(seen).1)).unwrap_or_default()
    }
}

//! Evictions, as the API server sees them: what the budgets allow, and what is written on pods about their leaving.

use super::{APPS, Cluster};
use crate::words::gone;
use headgate_core::model::{
    Change, Failure, Moment, ObjectKey, PodFacts, Uid,
    eviction::{Budget, Check, Checked},
    leaving::Mark,
};

/// What becomes of a request that the webhook let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    Goes,
    Refused,
    Gone,
}

impl Cluster {
    /// Somebody asks for other PodDisruptionBudgets.
    pub(super) fn change_budgets(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let app = APPS[rng.usize(0..APPS.len())];
        let least = Some(rng.usize(0..4)).filter(|least| *least > 0);
        let before = self.budgets.get(app).copied();
        match least {
            Some(least) => self.budgets.insert(app, least),
            None => self.budgets.remove(app),
        };
        (before != least).then_some("event: budget changed")
    }

    /// No budget keeps anything any more.
    pub fn lift_budgets(&mut self) {
        self.budgets.clear();
    }

    /// How many pods of an app may be disrupted by its budget, if it has one.
    fn allowed(&self, app: &str) -> Option<usize> {
        let least = *self.budgets.get(app)?;
        let healthy = self.pods.values().filter(|pod| {
            pod.labels.get("app") == Some(app) && pod.is_ready() && !pod.terminating && !pod.finished
        });
        Some(healthy.count().saturating_sub(least))
    }

    /// Whether a budget refuses the eviction of a pod now.
    pub fn refuses(&self, pod: &PodFacts) -> bool {
        let allowed = pod.labels.get("app").and_then(|app| self.allowed(app));
        allowed == Some(0) && pod.is_ready() && !pod.terminating && !pod.finished
    }

    /// A dry run of an eviction, and what the budgets say.
    pub fn check(&self, check: &Check) -> Result<Checked, Failure> {
        let pod = self.pods.get(&check.pod).filter(|pod| pod.uid == check.uid).ok_or_else(gone)?;
        if self.refuses(pod) {
            return Ok(Checked { refused: Some("needs more healthy pods".into()), budgets: Vec::new() });
        }
        let app = check.labels.get("app").unwrap_or_default();
        let departing = check.departing.iter().filter(|labels| labels.get("app") == Some(app)).count();
        let budget = self.allowed(app).map(|allowed| Budget { name: app.into(), allowed, departing });
        Ok(Checked { refused: None, budgets: budget.into_iter().collect() })
    }

    /// An eviction that nobody holds up.
    pub fn evict(&mut self, key: &ObjectKey, uid: &Uid) -> Evicted {
        let Some(pod) = self.pods.get(key).filter(|pod| pod.uid == *uid) else { return Evicted::Gone };
        if pod.terminating {
            return Evicted::Gone;
        }
        if self.refuses(pod) {
            return Evicted::Refused;
        }
        let pod = PodFacts { terminating: true, is_evicted: true, ..pod.clone() };
        self.pods.insert(key.clone(), pod.clone());
        self.say_pod(&Change::Applied(pod));
        Evicted::Goes
    }

    /// A pod that may be drained: it is there, and does not end.
    pub fn drainable(&self, rng: &mut fastrand::Rng) -> Option<(ObjectKey, Uid)> {
        let living: Vec<&PodFacts> =
            self.pods.values().filter(|pod| !pod.terminating && !pod.finished).collect();
        let pod = living.get(rng.usize(0..living.len().max(1)))?;
        Some((pod.key.clone(), pod.uid.clone()))
    }

    /// A pod is selected by nothing any more.
    pub fn unbind(&mut self, key: &ObjectKey) {
        if let Some(pod) = self.pods.get_mut(key) {
            pod.labels = [("app", "nobody")].into_iter().collect();
            let pod = pod.clone();
            self.say_pod(&Change::Applied(pod));
        }
    }

    /// When a pod was asked to leave first, and last.
    pub fn asked_to_leave(&self, uid: &Uid) -> Option<(Moment, Moment)> {
        self.asked_to_leave.get(uid).copied()
    }

    /// Something is written on a pod about its leaving.
    pub fn write_mark(&mut self, key: &ObjectKey, uid: &Uid, mark: Mark) -> Result<(), Failure> {
        let pod = self.pods.get_mut(key).filter(|pod| pod.uid == *uid).ok_or_else(gone)?;
        if matches!(mark, Mark::Asked(_)) {
            self.asked_to_leave.entry(uid.clone()).or_insert((self.now, self.now)).1 = self.now;
        }
        let annotations = self.annotations.entry(uid.clone()).or_default();
        annotations.write(mark);
        let (leaving, left_over) = (annotations.facts().map(Box::new), annotations.left_over());
        if matches!(mark, Mark::Undone | Mark::Stays | Mark::Disbelieved) {
            self.asked_to_leave.remove(uid);
        }
        if (&pod.leaving, pod.left_over) != (&leaving, left_over) {
            (pod.leaving, pod.left_over) = (leaving, left_over);
            let pod = pod.clone();
            self.say_pod(&Change::Applied(pod));
        }
        Ok(())
    }
}

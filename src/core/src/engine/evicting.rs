//! Evictions: what a replica answers when one is asked for, and how the leader takes a pod out before.

use crate::{
    engine::{Effect, Engine, Span, outbox::Outbox},
    eviction::{Ask, Checked, Evictions, Request, Ruling, Surroundings, Verdict},
    index::Order,
    model::{
        Failure, Moment, Notice, ObjectKey, PodFacts, Reason, RequestId, WallTime, leaving::Mark,
        notice::About,
    },
    reports::sayings,
    requests::{Asker, Request as Asks},
};

impl Engine {
    /// The evictions, the outbox, and what the others know.
    pub(super) fn evictions(&mut self, now: Moment) -> (&mut Evictions, &mut Outbox, Surroundings<'_>) {
        let Self { evictions, out, index, groups, services, nodes, settings, .. } = self;
        let (limits, bounds, wall) = (&settings.leaving, &settings.bounds, settings.started + now.elapsed());
        (evictions, out, Surroundings { index, groups, services, nodes, limits, bounds, now, wall })
    }

    /// What is answered when the eviction of a pod is asked for. Changes nothing.
    pub fn may_evict(&self, pod: &ObjectKey, request: &Request, now: Moment) -> Ruling {
        if !self.term.is_synced() {
            return Ruling::Pass(Reason::BindingsUnknown);
        }
        if !self.services.is_selected(&pod.namespace) {
            return Ruling::Pass(Reason::NamespaceNotServed);
        }
        let is_meant = |facts: &&PodFacts| request.uid.as_ref().is_none_or(|uid| *uid == facts.uid);
        let Some(facts) = self.index.pods().get(pod).filter(is_meant) else {
            return Ruling::Pass(Reason::NotATarget);
        };
        let Self { index, groups, services, nodes, settings, .. } = self;
        let (limits, bounds, wall) = (&settings.leaving, &settings.bounds, self.wall(now));
        let around = Surroundings { index, groups, services, nodes, limits, bounds, now, wall };
        self.evictions.rule(facts, request, &around)
    }

    pub(super) fn wall(&self, now: Moment) -> WallTime {
        self.settings.started + now.elapsed()
    }

    /// Does what is due about the pods that are asked to leave, or should be.
    pub(super) fn mind_evictions(&mut self, now: Moment) {
        let is_due = self.evictions.next_due().is_some_and(|due| due <= now);
        if !is_due || !self.term.acts() || self.settings.read_only {
            return;
        }
        let (evictions, out, around) = self.evictions(now);
        let due = evictions.due(|| out.next_id(), &around);
        for (id, ask) in due.asks {
            let (asker, request) = match ask {
                Ask::Mark(write) => (Asker::Mark, Asks::Mark(write)),
                Ask::Early(write) => (Asker::Early(write.pod.clone()), Asks::Mark(write)),
                Ask::Check(check) => (Asker::Check, Asks::Check(check)),
            };
            self.out.ask(id, asker, request);
        }
        for arn in due.closely {
            if let Some(group) = self.groups.get_mut(&arn) {
                group.look_closely(now);
            }
        }
    }

    pub(super) fn on_eviction_checked(
        &mut self,
        id: RequestId,
        result: Result<Checked, Failure>,
        now: Moment,
    ) {
        let (evictions, _, around) = self.evictions(now);
        match evictions.checked(id, result, &around) {
            None => {}
            Some(Verdict::Leaves { pod, early }) => {
                if early {
                    self.tell_early(&pod);
                }
                self.held_of_pod_goes(&pod, Reason::PodEvicting, now);
                let changes = self.index.order(&pod, Order::Leave(true), now);
                self.absorb(changes, now);
            }
            Some(Verdict::Waits { pod, reason, why }) => {
                self.tell_pod(&pod, reason, sayings::eviction_waits(reason, &why));
            }
        }
    }

    pub(super) fn on_mark_written(&mut self, id: RequestId, result: Result<(), Failure>, now: Moment) {
        let (evictions, _, around) = self.evictions(now);
        let Some(marked) = evictions.marked(id, result, &around) else { return };
        let said = match marked.mark {
            None => Some((Reason::LeavingNotRecorded, sayings::leaving_refused(&marked.why))),
            Some(Mark::MayGo { .. } | Mark::Stays) if marked.early => None,
            Some(Mark::MayGo { reason, .. }) => {
                self.out.put(Effect::Took(Span::Departure, marked.after));
                sayings::eviction_ends(reason, &marked.why, marked.after).map(|said| (reason, said))
            }
            Some(Mark::Disbelieved) => Some((Reason::LeavingNotCredible, sayings::leaving_not_credible())),
            Some(Mark::Undone) => {
                let reason = Reason::EvictionGivenUp;
                sayings::eviction_ends(reason, &marked.why, marked.after).map(|said| (reason, said))
            }
            Some(_) => None,
        };
        if let Some((reason, note)) = said {
            self.out.tell(Notice { about: About::Pod(marked.pod, marked.uid), reason, note });
        }
    }

    pub(super) fn tell_pod(&mut self, pod: &ObjectKey, reason: Reason, note: String) {
        if let Some(facts) = self.index.pods().get(pod) {
            let about = About::Pod(pod.clone(), facts.uid.clone());
            self.out.tell(Notice { about, reason, note });
        }
    }
}

//! The engine composes the machines: inputs in, effects out, nothing else.
//!
//! One task owns it; there are no locks. It decides everything about calls to AWS; it does not make them. Nothing
//! but look-ups is sent before every watch has said all there is: silence is never a removal, and a half-seen cluster
//! is no ground for a decision. Nor before this replica leads and has the ledgers.

mod governing;
mod group;
mod leading;
mod pictures;
mod sayings;
mod services;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    backoff::Backoff,
    binding::{BindingKey, Resolution},
    directory::Directory,
    engine::{
        group::Groups,
        leading::{LookAgain, Role},
        pictures::Pictures,
        sayings::{pod_trouble, refusal},
        services::{Services, Shown},
    },
    index::{Changes, Index, Trouble},
    input::{Answer, Call, CallId, CallItem, Change, ErrorClass, Failure, Input, Scope},
    lanes::{Lanes, Limits, MAX_TARGETS_PER_CALL, Window},
    ledger::{LedgerVersion, PackedLedger, StoredLedger},
    notice::{About, Notice},
    object::{ObjectKey, Uid},
    origin::Origin,
    planted::{Bug, planted},
    pod::PodFacts,
    reason::Reason,
    registration::Ended,
    target_group::TargetGroupArn,
    time::Moment,
    view::{BindingView, GroupView, OriginView},
};

/// What the engine needs to know from the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The AWS region whose target groups are served.
    pub region: Box<str>,
    /// The scopes that are watched for pods and for Services: each must have been listed before anything is sent.
    pub scopes: Vec<Scope>,
    /// Whether only selected namespaces count, as a watch of namespaces says.
    pub namespaces_are_selected: bool,
    /// How many calls AWS may be sent.
    pub limits: Limits,
    /// How often a target group is read in which nothing is under way, to see what others did there; less often if
    /// there are so many that reading them would take more than its share.
    pub read_interval: Duration,
    /// How long a pod must have been not ready before it counts, where that counts.
    pub not_ready_for: Duration,
    /// For how long what was in force for a Service that is deleted stays so, should it be made again.
    pub service_grace: Duration,
    /// For how long a list may be doubted that says that most of a binding's pods are gone; zero: not at all.
    pub relist_patience: Duration,
    /// For how long a call that was given up, or that another replica has sent, may still be applied: the duration of
    /// a lease and the time-out of a call, and some more.
    pub late: Duration,
    /// How long registrations of one group wait for more that could travel with them.
    pub add_window: Window,
    /// Nothing is written to AWS, nor to the ledgers.
    pub read_only: bool,
    /// For the jitter of backoffs.
    pub seed: u64,
}

impl Default for Settings {
    /// No scopes: nothing is watched. A lease of 15 s and calls that are given up after 8 s.
    fn default() -> Self {
        Self {
            region: "us-east-1".into(),
            scopes: Vec::new(),
            namespaces_are_selected: false,
            limits: Limits::default(),
            read_interval: Duration::from_secs(60),
            not_ready_for: Duration::from_secs(10),
            service_grace: Duration::from_secs(60),
            relist_patience: Duration::from_secs(30),
            late: Duration::from_secs(30),
            add_window: Window { idle: Duration::from_millis(50), most: Duration::from_millis(250) },
            read_only: false,
            seed: 0,
        }
    }
}

/// What should be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make this call, and say how it ended with [`Input::Answered`].
    Call {
        /// To be given back with the answer.
        id: CallId,
        /// The call.
        call: Call,
    },
    /// This call would be made, if nothing was paused.
    Planned(Call),
    /// Read all ledgers, consistently, and give them with [`Input::LedgersLoaded`].
    LoadLedgers {
        /// To be given back with the answer.
        id: CallId,
    },
    /// Read the ledger of this target group, consistently, and give it with [`Input::LedgerLoaded`].
    LoadLedger {
        /// To be given back with the answer.
        id: CallId,
        /// The target group; the object's name is [`ledger::object_name`](crate::ledger::object_name).
        group: TargetGroupArn,
    },
    /// Write this ledger, and say how it ended with [`Input::LedgerWritten`].
    WriteLedger {
        /// To be given back with the answer.
        id: CallId,
        /// The state it replaces, which the write must carry as `resourceVersion`; `None`: create the object.
        base: Option<LedgerVersion>,
        /// The new content.
        ledger: PackedLedger,
    },
    /// Delete the ledger of this target group, and say how it ended with [`Input::LedgerDropped`].
    DropLedger {
        /// To be given back with the answer.
        id: CallId,
        /// The target group.
        group: TargetGroupArn,
        /// The state that may be deleted, and no other: a precondition of the request.
        base: LedgerVersion,
    },
    /// Tell the user.
    Notice(Notice),
    /// List the pods of this scope once more, and say so with [`Change::Relisted`]: the last list is doubted.
    Relist(Scope),
    /// This binding looks like this now.
    Binding(BindingView),
    /// This binding is no more.
    BindingGone(BindingKey),
    /// This target group looks like this now.
    Group(GroupView),
    /// Nothing is bound to this target group any more.
    GroupGone(TargetGroupArn),
    /// An object that binds looks like this now.
    Origin(OriginView),
    /// It binds nothing any more.
    OriginGone(Origin),
    /// AWS has taken the removal of every target of this deleted TargetBinding: nothing keeps it any more.
    Released(ObjectKey, Uid),
}

/// What has not been listed yet.
#[derive(Debug)]
struct Unseen {
    pods: BTreeSet<Scope>,
    services: BTreeSet<Scope>,
    bindings: BTreeSet<Scope>,
    namespaces: bool,
}

/// The engine. See the module.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    unseen: Unseen,
    index: Index,
    services: Services,
    directory: Directory,
    groups: Groups,
    lanes: Lanes,
    calls: BTreeMap<CallId, Call>,
    last_call: u64,
    pictures: Pictures,
    role: Role,
    look_again: LookAgain,
    /// Between tries to load the ledgers.
    loading: Backoff,
    /// About which group's ledger each request in flight is.
    ledger_requests: BTreeMap<CallId, TargetGroupArn>,
    /// The ledgers that cannot be read, and why, by the name of the object.
    unreadable: BTreeMap<Box<str>, (StoredLedger, String)>,
    /// Whether something has changed that matters for what the ledgers left behind.
    to_review: bool,
    /// The living pods of targets that the ledgers left behind and that are left alone for now.
    doubted: BTreeSet<ObjectKey>,
}

impl Engine {
    /// An engine that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        let scopes: BTreeSet<Scope> = settings.scopes.iter().cloned().collect();
        Self {
            unseen: Unseen {
                pods: scopes.clone(),
                services: scopes.clone(),
                bindings: scopes,
                namespaces: settings.namespaces_are_selected,
            },
            index: Index::new(settings.not_ready_for, settings.relist_patience),
            services: Services::new(settings.namespaces_are_selected, settings.service_grace),
            directory: Directory::new(&settings.region, settings.seed),
            groups: Groups::default(),
            lanes: Lanes::new(settings.limits),
            calls: BTreeMap::new(),
            last_call: 0,
            pictures: Pictures::default(),
            role: Role::Standby,
            look_again: LookAgain::Never,
            loading: Backoff::new(Duration::from_millis(100), Duration::from_secs(5), settings.seed),
            ledger_requests: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            to_review: false,
            doubted: BTreeSet::new(),
            settings,
        }
    }

    /// Whether every watch has said all there is.
    pub fn is_synced(&self) -> bool {
        let unseen = &self.unseen;
        unseen.pods.is_empty()
            && unseen.services.is_empty()
            && unseen.bindings.is_empty()
            && !unseen.namespaces
    }

    /// How many pods are known.
    pub fn pod_count(&self) -> usize {
        self.index.pod_count()
    }

    /// Whether a target group of this name was found.
    #[cfg(test)]
    pub(crate) fn knows_group(&self, name: &str) -> bool {
        let reference = crate::target_group::GroupRef::Name(name.into());
        matches!(self.directory.resolve(&reference), crate::binding::Resolution::Found(_))
    }

    /// Takes in what happened, and says what to do.
    pub fn step(&mut self, input: Input, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        let changes = self.index.pass(now);
        self.absorb(changes, now, &mut effects);
        for service in self.services.pass(now) {
            self.to_review = true;
            self.settle(&service, now, now, &mut effects);
        }
        match input {
            Input::Pod { change, seen } => self.on_pod(change, seen, now, &mut effects),
            Input::Service { change, seen } => {
                self.to_review = true;
                if let Change::Relisted(scope, _) = &change {
                    self.unseen.services.remove(scope);
                }
                for origin in self.services.apply(change, seen) {
                    self.settle(&origin, seen, now, &mut effects);
                }
            }
            Input::Binding { change, seen } => {
                if let Change::Relisted(scope, _) = &change {
                    self.unseen.bindings.remove(scope);
                }
                self.to_review = true;
                for origin in self.services.apply_written(change) {
                    self.settle(&origin, seen, now, &mut effects);
                }
                self.directory.keep(&self.services.references());
            }
            Input::Namespace { change, seen } => {
                self.to_review = true;
                if let Change::Relisted(..) = &change {
                    self.unseen.namespaces = false;
                }
                for origin in self.services.select(change) {
                    self.settle(&origin, seen, now, &mut effects);
                }
            }
            Input::Answered { id, result } => self.on_answer(id, result, now, &mut effects),
            Input::Leadership(leadership) => self.on_leadership(leadership, now, &mut effects),
            Input::LedgersLoaded { id, result } => self.on_ledgers(id, result, now),
            Input::LedgerLoaded { id, result } => self.on_ledger(id, &result, now, &mut effects),
            Input::LedgerWritten { id, result } => self.on_ledger_written(id, &result, now, &mut effects),
            Input::LedgerDropped { id, result } => self.on_ledger_dropped(id, &result, now, &mut effects),
            Input::Tick => {}
        }
        self.load_ledgers(now, &mut effects);
        if self.acts() {
            self.say_plans(&mut effects);
        }
        self.review(now, &mut effects);
        self.send(now, &mut effects);
        self.release(&mut effects);
        self.pictures.flush(now, self.role == Role::Standby, &self.index, &mut self.groups, &mut effects);
        effects
    }

    /// When [`Input::Tick`] is wanted, if nothing else comes before.
    pub fn next_wakeup(&mut self, now: Moment) -> Option<Moment> {
        let mut next = self.pictures.due();
        let mut earlier = |moment: Option<Moment>| next = next.into_iter().chain(moment).min();
        earlier(self.index.next_due());
        earlier(self.services.next_due());
        earlier(self.next_load());
        earlier(self.directory.next_due().map(|due| due.max(self.lanes.next_look_up(now))));
        if self.acts() {
            let written = self.groups.iter().filter(|(_, group)| !group.is_paused());
            earlier(written.filter_map(|(_, group)| group.registrations.next_ledger(now)).min());
            let removals = self.groups.iter().filter_map(|(_, group)| group.next_removal());
            earlier(removals.filter(|due| *due > now).min());
            let mut due = self.groups.removals(now).peekable();
            if due.peek().is_none() {
                let additions = self.groups.iter().filter_map(|(_, group)| group.next_addition()).min();
                earlier(additions.map(|due| due.max(self.lanes.next_addition(now))));
            } else {
                earlier(self.lanes.next_removal(due, now));
            }
            let reads = self.groups.iter().filter_map(|(_, group)| group.next_read()).min();
            earlier(reads.map(|due| due.max(self.lanes.next_read(now))));
        }
        next
    }

    fn on_pod(&mut self, change: Change<PodFacts>, seen: Moment, now: Moment, effects: &mut Vec<Effect>) {
        self.to_review |= match &change {
            Change::Applied(pod) | Change::Deleted(pod) => self.doubted.contains(&pod.key),
            Change::Relisted(..) => true,
        };
        let changes = match change {
            Change::Applied(pod) => self.index.apply_pod(pod, seen),
            Change::Deleted(pod) => self.index.remove_pod(&pod.key, &pod.uid, seen),
            Change::Relisted(scope, pods) => {
                self.unseen.pods.remove(&scope);
                self.index.relist_pods(&scope, pods, seen)
            }
        };
        self.absorb(changes, now, effects);
    }

    /// Decides anew which bindings of an object are in force.
    fn settle(&mut self, origin: &Origin, seen: Moment, now: Moment, effects: &mut Vec<Effect>) {
        let (settled, ended) = self.services.settle(origin, |reference| self.directory.resolve(reference));
        self.directory.keep(&self.services.references());
        for key in settled.bindings.keys() {
            self.make_group(&key.group, now);
        }
        let changes = self.index.set_bindings(origin, &settled.bindings, ended, seen);
        for key in &changes.bindings {
            self.govern(&key.group);
        }
        self.absorb(changes, now, effects);
        self.say(origin, effects);
    }

    /// Lets deleted TargetBindings go whose target groups have nothing left to remove.
    fn release(&mut self, effects: &mut Vec<Effect>) {
        if !self.acts() {
            return;
        }
        let (directory, groups) = (&self.directory, &self.groups);
        let released = self.services.released(|group| match directory.resolve(group) {
            Resolution::Found(facts) => {
                groups.get(&facts.arn).is_none_or(|group| !group.registrations.is_leaving())
            }
            Resolution::Failed(reason, _) => reason != Reason::AccessDenied,
            Resolution::Pending => false,
        });
        effects.extend(released.into_iter().map(|(key, uid)| Effect::Released(key, uid)));
    }

    /// Hands the index's changes on to the machines of the groups.
    fn absorb(&mut self, changes: Changes, now: Moment, effects: &mut Vec<Effect>) {
        for ownership in changes.ownerships {
            let (arn, seen) = (ownership.group.clone(), ownership.seen);
            let goes = ownership.owner.is_none();
            self.make_group(&arn, now);
            let Some(group) = self.groups.get_mut(&arn) else { continue };
            group.registrations.want(ownership);
            if goes && group.registrations.oldest_removal().is_some() {
                self.lanes.removal_caused(&arn, seen);
            }
        }
        effects.extend(changes.relist.map(Effect::Relist));
        for (trouble, example) in changes.troubles {
            self.tell(&trouble, &example, effects);
        }
        for binding in changes.bindings {
            if let Some(group) = self.groups.get_mut(&binding.group) {
                group.registrations.look_at_ledger();
            }
            self.pictures.touch_group(&binding.group);
            self.pictures.touch_binding(binding);
        }
    }

    /// Sends what is due: removals first, then ledgers and registrations, then reads.
    fn send(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if self.acts() {
            self.groups.pass(now);
            if planted(Bug::RegistrationsGoFirst) {
                self.send_additions(now, effects);
            }
            self.send_removals(now, effects);
            self.send_ledger_requests(now, effects);
            self.send_additions(now, effects);
        }
        self.send_look_ups(now, effects);
        if self.acts() {
            self.send_reads(now, effects);
        }
    }

    fn send_removals(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        while let Some(arn) = self.lanes.removal(self.groups.removals(now), now).cloned() {
            let id = self.next_id();
            let Some(group) = self.groups.get_mut(&arn) else { break };
            let items = group.registrations.start_removal(id, MAX_TARGETS_PER_CALL);
            self.call(id, Call::Deregister { group: arn, items }, effects);
        }
    }

    fn send_additions(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let due = |groups: &Groups| groups.removals(now).next().is_some();
        while (!due(&self.groups) || planted(Bug::RegistrationsGoFirst))
            && let Some(arn) = self.groups.next_addition(now)
        {
            if !self.lanes.may_add(now) {
                break;
            }
            let id = self.next_id();
            let Some(group) = self.groups.get_mut(&arn) else { break };
            group.adding(now);
            let items = group.registrations.start_addition(id, MAX_TARGETS_PER_CALL);
            self.call(id, Call::Register { group: arn, items }, effects);
        }
    }

    fn send_look_ups(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        while let Some(reference) = self.directory.due(now) {
            if !self.lanes.may_look_up(now) {
                break;
            }
            self.directory.start(&reference);
            let id = self.next_id();
            self.call(id, Call::FindGroup { reference }, effects);
        }
    }

    fn send_reads(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        for arn in self.groups.reads(now) {
            if !self.lanes.may_read(now) {
                break;
            }
            let Some(group) = self.groups.get_mut(&arn) else { continue };
            group.observation.start(now);
            let id = self.next_id();
            self.call(id, Call::ReadHealth { group: arn }, effects);
        }
    }

    fn next_id(&mut self) -> CallId {
        self.last_call += 1;
        CallId(self.last_call)
    }

    fn call(&mut self, id: CallId, call: Call, effects: &mut Vec<Effect>) {
        self.calls.insert(id, call.clone());
        effects.push(Effect::Call { id, call });
    }

    fn on_answer(
        &mut self,
        id: CallId,
        result: Result<Answer, Failure>,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let Some(call) = self.calls.remove(&id) else { return };
        let action = call.action();
        if matches!(&result, Err(failure) if failure.class == ErrorClass::Throttled) {
            match &call {
                Call::Register { .. } => self.lanes.addition_throttled(now),
                Call::Deregister { .. } => self.lanes.removal_throttled(now),
                Call::ReadHealth { .. } | Call::FindGroup { .. } => self.lanes.read_throttled(now),
            }
        }
        match call {
            Call::FindGroup { reference } => {
                let facts = match result {
                    Ok(Answer::Group(facts)) => Ok(facts),
                    Ok(_) => return,
                    Err(failure) => Err(failure),
                };
                if self.directory.answered(&reference, facts, now) {
                    self.to_review = true;
                    for origin in self.services.naming(&reference) {
                        self.settle(&origin, now, now, effects);
                    }
                }
            }
            Call::ReadHealth { group: arn } => {
                let groups = self.groups.len();
                let Some(group) = self.groups.get_mut(&arn) else { return };
                match result {
                    Ok(Answer::Health(states)) => {
                        let rarely = self.settings.read_interval.max(self.lanes.read_period(groups));
                        group.observed(states, rarely, now);
                        self.refused(&arn, action, &[], None, effects);
                        self.judge(std::slice::from_ref(&arn), now, effects);
                        self.expel_strangers(&arn, now);
                    }
                    Ok(_) => {}
                    Err(failure) => {
                        group.observation.failed();
                        group.reads.failed(now);
                        if failure.class == ErrorClass::GroupGone {
                            group.registrations.group_is_gone();
                        }
                        self.refused(&arn, action, &[], Some(&failure), effects);
                    }
                }
                self.touch(&arn);
            }
            Call::Register { group: arn, items } => {
                let Some(group) = self.groups.get_mut(&arn) else { return };
                let ended = match &result {
                    Ok(_) => Ended::Well,
                    Err(failure) if failure.class == ErrorClass::TargetRefused => Ended::Refused,
                    Err(_) => Ended::Badly,
                };
                group.registrations.registered(id, &items, ended, now);
                // What is wrong with a target is not the group's fault: the others do not wait.
                match ended {
                    Ended::Well | Ended::Refused => group.additions.succeeded(),
                    Ended::Badly => group.additions.failed(now),
                }
                group.changed(now);
                self.refused(&arn, action, &items, result.as_ref().err(), effects);
                self.touch(&arn);
            }
            Call::Deregister { group: arn, items } => {
                let Some(group) = self.groups.get_mut(&arn) else { return };
                // A group that does not exist has no targets.
                let gone = matches!(&result, Err(failure) if failure.class == ErrorClass::GroupGone);
                group.registrations.deregistered(id, &items, gone || result.is_ok(), now);
                if gone {
                    group.registrations.group_is_gone();
                }
                match &result {
                    Err(_) if !gone => group.removals.failed(now),
                    _ => group.removals.succeeded(),
                }
                group.changed(now);
                self.refused(&arn, action, &items, result.as_ref().err(), effects);
                self.touch(&arn);
            }
        }
    }

    fn touch(&mut self, arn: &TargetGroupArn) {
        let here = self.index.bindings().filter(|binding| binding.key.group == *arn);
        for binding in here {
            self.pictures.touch_binding(binding.key.clone());
        }
        self.pictures.touch_group(arn);
    }

    /// Keeps what AWS refuses of a group, so that it is said on the Services bound to it until it has passed.
    fn refused(
        &mut self,
        arn: &TargetGroupArn,
        action: &'static str,
        items: &[CallItem],
        failure: Option<&Failure>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(group) = self.groups.get_mut(arn) else { return };
        if failure.is_some_and(|failure| failure.class == ErrorClass::GroupGone) {
            self.directory.gone(arn);
        }
        let before = group.refusals.clone();
        let registrations = &group.registrations;
        group.refusals.retain(|(_, target), _| target.is_none_or(|target| registrations.wants(&target)));
        match (failure, items) {
            (None, items) => {
                group.refusals.remove(&(action, None));
                for item in items {
                    group.refusals.remove(&(action, Some(item.target)));
                }
            }
            // Of several, one is meant: it is found by halving.
            (Some(Failure { class: ErrorClass::TargetRefused, .. }), [_, _, ..]) => {}
            (Some(failure), items) => {
                let target = items.first().filter(|_| failure.class == ErrorClass::TargetRefused);
                if let Some(said) = refusal(arn, action, failure, target) {
                    group.refusals.insert((action, target.map(|item| item.target)), said);
                }
            }
        }
        if group.refusals != before {
            self.say_about(arn, effects);
        }
    }

    /// Tells all that is wrong with an object and has not been told yet.
    fn say(&mut self, origin: &Origin, effects: &mut Vec<Effect>) {
        let groups: BTreeSet<&TargetGroupArn> = self
            .index
            .bindings()
            .filter(|binding| binding.key.origin == *origin)
            .map(|binding| &binding.key.group)
            .collect();
        let refusals = groups
            .into_iter()
            .flat_map(|arn| self.groups.get(arn).map(|group| group.troubles(arn)).unwrap_or_default());
        let loud = self.role != Role::Standby;
        let said = self.services.say(origin, refusals, loud);
        effects.extend(said.notices.into_iter().map(Effect::Notice));
        match said.view {
            Shown::Unchanged => {}
            Shown::Changed(view) => effects.push(Effect::Origin(view)),
            Shown::Gone => effects.push(Effect::OriginGone(origin.clone())),
        }
    }

    fn tell(&self, trouble: &Trouble, example: &str, effects: &mut Vec<Effect>) {
        if self.role == Role::Standby {
            return;
        }
        let mut about_origin = |origin: &Origin, reason, note| {
            if let Some(about) = self.services.about(origin) {
                effects.push(Effect::Notice(Notice { about, reason, note }));
            }
        };
        match trouble {
            Trouble::Pod { binding, reason } => {
                let Some(rule) = self.index.binding(binding) else { return };
                about_origin(&binding.origin, *reason, pod_trouble(rule, *reason, example));
            }
            Trouble::ClaimedTwice { group, first, second } => {
                let note = format!(
                    "target {example} of target group {} is claimed by {first} already; expected one Service or \
                     TargetBinding for each target: take the target group out of one of the two; the target \
                     stays registered while either claims it",
                    group.name()
                );
                about_origin(second, Reason::TargetClaimedTwice, note);
            }
            Trouble::HostNetwork { waiting, owner, target } => {
                for (pod, note) in [
                    (
                        waiting,
                        format!(
                            "pod {owner} of the host network is target {target} already; this pod becomes one when \
                             that one has gone"
                        ),
                    ),
                    (owner, format!("pod {waiting} of the host network waits to become target {target}")),
                ] {
                    let Some(facts) = self.index.pod(pod) else { continue };
                    let about = About::Pod(pod.clone(), facts.uid.clone());
                    let reason = Reason::WaitsForHostNetworkPod;
                    effects.push(Effect::Notice(Notice { about, reason, note }));
                }
            }
        }
    }
}

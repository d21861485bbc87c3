//! A replica takes a step; what it wants done is carried out, and answered.

use std::hash::Hash;

use super::World;
use crate::{
    aws::Open, requests::Asks, say::describe, say::describe_call, say::describe_gate, say::describe_request,
};
use crate::{store, words::Sender};
use headgate_core::{
    engine::{Effect, Input},
    ledger::LedgerRequest,
    model::{Call, Moment, RequestId, gate::GateWrite, leaving::Mark, view::Picture},
    requests::{Answer, Request},
};

impl World {
    pub(super) fn end_call(&mut self) -> Result<(), String> {
        let ended = self.aws.end_one(&mut self.rng, self.faults, self.now, &mut self.coverage);
        let Some((open, result)) = ended else { return Ok(()) };
        if let Call::Register { group, items } = &open.call
            && !self.is_of_this_term(&open)
        {
            self.aws.nobody_knew(group, items, self.now);
        }
        let is_known = self.is_of_this_term(&open);
        self.properties.answered(&open, &result, is_known, self.now);
        let input = Input::Answered { id: open.id, result };
        self.answer(open.sender, input, open.sent)
    }

    /// Whether a call was sent by the one who leads, since it leads.
    fn is_of_this_term(&self, open: &Open) -> bool {
        let (replica, life) = open.sender;
        let it = &self.replicas[replica];
        let leads = self.lease.is_some_and(|(holder, _)| holder == replica);
        leads && it.life == life && it.calls.contains_key(&open.id)
    }

    pub(super) fn end_ledger_request(&mut self) -> Result<(), String> {
        let ended = self.store.end_one(&mut self.rng, self.faults, self.now, &mut self.coverage);
        let Some((sender, input)) = ended else { return Ok(()) };
        if matches!(input, Input::Answered { result: Err(_), .. }) {
            self.properties.ledger_fails(self.now);
        }
        self.answer(sender, input, self.now)
    }

    pub(super) fn end_gate_write(&mut self) -> Result<(), String> {
        let Self { gates, cluster, rng, faults, now, coverage, .. } = self;
        let ended = gates.end_one(cluster, rng, *faults, *now, coverage);
        let Some((sender, sent, input)) = ended else { return Ok(()) };
        self.answer(sender, input, sent)
    }

    pub(super) fn end_request(&mut self) -> Result<(), String> {
        let Self { requests, cluster, rng, faults, now, coverage, .. } = self;
        let ended = requests.end_one(cluster, rng, *faults, *now, coverage);
        let Some((sender, sent, input)) = ended else { return Ok(()) };
        self.answer(sender, input, sent)
    }

    /// An answer reaches the one who asked, if it still lives.
    pub(super) fn answer(
        &mut self,
        (replica, life): Sender,
        input: Input,
        sent: Moment,
    ) -> Result<(), String> {
        let it = &mut self.replicas[replica];
        if it.life != life {
            return Ok(());
        }
        if !it.runs() {
            it.inbox.push_back((input, sent));
            return Ok(());
        }
        it.learns(&input);
        self.step(replica, input)
    }

    pub(super) fn step(&mut self, replica: usize, input: Input) -> Result<(), String> {
        self.note(|| format!("[{replica}] {}", describe(&input)));
        let it = &mut self.replicas[replica];
        if let Input::Answered { id, result: Ok(Answer::Ledgers(_)) } = &input
            && it.leads
            && it.loaded.is_none()
            && it.loading == Some(*id)
        {
            it.loaded = Some(self.now);
        }
        let by = |broken| format!("[{replica}] {broken}");
        let effects = it.step(input, self.now);
        let sender = (replica, it.life);
        if let Some(decided) = &mut self.decided {
            (replica, format!("{:?} {effects:?}", self.now)).hash(decided);
        }
        for effect in effects {
            self.carry_out(sender, effect).map_err(by)?;
        }
        let it = &mut self.replicas[replica];
        let learns = it.learns_of_ledgers.take();
        if it.may_write(self.now) {
            for (key, uid) in std::mem::take(&mut it.released) {
                self.cluster.release(&key, &uid);
            }
        }
        let Some(id) = learns else { return Ok(()) };
        let result = Ok(Answer::Ledgers(self.store.load_all()));
        self.step(replica, Input::Answered { id, result })
    }

    fn carry_out(&mut self, sender: Sender, effect: Effect) -> Result<(), String> {
        let replica = sender.0;
        if let Effect::Planned(call) = &effect {
            self.note(|| format!("[{replica}]   would {}", describe_call(call)));
        }
        let it = &mut self.replicas[replica];
        match effect {
            Effect::Send { id, request, .. } => return self.send(sender, id, request),
            Effect::Planned(Call::Register { group, items } | Call::Deregister { group, items }) => {
                self.coverage.saw("effect: Planned");
                let call = Call::Register { group, items };
                return self.holds(replica, |properties, scene| properties.plans(&call, scene));
            }
            Effect::Notice(notice) => {
                self.coverage.saw("effect: Notice");
                self.coverage.told(&notice);
                return if it.leads { Ok(()) } else { Err(format!("a standby says: {}", notice.note)) };
            }
            Effect::Relist(watch, _) => {
                self.coverage.saw("effect: Relist");
                self.cluster.watches[replica].ask_again(watch);
            }
            Effect::Released(key, uid) => {
                self.coverage.saw("effect: Released");
                self.replicas[replica].released.push((key, uid));
            }
            Effect::Selected(namespace, _) => {
                return Err(format!("namespaces are not selected here, and {namespace} is said to be"));
            }
            Effect::Shows(Picture::Binding(view)) => {
                self.coverage.saw("effect: view");
                return self.holds(replica, |properties, scene| properties.shows(&view, scene));
            }
            _ => self.coverage.saw("effect: view"),
        }
        Ok(())
    }

    fn send(&mut self, sender: Sender, id: RequestId, request: Request) -> Result<(), String> {
        match request {
            Request::Call(call) => {
                self.note(|| format!("[{}]   → {}", sender.0, describe_call(&call)));
                self.make_call(sender, id, call)
            }
            Request::Ledger(request) => self.ask_store(sender, id, request),
            Request::Gate(write) => self.write_gate(sender, id, write),
            Request::Mark(write) => self.ask(sender, id, Asks::Mark(write)),
            Request::Check(check) => self.ask(sender, id, Asks::Check(check)),
            Request::Detached(write) => self.ask(sender, id, Asks::Detached(write)),
        }
    }

    fn make_call(&mut self, sender: Sender, id: RequestId, call: Call) -> Result<(), String> {
        let it = &mut self.replicas[sender.0];
        // The program looks at its lease right before each call.
        if it.leads && !it.may_write(self.now) && !call.is_look_up() {
            self.coverage.saw("replica: a call held back after the lease");
            return Ok(());
        }
        if let Call::Register { items, .. } | Call::Deregister { items, .. } = &call {
            for item in items {
                self.coverage.cause(item.reason);
            }
        }
        self.holds(sender.0, |properties, scene| properties.calls(sender, &call, scene))?;
        let it = &mut self.replicas[sender.0];
        self.coverage.saw(match call {
            Call::Register { .. } => "effect: Register",
            Call::Deregister { .. } => "effect: Deregister",
            Call::ReadHealth { .. } => "effect: ReadHealth",
            Call::FindGroups { .. } => "effect: FindGroups",
            Call::ReadAttributes { .. } => "effect: ReadAttributes",
        });
        it.calls.insert(id, call.clone());
        self.aws.open.push(Open { id, sender, sent: self.now, call });
        Ok(())
    }

    fn write_gate(&mut self, sender: Sender, id: RequestId, write: GateWrite) -> Result<(), String> {
        self.coverage.saw("effect: WriteGate");
        self.note(|| format!("[{}]   → {}", sender.0, describe_gate(id, &write)));
        let it = &mut self.replicas[sender.0];
        if !it.leads {
            return Err(format!("the gate of {} is written by a replica that does not lead", write.pod.name));
        }
        // The program looks at its lease right before each write. One that it does not send changes nothing, whatever another
        // leader has done meanwhile.
        if !it.may_write(self.now) {
            self.coverage.saw("replica: a gate held back after the lease");
            return Ok(());
        }
        self.coverage.cause(write.condition.reason);
        self.holds(sender.0, |properties, scene| properties.writes_gate(&write, scene))?;
        self.gates.open.push((id, sender, self.now, write));
        Ok(())
    }

    /// The API server is asked something about a pod that leaves, or a node.
    fn ask(&mut self, sender: Sender, id: RequestId, request: Asks) -> Result<(), String> {
        self.note(|| format!("[{}]   → {request:?}", sender.0));
        let it = &mut self.replicas[sender.0];
        let may_write = it.may_write(self.now);
        match &request {
            // As it does before each write to a gate.
            Asks::Mark(_) if it.leads && !may_write => {
                self.coverage.saw("replica: a mark held back after the lease");
            }
            Asks::Mark(write) => {
                self.coverage.saw(format!("effect: Mark {}", mark_name(write.mark)));
                if let Mark::Waits { reason, .. } | Mark::MayGo { reason, .. } = write.mark {
                    self.coverage.cause(reason);
                }
                self.holds(sender.0, |properties, scene| properties.marks(write, scene))?;
            }
            Asks::Detached(_) if it.leads && !may_write => {
                self.coverage.saw("replica: a word on a node held back after the lease");
            }
            Asks::Detached(write) => {
                let is = write.at.is_some();
                self.coverage.saw(if is { "effect: Detached" } else { "effect: Detached no more" });
                self.holds(sender.0, |properties, scene| properties.detaches(write, scene))?;
            }
            Asks::Check(check) => {
                self.coverage.saw("effect: CheckEviction");
                self.holds(sender.0, |properties, scene| properties.asks(check, scene))?;
            }
        }
        if may_write {
            self.requests.open.push((id, sender, self.now, request));
        }
        Ok(())
    }

    fn ask_store(&mut self, sender: Sender, id: RequestId, request: LedgerRequest) -> Result<(), String> {
        let replica = sender.0;
        let it = &mut self.replicas[replica];
        // A standby learns from it which pods were targets before.
        let is_anyones = matches!(request, LedgerRequest::LoadAll) && !it.leads;
        let name = match &request {
            LedgerRequest::LoadAll if is_anyones => "effect: LoadLedgers, by a standby",
            LedgerRequest::LoadAll => {
                it.loading = Some(id);
                "effect: LoadLedgers"
            }
            LedgerRequest::Load(_) => "effect: LoadLedger",
            LedgerRequest::Write(..) => "effect: WriteLedger",
            LedgerRequest::Delete(..) => "effect: DropLedger",
        };
        self.coverage.saw(name);
        self.note(|| format!("[{replica}]   → {}", describe_request(&request)));
        let it = &self.replicas[replica];
        if !it.leads && !is_anyones {
            return Err(format!("{name} by a replica that does not lead"));
        }
        if is_anyones {
            // Read at once: that it comes late, or never, is played in the tests of the core.
            self.replicas[replica].learns_of_ledgers = Some(id);
        } else if it.may_write(self.now) {
            self.store.open.push(store::Open { id, sender, sent: self.now, request });
        }
        Ok(())
    }
}

fn mark_name(mark: Mark) -> &'static str {
    match mark {
        Mark::Asked(_) => "Asked",
        Mark::Waits { .. } => "Waits",
        Mark::Deregistered { .. } => "Deregistered",
        Mark::MayGo { .. } => "MayGo",
        Mark::Undone => "Undone",
        Mark::Stays => "Stays",
        Mark::Disbelieved => "Disbelieved",
    }
}

//! Three replicas at one Lease, in worlds that go wrong. After every step at most one of them leads.
//!
//! Replicas are killed, and what their containers leave behind is told to the others: late, twice or never, and mixed with
//! what proves nothing of those that live. Some cannot lead, for a while or for good.

use std::time::Duration;

use headgate_core::{
    Cause, Moment,
    leadership::{
        ability::Ability,
        lease::{EndedContainer, Failure, Lease, Record, Request, Rest, Stored, Timing},
    },
};

fn lease(me: &str) -> Lease {
    Lease::new(me, Timing::default())
}

/// What a write leaves behind: each `renewed` is another state.
fn written(request: &Request, renewed: u32) -> Stored {
    let (Request::Create(claim) | Request::Replace { claim, .. }) = request else {
        panic!("{request:?} writes nothing")
    };
    let record = Record {
        is_settled: false,
        holder: claim.holder.as_deref().filter(|holder| !holder.is_empty()).map(Into::into),
        duration: Some(claim.duration),
        transitions: claim.transitions,
        acquired: Some("noon".into()),
        renewed: Some(renewed.to_string().into()),
    };
    let noted = |rest: &Rest| match &*rest.since {
        "" => Rest { since: renewed.to_string().into(), ..rest.clone() },
        _ => rest.clone(),
    };
    Stored { version: format!("v{renewed}").into(), record, rests: claim.rests.iter().map(noted).collect() }
}

/// A request on its way, being applied, or its answer on the way back.
struct Flight {
    replica: usize,
    request: Request,
    applied: Option<Result<Option<Stored>, Failure>>,
    due: Moment,
}

/// Three replicas and one Lease. Requests take as long as they like, answers get lost, replicas are paused and
/// restarted, and users delete the Lease.
pub struct World {
    rng: fastrand::Rng,
    now: Moment,
    store: Option<Stored>,
    writes: u32,
    /// When the last write was applied.
    written: Moment,
    replicas: Vec<(Lease, Moment)>,
    restarts: usize,
    /// How each replica calls itself.
    identities: [String; 3],
    /// What those that were killed have left behind.
    left: Vec<EndedContainer>,
    flights: Vec<Flight>,
    /// What each replica knows of its own ability.
    abilities: [Ability; 3],
    /// Whether nothing that it does as a leader succeeds.
    unable: [bool; 3],
    /// Nothing else goes wrong.
    calm: bool,
    /// How often a term began.
    pub terms: u64,
    /// In how many steps somebody led.
    pub holders: u64,
    /// How often a Lease was taken because its holder was proven dead.
    pub inherited: u64,
    /// How often a leader that could not lead gave the Lease back.
    pub stepped_down: u64,
}

fn ended(pod: usize, reason: &str, message: &str) -> EndedContainer {
    EndedContainer { pod: format!("replica-{pod}").into(), reason: reason.into(), message: message.into() }
}

impl World {
    fn new(seed: u64) -> Self {
        let identities = std::array::from_fn(|nth| format!("replica-{nth}_0"));
        Self {
            rng: fastrand::Rng::with_seed(seed),
            now: Moment::START,
            store: None,
            writes: 0,
            written: Moment::START,
            replicas: identities.iter().map(|me| (lease(me), Moment::START)).collect(),
            restarts: 0,
            identities,
            left: Vec::new(),
            flights: Vec::new(),
            terms: 0,
            holders: 0,
            inherited: 0,
            stepped_down: 0,
            abilities: std::array::from_fn(|_| Ability::default()),
            unable: [false; 3],
            calm: false,
        }
    }

    /// Each leader learns what comes of what it does, and gives the Lease back if the rule says so.
    fn lead(&mut self) {
        let now = self.now;
        let runs = |nth: usize| self.replicas[nth].1 <= now;
        let running: Vec<usize> = (0..3).filter(|nth| runs(*nth)).collect();
        for me in running.iter().copied() {
            let (lease, ability) = (&mut self.replicas[me].0, &mut self.abilities[me]);
            if lease.term(now).is_none() {
                continue;
            }
            if self.unable[me] {
                ability.failed(Cause::RemovalsFail, "", now);
            } else {
                ability.worked(Cause::RemovalsFail, "");
            }
            let could = |other: &&usize| **other != me && !lease.rests(&format!("replica-{other}"), now);
            let others = running.iter().filter(could).count();
            if let Some((trouble, pause)) = ability.steps_down(others, now) {
                lease.steps_down(trouble.reason(), pause, now);
                self.stepped_down += 1;
            }
        }
    }

    /// Something that a kubelet may say of a container: what one that was killed has left behind, or what proves nothing of
    /// one that lives.
    fn said(&mut self) -> EndedContainer {
        let pod = self.rng.usize(..3);
        let lives = self.identities[pod].clone();
        let known = self.left.len().checked_sub(1).map(|last| last - self.rng.usize(..=last.min(3)));
        match (self.rng.u8(..8), known) {
            (0, _) => ended(pod, "ContainerStatusUnknown", &lives),
            // Whoever may write the status of another pod.
            (1, _) => ended((pod + 1) % 3, "Error", &lives),
            (2, _) => ended(pod, "Error", ""),
            (_, Some(known)) => self.left[known].clone(),
            (_, None) => ended(pod, "Completed", &format!("replica-{pod}")),
        }
    }

    fn apply(&mut self, request: &Request) -> Result<Option<Stored>, Failure> {
        match (request, &self.store) {
            (Request::Read, store) => return Ok(store.clone()),
            (Request::Create(_), None) => {}
            (Request::Replace { version, .. }, Some(stored)) if stored.version == *version => {}
            _ => return Err(Failure::Conflict),
        }
        self.writes += 1;
        let now = written(request, self.writes);
        if let Some(before) = self.store.replace(now.clone()) {
            self.count_inheritance(&before, &now);
        }
        self.written = self.now;
        Ok(Some(now))
    }

    /// Whether this is sooner than the Lease of the one before would have run out, who is dead.
    fn count_inheritance(&mut self, before: &Stored, now: &Stored) {
        let (Some(heir), Some(holder)) = (&now.record.holder, &before.record.holder) else { return };
        let early = self.now.since(self.written) < Timing::default().duration();
        let is_dead = self.left.iter().any(|left| left.message == *holder);
        self.inherited += u64::from(heir != holder && early && is_dead);
    }

    /// Whether it is there, and all believe so: who does not cannot know that there was a holder.
    fn everybody_sees_it(&self) -> bool {
        self.store.is_some() && self.replicas.iter().all(|(lease, _)| lease.holder().is_some())
    }

    fn step(&mut self) -> Result<(), String> {
        let faults = self.rng.u8(..8) == 0 && !self.calm;
        self.now = self.now + Duration::from_millis(self.rng.u64(0..if faults { 3_000 } else { 300 }));
        let now = self.now;
        match self.rng.u16(if self.calm { 600..601 } else { 0..600 }) {
            // For as long as several leases.
            0..4 => {
                let paused = self.rng.usize(..3);
                self.replicas[paused].1 = now + Duration::from_secs(self.rng.u64(1..60));
            }
            4..6 if self.everybody_sees_it() => self.store = None,
            6 => {
                let dead = self.rng.usize(..3);
                // Killed: it has no term any more, and nobody is told.
                if self.store.is_some() {
                    self.restarts += 1;
                    let next = format!("replica-{dead}_{}", self.restarts);
                    let before = std::mem::replace(&mut self.identities[dead], next);
                    self.left.push(ended(dead, "Error", &before));
                    self.replicas[dead].0 = lease(&self.identities[dead]);
                    self.abilities[dead] = Ability::default();
                    self.flights.retain(|flight| flight.replica != dead || flight.applied.is_none());
                }
            }
            7..20 => {
                let looks = self.rng.usize(..3);
                let store = self.store.clone();
                let (lease, paused) = &mut self.replicas[looks];
                if *paused <= now && lease.term(now).is_none() {
                    lease.observed(store, now);
                }
            }
            60..64 => {
                let other = self.rng.usize(..3);
                self.unable[other] = !self.unable[other];
            }
            20..60 => {
                let said = self.said();
                let (lease, paused) = &mut self.replicas[self.rng.usize(..3)];
                if *paused <= now {
                    lease.ended(&said, now);
                }
            }
            _ => {}
        }
        for replica in 0..3 {
            let (lease, paused) = &mut self.replicas[replica];
            if *paused <= now
                && let Some(request) = lease.request(now)
            {
                let slow = if self.rng.u8(..10) == 0 && !self.calm { 20_000 } else { 200 };
                let due = now + Duration::from_millis(self.rng.u64(0..slow));
                self.flights.push(Flight { replica, request, applied: None, due });
            }
        }
        let mut index = 0;
        while index < self.flights.len() {
            let Flight { replica, due, .. } = self.flights[index];
            let arrived = self.flights[index].applied.is_some();
            if now < due || (arrived && now < self.replicas[replica].1) {
                index += 1;
                continue;
            }
            let mut flight = self.flights.swap_remove(index);
            match flight.applied.take() {
                None => {
                    let lost = Failure::Other("lost".into());
                    let result = match self.rng.u8(..20) {
                        _ if self.calm => self.apply(&flight.request),
                        0 => Err(lost),
                        1 => self.apply(&flight.request).and(Err(lost)),
                        _ => self.apply(&flight.request),
                    };
                    flight.applied = Some(result);
                    flight.due = now + Duration::from_millis(self.rng.u64(0..300));
                    self.flights.push(flight);
                }
                Some(result) => {
                    let before = self.replicas[replica].0.term(now).is_some();
                    self.replicas[replica].0.answered(result, now);
                    let after = self.replicas[replica].0.term(now).is_some();
                    self.terms += u64::from(after && !before);
                }
            }
        }
        self.lead();
        let leading: Vec<usize> = (0..3).filter(|nth| self.replicas[*nth].0.term(now).is_some()).collect();
        self.holders += leading.len() as u64;
        if leading.len() > 1 {
            return Err(format!("at {now:?} all of these lead: {leading:?}"));
        }
        Ok(())
    }

    /// The one replica that can lead comes to lead and goes on; of those that all cannot, one leads at a time, and they
    /// hardly ever change.
    pub fn hold_out(seeds: std::ops::Range<u64>) -> Result<(), String> {
        for seed in seeds {
            let (led, terms) = Self::unable(seed, [true, true, false], 10)?;
            if led[2] < 0.99 || terms > 0 {
                return Err(format!(
                    "seed {seed}: the one that can lead led for {led:?}, {terms} terms began"
                ));
            }
            let (led, terms) = Self::unable(seed, [true; 3], 240)?;
            if led.iter().sum::<f64>() < 0.98 || terms > 25 {
                return Err(format!(
                    "seed {seed}: they led for {led:?}, and changed {terms} times in two hours"
                ));
            }
        }
        Ok(())
    }

    /// A thousand steps.
    pub fn run(seed: u64) -> Result<Self, String> {
        let mut world = Self::new(seed);
        for step in 0..1_000 {
            world.step().map_err(|broken| format!("seed {seed}, step {step}: {broken}"))?;
        }
        Ok(world)
    }

    /// Minutes in which nothing goes wrong but that some replicas cannot lead: gives in which share of the last half of
    /// them each one led, and how many terms began then.
    fn unable(seed: u64, unable: [bool; 3], minutes: u64) -> Result<([f64; 3], u64), String> {
        let mut world = Self { unable, calm: true, ..Self::new(seed) };
        let end = Duration::from_secs(60 * minutes);
        let (mut led, mut steps, mut before) = ([0_u32; 3], 0_u32, 0);
        while world.now.elapsed() < end {
            world.step()?;
            if world.now.elapsed() < end / 2 {
                before = world.terms;
                continue;
            }
            steps += 1;
            for (led, (lease, _)) in led.iter_mut().zip(&world.replicas) {
                *led += u32::from(lease.term(world.now).is_some());
            }
        }
        Ok((led.map(|led| f64::from(led) / f64::from(steps)), world.terms - before))
    }
}

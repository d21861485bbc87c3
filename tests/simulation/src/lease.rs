//! Three replicas at one Lease, in worlds that go wrong. After every step at most one of them leads.

use std::time::Duration;

use headgate_core::{
    Moment,
    leadership::lease::{Failure, Lease, Record, Request, Stored, Timing},
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
        holder: claim.holder.as_deref().filter(|holder| !holder.is_empty()).map(Into::into),
        duration: Some(claim.duration),
        transitions: claim.transitions,
        acquired: Some("noon".into()),
        renewed: Some(renewed.to_string().into()),
    };
    Stored { version: format!("v{renewed}").into(), record }
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
    replicas: Vec<(Lease, Moment)>,
    restarts: usize,
    flights: Vec<Flight>,
    /// How often a term began.
    pub terms: u64,
    /// In how many steps somebody led.
    pub holders: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            now: Moment::START,
            store: None,
            writes: 0,
            replicas: (0..3).map(|n| (lease(&format!("replica-{n}")), Moment::START)).collect(),
            restarts: 0,
            flights: Vec::new(),
            terms: 0,
            holders: 0,
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
        self.store = Some(now.clone());
        Ok(Some(now))
    }

    /// Whether it is there, and all believe so: who does not cannot know that there was a holder.
    fn everybody_sees_it(&self) -> bool {
        self.store.is_some() && self.replicas.iter().all(|(lease, _)| lease.holder().is_some())
    }

    fn step(&mut self) -> Result<(), String> {
        let faults = self.rng.u8(..8) == 0;
        self.now = self.now + Duration::from_millis(self.rng.u64(0..if faults { 3_000 } else { 300 }));
        let now = self.now;
        match self.rng.u16(..600) {
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
                    self.replicas[dead].0 = lease(&format!("replica-{dead}-{}", self.restarts));
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
            _ => {}
        }
        for replica in 0..3 {
            let (lease, paused) = &mut self.replicas[replica];
            if *paused <= now
                && let Some(request) = lease.request(now)
            {
                let slow = if self.rng.u8(..10) == 0 { 20_000 } else { 200 };
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
        let leading: Vec<usize> = (0..3).filter(|nth| self.replicas[*nth].0.term(now).is_some()).collect();
        self.holders += leading.len() as u64;
        if leading.len() > 1 {
            return Err(format!("at {now:?} all of these lead: {leading:?}"));
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
}

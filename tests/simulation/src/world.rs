//! One world: what happens next.

mod carrying;
mod clocks;
mod ending;
mod evicting;
mod leading;
mod watching;

use std::{hash::DefaultHasher, net::IpAddr, time::Duration};

use crate::{
    aws::Aws,
    cluster::Cluster,
    cluster::REPLICAS,
    coverage::Coverage,
    gates::Gates,
    properties::{Properties, Scene},
    replica::Replica,
    requests::Requests,
    store::Store,
    words::GROUPS,
};
use headgate_core::{
    Settings,
    engine::Input,
    model::{Bounds, Moment, Scope, WallTime, eviction::Limits},
};

use self::{clocks::Clocks, evicting::Drain};

/// The times of the lease.
const LEASE: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// A seed with this bit makes a world whose watches are never late. There a replica knows what is true, and must act on it.
pub const TOLD_AT_ONCE: u64 = 1 << 32;
/// When the clocks of worlds begin.
const STARTED: Duration = Duration::from_secs(1_800_000_000);

/// How long the brakes hold is another matter in each world: not at all, for a moment, or as long as is usual.
fn settings(seed: u64, rng: &mut fastrand::Rng) -> Settings {
    let usual = Settings::default();
    let short = rng.bool();
    let bounds = if short {
        Bounds { application: Duration::from_secs(4), network: Duration::from_secs(rng.u64(5..30)) }
    } else {
        usual.bounds
    };
    let patience = Duration::from_secs(if short { rng.u64(1..30) } else { 60 });
    let given_up_after = Duration::from_secs(if short { rng.u64(20..90) } else { 60 });
    let mut some = |usual: Duration| match rng.u8(0..4) {
        0 => Duration::ZERO,
        1 => usual.min(Duration::from_secs(60)),
        _ => Duration::from_millis(rng.u64(500..10_000)),
    };
    Settings {
        scopes: vec![Scope::Cluster],
        seed,
        service_grace: some(usual.service_grace),
        replacement_grace: some(usual.replacement_grace),
        relist_patience: some(usual.relist_patience),
        not_ready_for: some(usual.not_ready_for),
        binding_patience: some(usual.binding_patience),
        // Chance is left as it is in all other worlds.
        gate_patience: (seed % 4 == 1).then(|| Duration::from_secs(1 + seed / 4 % 6)),
        bounds,
        leaving: Limits { patience, given_up_after },
        started: WallTime::since_1970(STARTED),
        ..usual
    }
}

/// A world.
pub struct World {
    pub rng: fastrand::Rng,
    pub coverage: Coverage,
    now: Moment,
    settings: Settings,
    replicas: [Replica; REPLICAS],
    lives: u64,
    /// Who holds the lease, and when it runs out.
    lease: Option<(usize, Moment)>,
    /// How often it has changed hands, and whether it was given up by a leader that had nothing in flight.
    terms: u64,
    is_settled: bool,
    cluster: Cluster,
    aws: Aws,
    store: Store,
    gates: Gates,
    requests: Requests,
    /// Who is drained.
    drains: Vec<Drain>,
    /// Since when nothing goes wrong, and no request may be lost.
    promised: Option<Moment>,
    clocks: Clocks,
    properties: Properties,
    faults: bool,
    /// The watches say everything at once.
    is_told_at_once: bool,
    /// What has happened, if that is kept.
    steps: Option<Vec<String>>,
    /// All that the engines have decided, as one number, if that is recorded.
    pub decided: Option<DefaultHasher>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let settings = settings(seed, &mut rng);
        let clocks = Clocks::new(seed, &mut rng);
        let replica = |at: usize| {
            let seed = seed.wrapping_add(at as u64);
            let started = clocks.started(at, settings.started);
            let settings = Settings { started, seed, ..settings.clone() };
            Replica::new(settings, at as u64, Moment::START)
        };
        let (nodes, holds, started) = (rng.u8(0..4) > 0, rng.u8(0..4), settings.started);
        let aws = Aws::new(settings.gate_patience.is_some());
        Self {
            replicas: std::array::from_fn(replica),
            rng,
            coverage: Coverage::default(),
            now: Moment::START,
            settings,
            lives: REPLICAS as u64,
            lease: None,
            terms: 0,
            is_settled: false,
            cluster: Cluster::new(nodes, holds, started),
            aws,
            store: Store::default(),
            gates: Gates::default(),
            requests: Requests::default(),
            drains: Vec::new(),
            promised: None,
            clocks,
            properties: Properties::default(),
            faults: true,
            is_told_at_once: seed & TOLD_AT_ONCE > 0,
            steps: None,
            decided: None,
        }
    }

    fn clock_of(&self, replica: usize) -> WallTime {
        self.clocks.started(replica, self.settings.started)
    }

    /// Runs so many steps, then lets the faults stop and checks where it ends.
    pub fn run(&mut self, steps: u64) -> Result<(), String> {
        for _ in 0..steps {
            self.something_happens()?;
            if self.is_told_at_once {
                self.say_all()?;
            }
        }
        self.end()
    }

    /// The same, and keeps what happens.
    pub fn run_and_keep(&mut self, steps: u64) -> (Result<(), String>, Vec<String>) {
        self.steps = Some(Vec::new());
        let ended = self.run(steps);
        (ended, self.steps.take().unwrap_or_default())
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(steps) = &mut self.steps {
            let at = self.now.elapsed().as_secs_f64();
            steps.push(format!("{at:10.3} {}", what()));
        }
    }

    fn saw(&mut self, event: &'static str) {
        self.coverage.saw(event);
        self.note(|| event.to_owned());
    }

    fn something_happens(&mut self) -> Result<(), String> {
        let replica = self.rng.usize(0..REPLICAS);
        match self.rng.u16(0..1000) {
            0..=239 => {
                let millis = match self.rng.u8(0..20) {
                    0 => self.rng.u64(1_000..10_000),
                    1..=4 => self.rng.u64(100..1_000),
                    _ => self.rng.u64(0..50),
                };
                return self.pass(Duration::from_millis(millis));
            }
            240..=429 => {
                if let Some(event) = self.cluster.change(&mut self.rng) {
                    self.saw(event);
                }
            }
            430..=434 | 850..=859 | 915..=924 => return self.end_gate_write(),
            435..=439 | 925..=934 => return self.end_request(),
            440..=589 => return self.deliver_pod(replica),
            590..=649 => return self.deliver_service(replica),
            650..=659 => return self.deliver_binding(replica),
            660..=849 => return self.end_call(),
            860..=914 => return self.end_ledger_request(),
            935..=938 => {
                self.saw("event: watch cut");
                self.cluster.cut(replica, &mut self.rng);
            }
            939..=950 | 984..=997 => self.relist(replica),
            998..=999 => {
                let event = self.cluster.say_gone(replica, &mut self.rng);
                self.saw(event);
            }
            951..=957 => return self.deliver_node(replica),
            958..=960 => self.begin_drain(),
            961..=967 => {
                if let Some(event) = self.aws.other_hands(&mut self.rng, self.now) {
                    self.saw(event);
                }
            }
            968 => {
                let event = self.aws.remake(&mut self.rng);
                self.saw(event);
            }
            969..=971 => self.aws.change_quota(&mut self.rng),
            972..=973 => {
                if let Some(event) = self.aws.change_listeners(&mut self.rng) {
                    self.saw(event);
                }
            }
            974..=979 => {
                let left: Vec<IpAddr> =
                    GROUPS.iter().flat_map(|name| self.aws.ours(name)).map(|target| target.ip).collect();
                if let Some(event) = self.cluster.elsewhere(&mut self.rng, &left) {
                    self.saw(event);
                }
            }
            980 => self.crash(replica),
            981 => {
                let until = self.now + Duration::from_millis(self.rng.u64(100..40_000));
                self.replicas[replica].frozen_until = Some(until);
                self.saw("replica: paused");
            }
            982 => {
                let until = self.now + Duration::from_millis(self.rng.u64(100..30_000));
                self.replicas[replica].cut_off_until = Some(until);
                self.saw("replica: its renewals get no answer");
            }
            983 => return self.release(),
            _ => {}
        }
        Ok(())
    }

    fn pass(&mut self, time: Duration) -> Result<(), String> {
        self.now = self.now + time;
        self.cluster.pass(self.now);
        self.aws.pass(self.now, &self.cluster, &mut self.coverage);
        self.store.pass(self.now, &mut self.coverage);
        self.gates.pass(&mut self.cluster, self.now, &mut self.coverage);
        self.requests.pass(&mut self.cluster, self.now, &mut self.coverage);
        while self.aws.overdue(self.now) {
            self.end_call()?;
        }
        while self.store.overdue(self.now) {
            self.end_ledger_request()?;
        }
        while self.gates.overdue(self.now) {
            self.end_gate_write()?;
        }
        while self.requests.overdue(self.now) {
            self.end_request()?;
        }
        for replica in 0..REPLICAS {
            self.wake(replica)?;
        }
        self.clocks_pass()?;
        self.go_on_draining()?;
        self.renew()?;
        for replica in 0..REPLICAS {
            let it = &mut self.replicas[replica];
            if it.runs() && it.engine.next_wakeup(self.now).is_some_and(|due| due <= self.now) {
                self.step(replica, Input::Tick)?;
            }
        }
        if let Some(leader) = (0..REPLICAS).find(|replica| self.replicas[*replica].leads) {
            let it = &self.replicas[leader];
            let acts = it.runs() && it.may_write(self.now) && it.acts_since().is_some();
            let acts = acts.then_some((leader, it.life));
            self.holds(leader, |properties, scene| properties.passes(acts, scene))?;
        }
        Ok(())
    }

    /// What is true, and whether this replica was told all of it.
    fn scene(&self, replica: usize) -> Scene<'_> {
        Scene {
            now: self.now,
            cluster: &self.cluster,
            aws: &self.aws,
            store: &self.store,
            settings: &self.settings,
            sender: (replica, self.replicas[replica].life),
            clocks_are_wrong: self.clocks.are_wrong(),
            born: self.replicas[replica].born,
            told: &self.cluster.watches[replica],
            leads: self.replicas[replica].acts_since(),
            found: GROUPS
                .map(|name| self.replicas[replica].engine.group_named(name).map(|group| group.arn.clone())),
        }
    }

    /// Holds what happens against the properties.
    fn holds(
        &mut self,
        replica: usize,
        holds: impl FnOnce(&mut Properties, &Scene<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut properties = std::mem::take(&mut self.properties);
        let held = holds(&mut properties, &self.scene(replica));
        self.properties = properties;
        held
    }
}

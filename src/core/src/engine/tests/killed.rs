//! Tests that kill Headgate after every single step. In each case, the next leader ends with exactly the desired
//! targets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;
use crate::testing::ip;

const FOREIGN: u8 = 100;

/// A cluster, a target group and stored ledgers, with one Headgate process after another.
struct Story {
    engine: Engine,
    now: Moment,
    pods: BTreeMap<&'static str, PodFacts>,
    aws: BTreeSet<Target>,
    ledgers: BTreeMap<String, (u64, PackedLedger)>,
    asked: VecDeque<(RequestId, Asks)>,
    answers: VecDeque<Input>,
    steps: usize,
    kill_at: usize,
    /// Whether requests that are in flight at the kill still take effect.
    lands: bool,
}

impl Story {
    fn new(kill_at: usize, lands: bool) -> Self {
        let mut story = Self {
            engine: Engine::new(cluster_wide()),
            now: Moment::START,
            pods: BTreeMap::new(),
            aws: BTreeSet::from([target(FOREIGN, 80)]),
            ledgers: BTreeMap::new(),
            asked: VecDeque::new(),
            answers: VecDeque::new(),
            steps: 0,
            kill_at,
            lands,
        };
        story.start();
        story
    }

    /// Starts a new process, which lists all objects and becomes the leader.
    fn start(&mut self) {
        self.engine = Engine::new(cluster_wide());
        let seen = self.now;
        let pods = self.pods.values().cloned().collect();
        let services = vec![web().build()];
        self.step(Input::Binding { change: Change::Relisted(Scope::Cluster, vec![]), seen });
        self.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        self.step(Input::Service { change: Change::Relisted(Scope::Cluster, services), seen });
        self.step(Input::Pod { change: Change::Relisted(Scope::Cluster, pods), seen });
    }

    fn step(&mut self, input: Input) {
        let effects = self.engine.step(input, self.now);
        self.asked.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { id, request, .. } => Some((id, request)),
            _ => None,
        }));
    }

    /// Counts a step. Kills the process if `kill_at` is reached.
    fn happened(&mut self) {
        self.steps += 1;
        if self.steps == self.kill_at {
            let asked = std::mem::take(&mut self.asked);
            self.answers.clear();
            if self.lands {
                for (_, request) in asked {
                    let _ = self.carry_out(request);
                }
            }
            self.start();
        }
    }

    fn until_quiet(&mut self) {
        loop {
            if let Some((id, request)) = self.asked.pop_front() {
                let result = self.carry_out(request);
                self.answers.push_back(Input::Answered { id, result });
            } else if let Some(answer) = self.answers.pop_front() {
                self.step(answer);
            } else {
                return;
            }
            self.happened();
        }
    }

    fn carry_out(&mut self, request: Asks) -> Result<Answer, Failure> {
        let stored = |ledgers: &BTreeMap<String, (u64, PackedLedger)>, name: &str| {
            let (version, packed) = ledgers.get(name)?;
            let version = LedgerVersion::new(version.to_string());
            Some(StoredLedger { name: name.into(), version, content: Ok(packed.clone()) })
        };
        match request {
            Asks::Call(Call::Register { items, .. }) => {
                self.aws.extend(items.iter().map(|item| item.target));
                Ok(Answer::Done)
            }
            Asks::Call(Call::Deregister { items, .. }) => {
                for item in items {
                    self.aws.remove(&item.target);
                }
                Ok(Answer::Done)
            }
            Asks::Call(Call::ReadHealth { .. }) => Ok(Answer::Health(
                self.aws.iter().map(|target| (*target, self.health(target).into())).collect(),
            )),
            Asks::Call(Call::FindGroups { .. }) => Ok(Answer::Groups(vec![group("blue")])),
            Asks::Ledger(LedgerRequest::LoadAll) => {
                let all = self.ledgers.keys().filter_map(|name| stored(&self.ledgers, name)).collect();
                Ok(Answer::Ledgers(all))
            }
            Asks::Ledger(LedgerRequest::Load(group)) => {
                Ok(Answer::Ledger(stored(&self.ledgers, &object_name(&group))))
            }
            Asks::Ledger(LedgerRequest::Write(base, ledger)) => {
                let name = object_name(&ledger.group);
                if stored(&self.ledgers, &name).map(|stored| stored.version) != base {
                    return Err(failure(FailureClass::Conflict));
                }
                let version = self.steps as u64 + 1;
                self.ledgers.insert(name, (version, ledger));
                Ok(Answer::Written(LedgerVersion::new(version.to_string())))
            }
            Asks::Ledger(LedgerRequest::Delete(group, _)) => {
                self.ledgers.remove(&object_name(&group));
                Ok(Answer::Done)
            }
            other => unreachable!("{other:?} was not asked"),
        }
    }

    fn health(&self, target: &Target) -> HealthState {
        let lives = |pod: &PodFacts| !pod.terminating && pod.ips.contains(&target.ip);
        if target.ip == ip(FOREIGN) || self.pods.values().any(lives) {
            HealthState::Healthy
        } else {
            HealthState::Unhealthy
        }
    }

    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now = self.now + Duration::from_secs(1);
            self.step(Input::Tick);
            self.until_quiet();
        }
    }

    fn apply(&mut self, name: &'static str, pod: PodBuilder) {
        let pod = pod.build();
        self.pods.insert(name, pod.clone());
        self.step(Input::Pod { change: Change::Applied(pod), seen: self.now });
        self.happened();
        self.until_quiet();
        self.wait(2);
    }

    fn delete(&mut self, name: &'static str) {
        let Some(pod) = self.pods.remove(name) else { return };
        self.step(Input::Pod { change: Change::Deleted(pod), seen: self.now });
        self.happened();
        self.until_quiet();
        self.wait(2);
    }

    /// Creates, deletes and replaces pods at one address. Returns the targets in AWS at the end, and the number of
    /// steps.
    fn tell(mut self) -> (BTreeSet<Target>, usize) {
        self.until_quiet();
        self.apply("a", pod("a", "1").at(1));
        self.apply("b", pod("b", "2").at(2));
        self.apply("a", pod("a", "1").at(1).terminating());
        self.apply("c", pod("c", "3").at(3));
        self.delete("a");
        self.apply("d", pod("d", "4").at(1));
        self.delete("b");
        self.wait(8);
        self.delete("c");
        self.wait(90);
        (self.aws, self.steps)
    }
}

#[test]
fn a_kill_at_each_single_step_leaves_exactly_the_wanted_targets_and_the_foreign_targets() {
    let expected = BTreeSet::from([target(1, 80), target(FOREIGN, 80)]);
    let (undisturbed, steps) = Story::new(usize::MAX, false).tell();
    assert_eq!(undisturbed, expected);
    assert!(steps > 50, "{steps} steps are too few to tell anything");
    for kill_at in 1..=steps {
        for lands in [false, true] {
            let (left, _) = Story::new(kill_at, lands).tell();
            assert_eq!(left, expected, "killed at step {kill_at} of {steps}, lands: {lands}");
        }
    }
}

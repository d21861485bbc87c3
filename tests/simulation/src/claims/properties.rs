//! What must hold after every event.

use headgate_core::targets::claims::{State, Way};

use super::{
    leader::Leader,
    parts::{Asks, Phase, mark},
    world::{Held, World},
};

impl World {
    /// I1: AWS may send to a target for a pod ⇒ the ledger has that claim. I2: a call of ours may still take effect on a target ⇒
    /// the ledger has a claim on that target.
    pub fn holds(&self) -> Held {
        for target in 0..self.shape.targets {
            let claim = self.claim(target);
            if claim.is_none() && self.aws[target].sends() {
                return Err("I1: AWS may send, and the ledger has no claim".to_owned());
            }
            let in_flight = |leader: &Leader| leader.calls[target].is_some_and(|call| !call.is_applied);
            let may_come = self.leaders.iter().flatten().any(in_flight)
                || self.late_calls.iter().any(|late| late.target == target && !late.is_applied);
            if claim.is_none() && may_come {
                return Err("I2: a call may still take effect, and the ledger has no claim".to_owned());
            }
            let Some(pod) = self.holder(target) else { continue };
            let is_for = self.aws[target].sent_for[pod] && self.aws[target].sends();
            if is_for && claim != Some(mark(pod)) {
                return Err(format!("I1: AWS may send to pod {pod}, and the claim names another one"));
            }
        }
        Ok(())
    }

    /// A call is about to be sent.
    pub fn may_send(&self, target: usize, way: Way, state: Option<&State>) -> Held {
        if self.was_paused {
            return Ok(());
        }
        let aws = &self.aws[target];
        let is_none =
            matches!(state, None | Some(State::Absent { .. } | State::Draining(_) | State::Claiming { .. }));
        if way == Way::Out && aws.is_registered && !aws.by_us && is_none {
            return Err("A4: a foreign target is removed".to_owned());
        }
        if way == Way::In && self.claim(target).is_none() {
            return Err("I1: RegisterTargets is sent, and the ledger has no claim".to_owned());
        }
        Ok(())
    }

    /// DeregisterTargets is about to take effect.
    pub fn may_remove(&self, target: usize) -> Held {
        if self.was_paused {
            return Ok(());
        }
        let Some(nth) = self.holder(target) else { return Ok(()) };
        let pod = &self.pods[nth];
        let serves = pod.phase == Phase::Running && pod.is_bound && pod.gate_is_open;
        if serves && self.aws[target].sent_for[nth] {
            return Err(format!("A4: the target of pod {nth} is removed, and it lives and its gate is open"));
        }
        Ok(())
    }

    /// The gate of a pod is about to open.
    pub fn may_be_open(&self, nth: usize) -> Held {
        if self.was_paused {
            return Ok(());
        }
        let pod = &self.pods[nth];
        for target in self.shape.at(pod.address).filter(|_| pod.phase == Phase::Running) {
            let aws = &self.aws[target];
            if !aws.is_registered && !aws.proven[nth] {
                return Err(format!("A2: the gate of pod {nth} opens, and its target is not registered"));
            }
            // Nobody can see that somebody else registers our address between our last read and our call.
            let is_excused = aws.by_stranger && self.shape.notice == 0;
            if !aws.proven[nth] && !is_excused {
                return Err(format!("A2: the gate of pod {nth} opens, and no health check has reached it"));
            }
        }
        Ok(())
    }

    /// An eviction is about to be allowed.
    pub fn may_go(&self, nth: usize) -> Held {
        if self.was_paused {
            return Ok(());
        }
        let mut targets = self.shape.at(self.pods[nth].address);
        if targets.any(|target| self.aws[target].sends()) {
            return Err(format!("A3: pod {nth} may go, and AWS may send to it"));
        }
        Ok(())
    }

    /// L1, when nothing more happens by itself.
    pub fn is_at_rest(&self) -> Held {
        if self.leaders[0].is_none() {
            return Err("L1: nobody leads".to_owned());
        }
        for (nth, pod) in self.pods.iter().enumerate().filter(|(_, pod)| pod.phase == Phase::Running) {
            if pod.asks == Asks::Somebody {
                return Err(format!("L1: the eviction of pod {nth} does not end"));
            }
            if pod.leaves && pod.asks != Asks::Nobody {
                return Err(format!("L1: pod {nth} is asked to leave for ever"));
            }
            if !pod.gate_is_open && pod.is_bound {
                return Err(format!("L1: the gate of pod {nth} stays closed"));
            }
        }
        for target in 0..self.shape.targets {
            let wants = |pod: &usize| {
                let pod = &self.pods[*pod];
                pod.is_bound && pod.phase == Phase::Running
            };
            let wanted = self.holder(target).filter(wants);
            let aws = &self.aws[target];
            if wanted.is_some() && !aws.is_registered {
                return Err(format!("L1: target {target} is wanted and not registered"));
            }
            // What comes later than anybody assumes counts as foreign.
            if wanted.is_none() && aws.is_registered && aws.by_us && !self.was_paused {
                return Err(format!("L1: target {target} is ours and stays"));
            }
            if self.claim(target) != wanted.map(mark) {
                return Err(format!("L1: the ledger does not say what is registered as target {target}"));
            }
        }
        Ok(())
    }
}

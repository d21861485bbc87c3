//! Which faults occur, when, and for how long. The same seed gives the same faults.

use std::time::Duration;

use fastrand::Rng;

/// The reserve of the hold beyond the propagation delay, in seconds.
pub const MARGIN: u32 = 30;
/// The longest fault in milliseconds. The remaining reserve is for Headgate's recovery: the Lease, the wait before a
/// retry, AWS's answer.
const LONGEST: u64 = 20_000;
/// The number of faults in a round.
const STRIKES: usize = 4;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL of the leader, which is started again.
    LeaderKilled,
    /// SIGKILL of the standby, which is started again.
    StandbyKilled,
    /// SIGSTOP of the leader, then SIGCONT.
    LeaderStopped,
    /// The API server restarts.
    ApiServerRestarted,
    /// The database of the API server restarts.
    EtcdRestarted,
    /// The leader's connections to AWS end, and new ones are refused.
    LeaderCutFromAws,
    /// The same for both replicas.
    AllCutFromAws,
    /// AWS does not answer the leader any more.
    AwsHangs,
    /// The leader's connections to the API server end, and new ones are refused.
    LeaderCutFromApiServer,
    /// The same for the standby.
    StandbyCutFromApiServer,
    /// The API server does not answer the leader any more.
    ApiServerHangs,
    /// AWS answers every call with Throttling.
    Throttled,
    /// AWS answers every call with 503.
    AwsBroken,
    /// Half of AWS's answers are lost.
    AnswersLost,
    /// AWS takes up to three seconds for each answer.
    AwsSlow,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 15] = [
        Self::LeaderKilled,
        Self::StandbyKilled,
        Self::LeaderStopped,
        Self::ApiServerRestarted,
        Self::EtcdRestarted,
        Self::LeaderCutFromAws,
        Self::AllCutFromAws,
        Self::AwsHangs,
        Self::LeaderCutFromApiServer,
        Self::StandbyCutFromApiServer,
        Self::ApiServerHangs,
        Self::Throttled,
        Self::AwsBroken,
        Self::AnswersLost,
        Self::AwsSlow,
    ];

    /// Its name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeaderKilled => "leader killed",
            Self::StandbyKilled => "standby killed",
            Self::LeaderStopped => "leader stopped",
            Self::ApiServerRestarted => "API server restarted",
            Self::EtcdRestarted => "etcd restarted",
            Self::LeaderCutFromAws => "leader cut from AWS",
            Self::AllCutFromAws => "all cut from AWS",
            Self::AwsHangs => "AWS silent to the leader",
            Self::LeaderCutFromApiServer => "leader cut from the API server",
            Self::StandbyCutFromApiServer => "standby cut from the API server",
            Self::ApiServerHangs => "API server silent to the leader",
            Self::Throttled => "throttled",
            Self::AwsBroken => "AWS broken",
            Self::AnswersLost => "answers of AWS lost",
            Self::AwsSlow => "AWS slow",
        }
    }

    /// Its shortest and longest duration, in milliseconds. A restart takes its own time.
    const fn lasts(self) -> (u64, u64) {
        match self {
            Self::ApiServerRestarted | Self::EtcdRestarted => (0, 0),
            Self::LeaderKilled | Self::StandbyKilled => (0, 8_000),
            Self::LeaderStopped => (1_000, LONGEST),
            Self::LeaderCutFromAws
            | Self::AllCutFromAws
            | Self::AwsHangs
            | Self::LeaderCutFromApiServer
            | Self::StandbyCutFromApiServer
            | Self::ApiServerHangs
            | Self::Throttled
            | Self::AwsBroken
            | Self::AnswersLost
            | Self::AwsSlow => (2_000, 15_000),
        }
    }
}

/// A fault at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The fault.
    pub fault: Fault,
    /// The time after a rollout has begun, or after the recovery from the previous fault.
    pub after: Duration,
    /// Its duration.
    pub lasts: Duration,
}

/// The faults of a run, by round.
#[derive(Clone, Debug)]
pub struct Plan {
    random: Rng,
    /// The faults that have not occurred since all had occurred.
    left: Vec<Fault>,
}

impl Plan {
    /// The plan for a seed.
    pub fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), left: Vec::new() }
    }

    /// The faults of the next round.
    pub fn next_round(&mut self) -> Vec<Strike> {
        (0..STRIKES).map(|at| self.strike(at == 0)).collect()
    }

    fn strike(&mut self, is_first: bool) -> Strike {
        if self.left.is_empty() {
            self.left = Fault::ALL.to_vec();
            self.random.shuffle(&mut self.left);
        }
        let fault = self.left.pop().expect("some are left");
        let (least, most) = fault.lasts();
        // The first old pods terminate some seconds after a rollout has begun. Between two faults, Headgate processes
        // what waits.
        let after = if is_first { 1_000..=12_000 } else { 3_000..=6_000 };
        Strike {
            fault,
            after: Duration::from_millis(self.random.u64(after)),
            lasts: Duration::from_millis(self.random.u64(least..=most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn rounds(seed: u64, count: usize) -> Vec<Vec<Strike>> {
        let mut plan = Plan::new(seed);
        (0..count).map(|_| plan.next_round()).collect()
    }

    #[test]
    fn a_seed_gives_the_same_faults_again_and_another_one_gives_others() {
        assert_eq!(rounds(1, 40), rounds(1, 40));
        assert_ne!(rounds(1, 40), rounds(2, 40));
    }

    #[test]
    fn each_fault_leaves_a_third_of_the_margin_for_what_headgate_needs_after_it() {
        let most = Duration::from_secs(MARGIN.into()) * 2 / 3;
        for strike in (0..50).flat_map(|seed| rounds(seed, 40)).flatten() {
            let (least, longest) = strike.fault.lasts();
            assert!(strike.lasts <= most, "{strike:?}");
            let lasts = u64::try_from(strike.lasts.as_millis()).unwrap();
            assert!((least..=longest).contains(&lasts), "{strike:?}");
        }
    }

    #[test]
    fn between_two_faults_of_a_round_there_is_time_to_make_good_what_waits() {
        for round in (0..50).flat_map(|seed| rounds(seed, 40)) {
            assert_eq!(round.len(), STRIKES);
            assert!(round[1..].iter().all(|strike| strike.after >= Duration::from_secs(3)), "{round:?}");
            assert!(round.iter().all(|strike| strike.after <= Duration::from_secs(12)), "{round:?}");
        }
    }

    #[test]
    fn no_fault_comes_again_before_all_others_have_come() {
        for seed in 0..50 {
            let faults: Vec<Fault> =
                rounds(seed, 15).into_iter().flatten().map(|strike| strike.fault).collect();
            for all in faults.chunks(Fault::ALL.len()) {
                assert_eq!(BTreeSet::from_iter(all).len(), Fault::ALL.len(), "{seed}");
            }
        }
    }
}

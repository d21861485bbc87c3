//! Every planted bug is noticed: a simulation that does not notice them would not notice the real ones.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    collections::BTreeMap,
    fmt,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use headgate_core::planted;
use headgate_simulation::{
    Coverage, TOLD_AT_ONCE, accounts, brakes, cases, claims, daemonsets, lease, limits, reads, refusals, run,
    swaps, tenants,
};

/// What noticed each bug last time, one line each: tried first, because a search takes minutes. A line that is wrong costs
/// time and nothing else. `HEADGATE_WRITE_NOTICED=1` writes the file.
const NOTICED: &str = include_str!("noticed.txt");

/// The bugs that only the earlier comparison of each step with an oracle noticed. Each needs a property of its own; the list only
/// shrinks. `HEADGATE_UNNOTICED=1` tries them, too.
const UNNOTICED: [&str; 35] = [
    "OneBackoffForAll",
    "DrainingCountsAsPresent",
    "HalvingDropsTheGoodHalf",
    "OlderHolderKeepsTheIp",
    "AddressesAreTheLasts",
    "AddressesGoByPhase",
    "SandboxesThatAreGoneKeepTheirAddresses",
    "LostNodesKeepTheirAddresses",
    "NodesAreLostAtOnce",
    "LedgersSayNothingOfAddresses",
    "RegistrationsGoFirst",
    "LedgerIsWrittenOver",
    "SuspectsAreRemoved",
    "DoubtIsIgnored",
    "ReplacedSetGoesAtOnce",
    "UnreadGateOpensAgain",
    "UnreadForHalfTheTime",
    "DoubtfulListIsBelieved",
    "WhatIsThereStaysDoubted",
    "MostMayGoWithinAMoment",
    "OneDeletionWaits",
    "WhenNotReadyIsIgnored",
    "WithoutSelectorAdmits",
    "PausedIsWritten",
    "FirstOfSeveralClaimsSpeaksForAll",
    "BindingIsReleasedEarly",
    "DecisionOutlivesTheTerm",
    "MarkOnManyNodesMovesAll",
    "DetachedWhatEndsBesides",
    "StandbyKeepsOutWhatStarts",
    "LeastHealthyIgnored",
    "StandbyBelievesNotFound",
    "NewLeaderCountsAnew",
    "WhoWentFromThereSpeaksForIt",
    "DetachedWhateverIsNoted",
];

/// A bug must be noticed within this number of worlds.
const BUDGET: u64 = 1_000;

/// Most bugs are noticed within this number of worlds.
const FIRST: u64 = 100;

/// So many worlds show what the properties notice, see [`worlds_alone`].
const ALONE: u64 = 200;

/// Worlds beyond these that show what hardly any other one does: a pod on another node gets the address of one whose sandbox is
/// gone; a clock that is ahead notes that a pod is asked to leave; two pods had an address in another order than they are listed; a standby has
/// found no target group of a name, and then there is one.
const RARE: [u64; 4] = [1_911, 3_084, 5_574, 8_430];

/// A check of the simulation: an error says what is wrong.
type Check = (&'static str, fn() -> Result<(), String>);

/// Checks that are faster than all worlds.
const FAST: [Check; 7] = [
    ("cases", || cases::broken().into_iter().next().map_or(Ok(()), Err)),
    ("brakes", || brakes::first_broken().map_or(Ok(()), Err)),
    ("swaps", || swaps::first_broken().map_or(Ok(()), Err)),
    ("refusals", refusals::all),
    ("limits", || {
        limits::refuses_nothing(&limits::USUAL)?;
        limits::one_token_costs_one()?;
        limits::others_are_yielded_to()?;
        limits::registrations_follow(&limits::USUAL)
    }),
    ("lease", || (0..1_000).try_for_each(|seed| lease::World::run(seed).map(drop))),
    ("unable", || lease::World::hold_out(0..5)),
];

/// The check of claims, alone: only mistakes in them are shown by it, and it shows all of them.
const CLAIMS: Check = ("claims", || claims::first_wrong().map_or(Ok(()), Err));

/// Checks that are slower.
const SLOW: [Check; 3] = [
    ("tenants", || tenants::first_broken().map_or(Ok(()), Err)),
    ("accounts", || accounts::first_broken().map_or(Ok(()), Err)),
    ("reads", reads::all),
];

/// What can notice a bug: one world of the core, one of an IngressDaemonSet, or a check.
#[derive(Clone, Copy)]
enum By {
    World(u64),
    Set(u64),
    Check(Check),
}

impl By {
    /// Everything, in the order in which it is tried. A bug in the rollout of a set is named after the set, and one in claims
    /// after the claim.
    fn all(bug: &str) -> Box<dyn Iterator<Item = Self>> {
        if bug.starts_with("Claim") {
            return Box::new(std::iter::once(Self::Check(CLAIMS)));
        }
        if bug.starts_with("Set") {
            return Box::new((0..daemonsets::WORLDS).map(Self::Set));
        }
        let worlds = |seeds: Range<u64>| seeds.map(Self::World);
        if worlds_alone() {
            let at_once = worlds(TOLD_AT_ONCE..TOLD_AT_ONCE + ALONE);
            return Box::new(RARE.map(Self::World).into_iter().chain(at_once).chain(worlds(0..ALONE)));
        }
        Box::new(
            worlds(0..FIRST)
                .chain(FAST.map(Self::Check))
                .chain(RARE.map(Self::World))
                .chain(worlds(FIRST..BUDGET))
                .chain(SLOW.map(Self::Check)),
        )
    }

    /// What noticed a bug when [`NOTICED`] was written.
    fn last(bug: &str) -> Option<Self> {
        let by = NOTICED.lines().find_map(|line| line.strip_prefix(bug)?.strip_prefix(' '))?;
        if let Some(seed) = by.strip_prefix("world ") {
            return seed.parse().ok().map(Self::World);
        }
        if let Some(seed) = by.strip_prefix("set ") {
            return seed.parse().ok().map(Self::Set);
        }
        FAST.into_iter().chain(SLOW).chain([CLAIMS]).find(|(name, _)| *name == by).map(Self::Check)
    }

    fn check(self) -> Result<(), String> {
        match self {
            Self::World(seed) => run(seed, &mut Coverage::default()).map(drop),
            Self::Set(seed) => daemonsets::broken(seed, false).map_or(Ok(()), Err),
            Self::Check((_, check)) => check(),
        }
    }

    /// Tries it with this bug; gives what is wrong. A panic counts.
    fn notices(self, bug: usize) -> Option<String> {
        planted::switch(Some(bug));
        let ended = catch_unwind(AssertUnwindSafe(|| self.check()));
        planted::switch(None);
        let wrong = match ended {
            Ok(ended) => ended.err()?,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                text.or_else(|| panic.downcast_ref().copied()).unwrap_or("a panic").to_owned()
            }
        };
        Some(wrong.lines().next().unwrap_or_default().to_owned())
    }
}

impl fmt::Display for By {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::World(seed) => write!(formatter, "world {seed}"),
            Self::Set(seed) => write!(formatter, "set {seed}"),
            Self::Check((name, _)) => formatter.write_str(name),
        }
    }
}

/// Whether only worlds are tried: that shows what the properties notice.
fn worlds_alone() -> bool {
    std::env::var_os("HEADGATE_WORLDS_ALONE").is_some()
}

/// What notices a bug, and what it reports: first what noticed it last time, then everything.
fn noticed(nth: usize, name: &str) -> Option<(By, String)> {
    let last = By::last(name).filter(|by| !worlds_alone() || matches!(by, By::World(_) | By::Set(_)));
    let last = last.and_then(|by| Some((by, by.notices(nth)?)));
    last.or_else(|| By::all(name).find_map(|by| Some((by, by.notices(nth)?))))
}

#[test]
fn every_planted_bug_is_noticed() {
    // `HEADGATE_PLANTED=Set,Zone` looks at those with one of these in their names.
    let only = std::env::var("HEADGATE_PLANTED").unwrap_or_default();
    let tries_all = std::env::var_os("HEADGATE_UNNOTICED").is_some();
    let is_tried = |name: &str| tries_all || !UNNOTICED.contains(&name);
    let is_meant = |name: &str| is_tried(name) && only.split(',').any(|part| name.contains(part));
    let is_planted = |name: &&str| planted::ALL.iter().any(|(planted, _)| planted == name);
    assert!(UNNOTICED.iter().all(is_planted), "no such bug is planted any more");
    let (next, missed, by) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some((name, _)) = planted::ALL.get(nth) else { break };
                    if !is_meant(name) {
                        continue;
                    }
                    match noticed(nth, name) {
                        Some((check, wrong)) => {
                            println!("{name}: {check}: {wrong}");
                            by.lock().unwrap().insert(nth, format!("{name} {check}\n"));
                        }
                        None => missed.lock().unwrap().push(*name),
                    }
                }
            });
        }
    });
    assert_eq!(missed.into_inner().unwrap(), [""; 0], "these mistakes are not noticed");
    if std::env::var_os("HEADGATE_WRITE_NOTICED").is_some() {
        let text: String = by.into_inner().unwrap().into_values().collect();
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/noticed.txt"), text).unwrap();
    }
}

#[test]
fn without_a_bug_nothing_is_noticed() {
    // All checks are run on the core itself elsewhere: this is about the copy.
    let worlds = (0..FIRST).map(By::World).chain((0..FIRST).map(By::Set));
    for by in worlds.chain(FAST.first().copied().map(By::Check)) {
        by.check().unwrap_or_else(|wrong| panic!("{by}: {wrong}"));
    }
}

//! Breadth first through all states, until no new one is found.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    bounds::Bounds,
    fingerprint::{Fingerprint, Scribe},
    parts::Choice,
    world::{Numbers, World},
};

/// The set of known states is in so many parts, so that threads seldom wait for each other.
const PARTS: usize = 64;
/// A thread takes so many states at once.
const PORTION: usize = 16;

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// States that are different.
    pub states: usize,
    /// Steps from one to another one.
    pub steps: usize,
    /// The longest of the shortest ways to a state.
    pub depth: usize,
    /// The most states that were kept at once.
    pub widest: usize,
    /// Whether there are no others.
    pub is_exhausted: bool,
    /// How long it took.
    pub took: Duration,
}

/// Something that must never happen does.
#[derive(Clone, Debug)]
pub struct Broken {
    /// What.
    pub what: String,
    /// The shortest way to it.
    pub path: Vec<Choice>,
    /// What was found until then.
    pub report: Report,
}

/// A fingerprint is mixed already.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u128(&mut self, number: u128) {
        self.0 = u64::try_from(number & u128::from(u64::MAX)).unwrap_or_default();
    }
}

/// The states that are known, each with its place in the order in which they were found.
struct Known {
    parts: Vec<Mutex<HashMap<Fingerprint, u32, BuildHasherDefault<Mixed>>>>,
    next: AtomicU32,
}

impl Known {
    fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::default()).collect(), next: AtomicU32::new(0) }
    }

    /// The place of a state, and whether it was not known.
    fn place(&self, fingerprint: Fingerprint) -> (u32, bool) {
        let part = usize::try_from(fingerprint >> 64 & (PARTS as u128 - 1)).unwrap_or_default();
        let mut part = self.parts[part].lock().expect("no thread panics with it");
        match part.entry(fingerprint) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(new) => (*new.insert(self.next.fetch_add(1, Ordering::Relaxed)), true),
        }
    }
}

/// A state that was found: only how it comes from the one before it is kept, for a state is large.
struct New {
    place: u32,
    before: Arc<World>,
    choice: Choice,
    numbers: Numbers,
}

/// What one thread has found in one level.
#[derive(Default)]
struct Found {
    new: Vec<(u32, New)>,
    broken: Vec<(u32, Choice, String)>,
    steps: usize,
    /// From which state to which one it goes on by itself.
    calm: Vec<(u32, u32)>,
}

/// Looks at every state that the bounds allow.
pub fn explore(bounds: Bounds) -> Result<Report, Broken> {
    let started = Instant::now();
    let known = Known::new();
    let mut report = Report { widest: 1, ..Report::default() };
    let first = World::new(bounds).map(|mut first| {
        let (place, _) = known.place(first.fingerprint(None, &mut Scribe::default()));
        New { place, numbers: first.numbers, before: Arc::new(first), choice: Choice::Begin }
    });
    let first = first.map_err(|what| Broken { what, path: Vec::new(), report })?;
    // How each state was reached: from which one, by which choice.
    let (mut ways, mut calm) = (vec![(0, Choice::Begin)], Vec::new());
    let mut level = vec![first];
    while !level.is_empty() && ways.len() <= bounds.states {
        let found = all_from(&level, &known, bounds.threads);
        let broken = found.iter().flat_map(|found| &found.broken).min_by_key(|(from, ..)| *from).cloned();
        let mut next = Vec::new();
        ways.resize(known.next.load(Ordering::Relaxed) as usize, (0, Choice::Begin));
        for found in found {
            report.steps += found.steps;
            calm.extend(found.calm);
            for (from, new) in found.new {
                ways[new.place as usize] = (from, new.choice);
                next.push(new);
            }
        }
        report.states = ways.len();
        report.widest = report.widest.max(level.len() + next.len());
        report.depth += usize::from(!next.is_empty());
        report.took = started.elapsed();
        if let Some((from, choice, what)) = broken {
            return Err(Broken { what, path: path(&ways, from, &[choice]), report });
        }
        level = next;
    }
    report.is_exhausted = level.is_empty();
    report.took = started.elapsed();
    if !report.is_exhausted {
        return Ok(report);
    }
    let endless = endless(ways.len(), &calm);
    match endless.iter().position(|is_endless| *is_endless).and_then(|state| u32::try_from(state).ok()) {
        Some(state) => {
            let what = "it may go on for ever without coming to rest, as at the end of this".to_owned();
            Err(Broken { what, path: goes_on(bounds, &path(&ways, state, &[]), &known, &endless), report })
        }
        None => Ok(report),
    }
}

/// All new states that one choice leads to from those of a level.
fn all_from(level: &[New], known: &Known, threads: usize) -> Vec<Found> {
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut found, mut scribe) = (Found::default(), Scribe::default());
        loop {
            let from = next.fetch_add(PORTION, Ordering::Relaxed);
            if from >= level.len() {
                return found;
            }
            for New { place, before, choice, numbers } in level.iter().skip(from).take(PORTION) {
                let mut world = World::clone(before);
                // It was taken before, when the state was found.
                let _ = world.take(*choice);
                world.numbers = *numbers;
                found.all_from(*place, world, known, &mut scribe);
            }
        }
    };
    if threads < 2 || level.len() < 2 * PORTION {
        return vec![work()];
    }
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("the engine does not panic")).collect()
    })
}

impl Found {
    /// All that one choice leads to from this state.
    fn all_from(&mut self, from: u32, before: World, known: &Known, scribe: &mut Scribe) {
        let before = Arc::new(before);
        for choice in before.choices() {
            self.steps += 1;
            let mut world = World::clone(&before);
            if let Err(what) = world.take(choice) {
                self.broken.push((from, choice, what));
                continue;
            }
            let (place, is_new) = known.place(world.fingerprint(Some(&before), scribe));
            if choice.is_calm() && !(choice == Choice::Time && world.has_rested()) {
                self.calm.push((from, place));
            }
            if is_new {
                self.new.push((from, New { place, before: before.clone(), choice, numbers: world.numbers }));
            }
        }
    }
}

/// From which states these steps may be taken without end.
fn endless(states: usize, steps: &[(u32, u32)]) -> Vec<bool> {
    // Those that lead to a state, and how many it has yet to lead to.
    let (mut to, mut left) = (vec![Vec::new(); states], vec![0_u32; states]);
    for (from, next) in steps {
        to[*next as usize].push(*from);
        left[*from as usize] += 1;
    }
    let mut ended: Vec<usize> = (0..states).filter(|state| left[*state] == 0).collect();
    while let Some(state) = ended.pop() {
        for from in std::mem::take(&mut to[state]) {
            left[from as usize] -= 1;
            if left[from as usize] == 0 {
                ended.push(from as usize);
            }
        }
    }
    left.into_iter().map(|left| left > 0).collect()
}

/// A path that leads to an endless state, and goes on until it comes to one of its states again.
fn goes_on(bounds: Bounds, path: &[Choice], known: &Known, endless: &[bool]) -> Vec<Choice> {
    let (mut path, mut seen, mut scribe) = (path.to_vec(), HashSet::new(), Scribe::default());
    let Ok(mut world) = World::new(bounds) else { return path };
    for choice in &path {
        let _ = world.take(*choice);
    }
    loop {
        let next = world.choices().into_iter().filter(|choice| choice.is_calm()).find_map(|choice| {
            let mut next = world.clone();
            next.take(choice).ok()?;
            let (place, _) = known.place(next.fingerprint(None, &mut scribe));
            let rests = choice == Choice::Time && next.has_rested();
            (!rests && endless.get(place as usize) == Some(&true)).then_some((choice, place, next))
        });
        let Some((choice, place, next)) = next else { return path };
        path.push(choice);
        world = next;
        if !seen.insert(place) {
            return path;
        }
    }
}

/// The choices that lead to a state, and the last ones.
fn path(ways: &[(u32, Choice)], state: u32, last: &[Choice]) -> Vec<Choice> {
    let (mut path, mut at) = (last.to_vec(), state);
    while at != 0 {
        let (from, choice) = ways[at as usize];
        path.push(choice);
        at = from;
    }
    path.reverse();
    path
}

/// Takes a path again, and says what happens on it.
pub fn tell(bounds: Bounds, path: &[Choice]) -> String {
    let Ok(mut world) = World::new(bounds) else { return String::new() };
    let mut told = Vec::new();
    for choice in path {
        world.listen();
        let ended = world.take(*choice);
        told.push(format!("  {:>4.0} s {choice:?}{}", world.seconds(), world.heard()));
        told.extend(ended.err().map(|what| format!("  {what}")));
    }
    told.join("\n")
}

//! Breadth first through all states of a world, until no new one is found.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
};

use super::{
    fingerprint::Fingerprint,
    shapes::Shape,
    world::{Act, World},
};

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    pub states: usize,
    pub steps: usize,
    /// The longest of the shortest ways to a state.
    pub depth: usize,
    /// Whether there are no other states.
    pub is_exhausted: bool,
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Wrong {
    pub what: String,
    /// In which world.
    pub world: &'static str,
    /// The shortest way to it.
    pub acts: Vec<Act>,
    pub explored: Explored,
}

impl fmt::Display for Wrong {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, world, acts, explored } = self;
        writeln!(to, "{what}: {world} ({} steps, {} states)", acts.len(), explored.states)?;
        self.acts.iter().try_for_each(|act| writeln!(to, "  {act:?}"))
    }
}

/// How a state was reached, and where it goes by itself.
struct Known {
    from: u32,
    act: Act,
    calm: Option<u32>,
    /// Whether all comes to rest from there.
    rests: bool,
}

/// Explores every state of a world with `faults` faults on a path, and stops after `most` states.
///
/// # Errors
/// Something must not be.
pub fn explore(shape: &'static Shape, faults: u8, most: usize) -> Result<Explored, Box<Wrong>> {
    let mut explored = Explored::default();
    let wrong = |what, acts, explored| Box::new(Wrong { what, world: shape.name, acts, explored });
    let first = World::new(shape, faults).map_err(|what| wrong(what, Vec::new(), explored))?;
    let mut places: HashMap<Fingerprint, u32> = HashMap::from([(first.fingerprint(), 0)]);
    let mut all = vec![Known { from: 0, act: Act::Elected, calm: None, rests: false }];
    let mut level = vec![(0_u32, first)];
    while !level.is_empty() && all.len() <= most {
        let mut next = Vec::new();
        for (place, world) in std::mem::take(&mut level) {
            let mut calm = None;
            for act in world.acts() {
                explored.steps += 1;
                let mut after = world.clone();
                if let Err(what) = after.take(act) {
                    return Err(wrong(what, path(&all, place, Some(act)), explored));
                }
                let new = u32::try_from(all.len()).unwrap_or(u32::MAX);
                let to = match places.entry(after.fingerprint()) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(entry) => {
                        entry.insert(new);
                        all.push(Known { from: place, act, calm: None, rests: false });
                        next.push((new, after));
                        new
                    }
                };
                if calm.is_none() && to != place && world.is_calm(&act) {
                    calm = Some(to);
                }
            }
            all[place as usize].calm = calm;
            if calm.is_none() {
                let at_rest = world.is_at_rest();
                at_rest.map_err(|what| wrong(what, path(&all, place, None), explored))?;
                all[place as usize].rests = true;
            }
        }
        explored.states = all.len();
        explored.depth += usize::from(!next.is_empty());
        level = next;
    }
    explored.is_exhausted = level.is_empty();
    if explored.is_exhausted
        && let Some(endless) = endless(&mut all)
    {
        let what = "L1: it goes on for ever without coming to rest".to_owned();
        return Err(wrong(what, path(&all, endless, None), explored));
    }
    Ok(explored)
}

/// A state from which all that happens by itself never comes to rest.
fn endless(all: &mut [Known]) -> Option<u32> {
    for place in 0..all.len() {
        let (mut way, mut at) = (Vec::new(), place);
        while !all[at].rests {
            way.push(at);
            let calm = all[at].calm?;
            at = calm as usize;
            if way.len() > 10_000 {
                return u32::try_from(place).ok();
            }
        }
        for at in way {
            all[at].rests = true;
        }
    }
    None
}

/// The acts that lead to a state, and the last one.
fn path(all: &[Known], mut place: u32, last: Option<Act>) -> Vec<Act> {
    let mut acts: Vec<Act> = last.into_iter().collect();
    while place != 0 {
        let Known { from, act, .. } = all[place as usize];
        acts.push(act);
        place = from;
    }
    acts.reverse();
    acts
}

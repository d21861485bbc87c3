//! What chance seldom brings about, played once.

mod leaving;
mod nodes;
mod stage;
mod targets;

/// Plays all of them. Gives what is not as it should be.
pub fn broken() -> Vec<String> {
    let all = [&leaving::ALL[..], &nodes::ALL, &targets::ALL];
    all.into_iter().flatten().filter_map(|(name, case)| Some(format!("{name}: {}", case().err()?))).collect()
}

//! What chance seldom brings about, played once.

mod leaving;
mod nodes;
mod stage;
mod targets;

/// Plays all of them.
///
/// # Errors
/// What is not as it should be.
pub fn all() -> Result<(), String> {
    let all = [&leaving::ALL[..], &nodes::ALL, &targets::ALL];
    all.into_iter().flatten().try_for_each(|case| case())
}

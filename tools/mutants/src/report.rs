//! What the results come to: the numbers of the page, what survived, and where the page says otherwise.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::{list::Mutant, run::Outcome};

/// The columns of the table, in their order.
const COLUMNS: [(&str, Outcome); 5] = [
    ("unit tests", Outcome::Caught),
    ("time-out", Outcome::CaughtByTimeout),
    ("simulation", Outcome::CaughtBySimulation),
    ("survive", Outcome::Survived),
    ("not built", Outcome::NotBuilt),
];

/// A row for each module, and the sum; what was not run yet is in none.
pub fn table(mutants: &[Mutant], outcomes: &BTreeMap<String, Outcome>) -> String {
    let mut rows: BTreeMap<&str, BTreeMap<Outcome, u32>> = BTreeMap::new();
    let mut sum: BTreeMap<Outcome, u32> = BTreeMap::new();
    for mutant in mutants {
        let module = mutant.file.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        if let Some(outcome) = outcomes.get(&mutant.name) {
            *rows.entry(module).or_default().entry(*outcome).or_default() += 1;
            *sum.entry(*outcome).or_default() += 1;
        }
    }
    let mut out = "| module | mutants |".to_owned();
    for (column, _) in COLUMNS {
        // Writing to a String does not fail.
        _ = write!(out, " {column} |");
    }
    _ = writeln!(out, "\n|---|---:|{}", "---:|".repeat(COLUMNS.len()));
    for (module, counts) in rows.iter().map(|(module, counts)| (*module, counts)).chain([("**all**", &sum)]) {
        _ = write!(out, "| {module} | {} |", counts.values().sum::<u32>());
        for (_, outcome) in COLUMNS {
            _ = write!(out, " {} |", counts.get(&outcome).copied().unwrap_or(0));
        }
        out.push('\n');
    }
    out
}

/// The survivors, in the order of files and lines.
pub fn survivors<'a>(mutants: &'a [Mutant], outcomes: &BTreeMap<String, Outcome>) -> Vec<&'a Mutant> {
    mutants.iter().filter(|mutant| outcomes.get(&mutant.name) == Some(&Outcome::Survived)).collect()
}

/// What survives and is not on the page, and what is there and does not: lines of the page that begin with "- `".
pub fn differences(page: &str, survivors: &BTreeSet<&str>) -> (Vec<String>, Vec<String>) {
    let items = page.lines().filter_map(|line| line.strip_prefix("- `")?.split_once('`'));
    let listed: BTreeSet<&str> = items.map(|(name, _)| name).collect();
    let owned = |names: Vec<&&str>| names.into_iter().map(|name| (*name).to_owned()).collect();
    (owned(survivors.difference(&listed).collect()), owned(listed.difference(survivors).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_the_survivors_are_compared_by_name() {
        let page = "Words.\n- `a.rs: replace < with > in f`: why\n- `b.rs: delete ! in g`\n";
        let (new, gone) = differences(page, &BTreeSet::from(["b.rs: delete ! in g", "c.rs: delete ! in h"]));
        assert_eq!(
            (new, gone),
            (vec!["c.rs: delete ! in h".to_owned()], vec!["a.rs: replace < with > in f".to_owned()])
        );
    }
}

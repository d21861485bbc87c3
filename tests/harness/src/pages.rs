//! Markdown pages: their prose, and the link targets in them.

use std::collections::{BTreeMap, BTreeSet};

/// The lines outside of fenced code, each with its number.
pub fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence = None;
    let mut prose = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(*mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (None, None) => prose.push((number, line)),
            (Some(_), Some(_)) if fence == mark => fence = None,
            (Some(_), _) => {}
        }
    }
    prose
}

/// The text of a heading, without link addresses.
fn shown(heading: &str) -> String {
    let mut parts = heading.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// The link target of a heading as on GitHub: lower case, hyphens for spaces, no punctuation.
pub fn slug(heading: &str) -> String {
    let stays = |c: &char| c.is_alphanumeric() || matches!(*c, ' ' | '-' | '_');
    let heading = shown(heading).trim().to_lowercase();
    heading.chars().filter(stays).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The link targets of a page. Repeated headings get a number.
pub fn fragments(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut fragments = BTreeSet::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if !(1..=6).contains(&level) || !heading.starts_with(' ') {
            continue;
        }
        let name = slug(heading);
        let before = seen.entry(name.clone()).or_default();
        fragments.insert(if *before == 0 { name } else { format!("{name}-{before}") });
        *before += 1;
    }
    fragments
}

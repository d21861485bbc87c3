//! A status for people.

use std::fmt::Write;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};

use super::report::{LeavingNode, Status, TargetGroup, Zone};

/// The states that have a column; the others are named beside them.
const COLUMNS: [&str; 4] = ["healthy", "initial", "unhealthy", "draining"];
const HEAD: [&str; 9] =
    ["TARGET GROUP", "ZONE", "WANTED", "SERVING", "HEALTHY", "INITIAL", "UNHEALTHY", "DRAINING", "ALSO"];
/// So many nodes that leave are named.
const NODES: usize = 5;
/// Columns of words; the others are numbers.
const WORDS: [usize; 3] = [0, 1, 8];

/// The status as text; `now` is the time that ages are counted from.
pub fn render(status: &Status, now: Timestamp) -> String {
    let mut text = head(status) + &leaving(&status.leaving_nodes);
    let mut rows = vec![HEAD.map(str::to_owned)];
    for group in &status.target_groups {
        let also = also(group, now);
        let zones: Vec<&Zone> = group.zones.iter().collect();
        if zones.is_empty() {
            rows.push(row(&group.name, None, &also));
        }
        for (at, zone) in zones.into_iter().enumerate() {
            let (name, also) = if at == 0 { (&*group.name, &*also) } else { ("", "") };
            rows.push(row(name, Some(zone), also));
        }
    }
    if rows.len() > 1 {
        text.push('\n');
        text += &table(&rows);
    }
    let by = status.answered_by.as_deref().unwrap_or("a Headgate that leads alone");
    text + &format!("\nAnswered by  {by}\n")
}

/// The worst first: whoever reads one line reads that.
fn head(status: &Status) -> String {
    let (wanted, serving) = status.wanted();
    let groups = status.target_groups.len();
    let counted = format!(
        "{groups} target group{}, {serving} of {wanted} wanted targets healthy\n",
        if groups == 1 { "" } else { "s" }
    );
    if status.problems.is_empty() {
        return format!("OK  {counted}");
    }
    let mut text = String::new();
    for problem in &status.problems {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}  {}: {}", problem.reason, problem.about, problem.message);
    }
    text + &counted
}

/// The nodes that go, those with most targets first.
fn leaving(nodes: &[LeavingNode]) -> String {
    if nodes.is_empty() {
        return String::new();
    }
    let mut sorted: Vec<&LeavingNode> = nodes.iter().collect();
    sorted.sort_by(|one, other| other.pods.cmp(&one.pods).then(one.node.cmp(&other.node)));
    let named =
        sorted.iter().take(NODES).map(|node| format!("{} {} ({})", node.node, node.pods, node.reason));
    let mut named: Vec<String> = named.collect();
    if sorted.len() > NODES {
        named.push(format!("{} more", sorted.len() - NODES));
    }
    let pods: usize = sorted.iter().map(|node| node.pods).sum();
    format!("Pods that are targets on nodes that leave: {pods}: {}\n", named.join(", "))
}

fn row(name: &str, zone: Option<&Zone>, also: &str) -> [String; 9] {
    let Some(zone) = zone else {
        let nothing = || "0".to_owned();
        return [
            name.to_owned(),
            "-".to_owned(),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            also.to_owned(),
        ];
    };
    let [healthy, initial, unhealthy, draining] =
        COLUMNS.map(|state| zone.states.get(state).copied().unwrap_or_default().to_string());
    let others = zone.states.iter().filter(|(state, _)| !COLUMNS.contains(&&***state));
    let mut said: Vec<String> = others.map(|(state, count)| format!("{count} {state}")).collect();
    said.extend(Some(also.to_owned()).filter(|also| !also.is_empty()));
    let name_of_zone = if zone.zone.is_empty() { "-" } else { &zone.zone };
    [
        name.to_owned(),
        name_of_zone.to_owned(),
        zone.wanted.to_string(),
        zone.serving.to_string(),
        healthy,
        initial,
        unhealthy,
        draining,
        said.join(", "),
    ]
}

fn also(group: &TargetGroup, now: Timestamp) -> String {
    let mut said = Vec::new();
    if let Some(paused) = group.paused {
        said.push(format!(
            "paused: {} registrations and {} removals wait",
            paused.registrations, paused.removals
        ));
    }
    if group.held > 0 {
        said.push(format!("{} removals held", group.held));
    }
    if group.foreign > 0 {
        said.push(format!("{} foreign", group.foreign));
    }
    if let Some(since) = &group.oldest_removal {
        said.push(format!("a removal waits for {}", age(since, now)));
    }
    said.push(
        group
            .last_read
            .as_ref()
            .map_or_else(|| "not read yet".to_owned(), |read| format!("read {} ago", age(read, now))),
    );
    said.join(", ")
}

fn age(since: &MicroTime, now: Timestamp) -> String {
    let seconds = now.duration_since(since.0).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        _ => format!("{}h", seconds / 3600),
    }
}

fn table(rows: &[[String; 9]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; 9] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if WORDS.contains(&column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::status::report::{Paused, Problem};

    fn at(second: i64) -> MicroTime {
        MicroTime(Timestamp::from_second(1_700_000_000 + second).unwrap())
    }

    fn zone(name: &str, wanted: usize, serving: usize, states: &[(&str, usize)]) -> Zone {
        let states: BTreeMap<_, _> =
            states.iter().map(|(state, count)| ((*state).to_owned(), *count)).collect();
        Zone { zone: name.to_owned(), wanted, serving, states }
    }

    fn status(problems: &[(&str, &str, &str)]) -> Status {
        let problem = |(reason, about, message): &(&str, &str, &str)| Problem {
            reason: (*reason).to_owned(),
            about: (*about).to_owned(),
            message: (*message).to_owned(),
        };
        let blue = TargetGroup {
            name: "blue".to_owned(),
            arn: "arn".to_owned(),
            bound_by: vec!["Service shop/web port http".to_owned()],
            zones: vec![
                zone("us-east-1a", 3, 3, &[("healthy", 4), ("draining", 1)]),
                zone("us-east-1b", 2, 1, &[("healthy", 1), ("unhealthy", 1), ("zone-not-served", 1)]),
            ],
            foreign: 1,
            held: 2,
            paused: Some(Paused { registrations: 0, removals: 2 }),
            last_read: Some(at(-3)),
            oldest_removal: Some(at(-180)),
        };
        let red = TargetGroup {
            name: "red".to_owned(),
            zones: Vec::new(),
            foreign: 0,
            held: 0,
            paused: None,
            last_read: None,
            oldest_removal: None,
            ..blue.clone()
        };
        Status {
            at: at(0),
            answered_by: Some("headgate-0".to_owned()),
            problems: problems.iter().map(problem).collect(),
            leaving_nodes: Vec::new(),
            target_groups: vec![blue, red],
        }
    }

    #[test]
    fn the_first_line_names_the_worst_and_without_anything_wrong_says_how_much_is_healthy() {
        let wrong = [
            ("Throttled", "target group blue", "calls wait"),
            ("Paused", "target group red", "nothing is written"),
        ];
        let said = render(&status(&wrong), at(0).0);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "Throttled  target group blue: calls wait");
        assert_eq!(lines[1], "Paused  target group red: nothing is written");
        assert_eq!(lines[2], "2 target groups, 4 of 5 wanted targets healthy");
        assert!(render(&status(&[]), at(0).0).starts_with("OK  2 target groups, 4 of 5 wanted"));
    }

    #[test]
    fn nodes_that_leave_are_named_with_their_targets_those_with_most_first() {
        let node = |(at, pods): (usize, &usize)| LeavingNode {
            node: format!("node-{at}"),
            reason: "NodeDying".to_owned(),
            pods: *pods,
        };
        let said = |pods: &[usize]| {
            let nodes = pods.iter().enumerate().map(node).collect();
            render(&Status { leaving_nodes: nodes, ..status(&[]) }, at(0).0)
        };
        let two =
            "\nPods that are targets on nodes that leave: 3: node-1 3 (NodeDying), node-0 0 (NodeDying)\n";
        assert!(said(&[0, 3]).contains(two), "{}", said(&[0, 3]));
        let seven = said(&[1, 1, 1, 1, 1, 1, 9]);
        assert!(seven.contains("leave: 15: node-6 9 (NodeDying), node-0 1"), "{seven}");
        assert!(seven.contains("node-3 1 (NodeDying), 2 more\n"), "{seven}");
        assert!(!said(&[]).contains("leave"));
    }

    #[test]
    fn every_zone_has_a_line_and_what_is_special_is_said_beside_it() {
        let said = render(&status(&[]), at(0).0);
        let expected = "\
TARGET GROUP  ZONE        WANTED  SERVING  HEALTHY  INITIAL  UNHEALTHY  DRAINING  ALSO
blue          us-east-1a       3        3        4        0          0         1  paused: 0 registrations and 2 removals wait, 2 removals held, 1 foreign, a removal waits for 3m, read 3s ago
              us-east-1b       2        1        1        0          1         0  1 zone-not-served
red           -                0        0        0        0          0         0  not read yet
";
        assert!(said.contains(expected), "{said}");
        assert!(said.ends_with("\nAnswered by  headgate-0\n"), "{said}");
    }
}

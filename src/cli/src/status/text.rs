//! Formats a status as text.

use std::fmt::Write;

use headgate::{
    api::ingress_daemon_set::NodeTurn,
    status::report::{IngressDaemonSet, LeavingNode, Status, TargetGroup, Zone},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};

/// The states that have a column. The last column lists all other states.
const COLUMNS: [&str; 4] = ["healthy", "initial", "unhealthy", "draining"];
const SETS: [&str; 7] = ["INGRESSDAEMONSET", "NODES", "UPDATED", "DEGRADED", "PODS", "AVAILABLE", "PROGRESS"];
const HEAD: [&str; 9] =
    ["TARGET GROUP", "ZONE", "WANTED", "SERVING", "HEALTHY", "INITIAL", "UNHEALTHY", "DRAINING", "ALSO"];
/// The text for a set whose status does not describe the current generation of the spec.
const NOBODY: &str = "not processed yet";
/// The maximum number of nodes that the text names per list.
const NODES: usize = 5;
/// The columns that contain text. All other columns contain numbers.
const WORDS: [usize; 3] = [0, 1, 8];
const WORDS_OF_SETS: [usize; 2] = [0, 6];

/// Formats the status. Ages are relative to `now`.
pub fn render(status: &Status, now: Timestamp) -> String {
    let mut text = head(status, now) + &leaving(&status.leaving_nodes);
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
        text += &table(&rows, &WORDS);
    }
    if !status.ingress_daemon_sets.is_empty() {
        let head = [SETS.map(str::to_owned)];
        let rows: Vec<_> =
            head.into_iter().chain(status.ingress_daemon_sets.iter().map(|set| set_row(set, now))).collect();
        text.push('\n');
        text += &table(&rows, &WORDS_OF_SETS);
    }
    let by = status.answered_by.as_deref().unwrap_or("a Headgate that leads alone");
    text + &format!("\nAnswered by  {by}\n")
}

/// Lists the problems, most severe first, and then the number of healthy targets.
fn head(status: &Status, now: Timestamp) -> String {
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
        let age =
            problem.since.as_ref().map(|since| format!(" (for {})", age(since, now))).unwrap_or_default();
        // A write to a String cannot fail.
        let _ = writeln!(text, "{}  {}{age}: {}", problem.reason, problem.about, problem.message);
    }
    text + &counted
}

fn set_row(set: &IngressDaemonSet, now: Timestamp) -> [String; 7] {
    let mut progress = set.progress.clone().unwrap_or_else(|| NOBODY.to_owned());
    if !set.turns.is_empty() {
        progress = format!("{progress}: {}", turns(&set.turns, now));
    }
    [
        format!("{}/{}", set.namespace, set.name),
        set.nodes.to_string(),
        set.updated_nodes.to_string(),
        set.degraded_nodes.to_string(),
        set.wanted_pods.to_string(),
        set.available_pods.to_string(),
        progress,
    ]
}

/// Lists the updating nodes in the order in which their updates started.
pub fn turns(turns: &[NodeTurn], now: Timestamp) -> String {
    let mut sorted: Vec<&NodeTurn> = turns.iter().collect();
    sorted.sort_by(|one, other| one.since.0.cmp(&other.since.0).then_with(|| one.node.cmp(&other.node)));
    let named = sorted.iter().take(NODES).map(|turn| {
        let waits = turn.waits_for.as_deref().map(|waits| format!("{waits} ")).unwrap_or_default();
        let late = if turn.late { ", late" } else { "" };
        format!("{} ({waits}for {}{late})", turn.node, age(&MicroTime(turn.since.0), now))
    });
    let mut named: Vec<String> = named.collect();
    if sorted.len() > NODES {
        named.push(format!("{} more", sorted.len() - NODES));
    }
    named.join(", ")
}

/// Lists the nodes that are being removed. The node with the most targets comes first.
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
    format!("Pods that are targets on nodes that will be removed: {pods}: {}\n", named.join(", "))
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
            "paused: {} registrations and {} deregistrations wait",
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

fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]], words: &[usize]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if words.contains(&column) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use headgate::status::report::{Paused, Problem};

    use super::*;

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
            since: (*reason == "AwsUnreachable").then(|| at(-20)),
            target_groups: Vec::new(),
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
            ingress_daemon_sets: Vec::new(),
            target_groups: vec![blue, red],
        }
    }

    #[test]
    fn the_first_line_names_the_worst_and_without_anything_wrong_says_how_much_is_healthy() {
        let wrong =
            [("AwsUnreachable", "AWS", "nobody answers"), ("Throttled", "target group blue", "calls wait")];
        let said = render(&status(&wrong), at(0).0);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "AwsUnreachable  AWS (for 20s): nobody answers");
        assert_eq!(lines[1], "Throttled  target group blue: calls wait");
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
        let two = "\nPods that are targets on nodes that will be removed: 3: node-1 3 (NodeDying), node-0 0 (NodeDying)\n";
        assert!(said(&[0, 3]).contains(two), "{}", said(&[0, 3]));
        let seven = said(&[1, 1, 1, 1, 1, 1, 9]);
        assert!(seven.contains("removed: 15: node-6 9 (NodeDying), node-0 1"), "{seven}");
        assert!(seven.contains("node-3 1 (NodeDying), 2 more\n"), "{seven}");
        assert!(!said(&[]).contains("will be removed"));
    }

    #[test]
    fn a_set_has_a_line_with_its_progress_and_the_nodes_that_have_their_turn_longest() {
        let turn = |(at, late): (i64, bool)| NodeTurn {
            node: format!("node-{at}"),
            since: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self::at(-at).0),
            waits_for: (at > 5).then(|| "PodsNotReadyYet".to_owned()),
            late,
        };
        let set = |turns: &[(i64, bool)], progress: Option<&str>| IngressDaemonSet {
            namespace: "ingress".to_owned(),
            name: "edge".to_owned(),
            progress: progress.map(str::to_owned),
            message: String::new(),
            nodes: 30,
            updated_nodes: 12,
            degraded_nodes: 0,
            wanted_pods: 60,
            available_pods: 59,
            turns: turns.iter().copied().map(turn).collect(),
        };
        let said = |set| render(&Status { ingress_daemon_sets: vec![set], ..status(&[]) }, at(0).0);
        let expected = "
INGRESSDAEMONSET  NODES  UPDATED  DEGRADED  PODS  AVAILABLE  PROGRESS
ingress/edge         30       12         0    60         59  NodesInTurn: node-700 (PodsNotReadyYet for 11m, late), node-4 (for 4s)
";
        let rolls = said(set(&[(4, false), (700, true)], Some("NodesInTurn")));
        assert!(rolls.contains(expected), "{rolls}");
        let many = said(set(&[1, 2, 3, 4, 5, 6, 7].map(|at| (at, false)), Some("NodesInTurn")));
        assert!(many.contains("NodesInTurn: node-7 (PodsNotReadyYet for 7s), "), "{many}");
        assert!(many.contains("node-3 (for 3s), 2 more\n"), "{many}");
        let new = said(set(&[], None));
        assert!(new.contains("60         59  not processed yet\n"), "{new}");
    }

    #[test]
    fn every_zone_has_a_line_and_what_is_special_is_said_beside_it() {
        let said = render(&status(&[]), at(0).0);
        let expected = "\
TARGET GROUP  ZONE        WANTED  SERVING  HEALTHY  INITIAL  UNHEALTHY  DRAINING  ALSO
blue          us-east-1a       3        3        4        0          0         1  paused: 0 registrations and 2 deregistrations wait, 2 removals held, 1 foreign, a removal waits for 3m, read 3s ago
              us-east-1b       2        1        1        0          1         0  1 zone-not-served
red           -                0        0        0        0          0         0  not read yet
";
        assert!(said.contains(expected), "{said}");
        assert!(said.ends_with("\nAnswered by  headgate-0\n"), "{said}");
    }
}

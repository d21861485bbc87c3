//! Which end-to-end tests say something about a minor of Kubernetes.
//!
//! Owns the list of those that are left out, each with its reason. Pure.

use std::collections::BTreeMap;

use crate::results::LeftOut;

/// Why real nodes are left out.
const REAL_NODES: &str = "they need real nodes and their images";
/// Why tests of files are left out.
const FILES: &str = "they read files of the repository or render the chart, and start no Kubernetes";
/// Why short forms of tools are left out.
const TOOLS: &str = "short forms of tools that measure, in worlds of their own";

/// Why tests of pages are left out.
const PAGES: &str = "they compare what a shell prints with a page, which is of the default minor";

/// Parts of names, and why tests with such a name are left out. The first one that fits counts.
const LEFT_OUT: [(&str, &str); 17] = [
    ("on_real_nodes", REAL_NODES),
    ("a_held_container_that_hangs_starts_again_long_before_its_hold_is_over", REAL_NODES),
    ("chart::installed::", REAL_NODES),
    ("ingress::", REAL_NODES),
    ("chart::", FILES),
    ("links::", FILES),
    ("rules::", FILES),
    ("structure::", FILES),
    ("kubernetes_versions::files::", FILES),
    ("monitoring::", "they play incidents against a real Prometheus"),
    ("page::", "they look at the page in a real browser"),
    ("bench::", TOOLS),
    ("zero_loss::", TOOLS),
    ("chaos::", TOOLS),
    ("demo::", TOOLS),
    ("by_hand::", PAGES),
    ("as_printed::", PAGES),
];

/// The one of the chart's tests that installs something on a world.
const CHART: &str = "chart::the_kinds_are_installed_and_stay_when_the_chart_goes";

/// Why a test is left out, if it is.
pub fn reason(test: &str) -> Option<&'static str> {
    if test == CHART {
        return None;
    }
    // A module begins a name; other parts may be anywhere in it.
    let fits = |part: &str| if part.ends_with("::") { test.starts_with(part) } else { test.contains(part) };
    LEFT_OUT.iter().find(|(part, _)| fits(part)).map(|(_, why)| *why)
}

/// The tests that are run, and those that are left out, by their reason.
pub fn choose(tests: &[String], only: Option<&str>) -> (Vec<String>, Vec<LeftOut>) {
    let mut chosen = Vec::new();
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    for test in tests {
        match reason(test) {
            Some(why) => *left_out.entry(why).or_default() += 1,
            None if only.is_none_or(|only| test.contains(only)) => chosen.push(test.clone()),
            None => {}
        }
    }
    let left_out = left_out.into_iter().map(|(why, tests)| LeftOut { tests, why: why.to_owned() }).collect();
    (chosen, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_left_out_by_their_module_and_counted_by_their_reason() {
        let tests = [
            "gating::a_pod_waits::on_simulated_nodes",
            "gating::a_pod_waits::on_real_nodes",
            "ingress::it_serves",
            "bench::it_measures",
            "registering::a_page_of_pods",
            CHART,
        ]
        .map(str::to_owned);
        let (chosen, left_out) = choose(&tests, None);
        assert_eq!(chosen, [&*tests[0], &*tests[4], &*tests[5]]);
        let counts: Vec<usize> = left_out.iter().map(|left_out| left_out.tests).collect();
        assert_eq!(counts, [1, 2], "{left_out:?}");
        assert_eq!(left_out[1].why, REAL_NODES);
    }

    #[test]
    fn a_part_of_a_name_chooses_among_those_that_are_run() {
        let tests = ["gating::a", "gating::b::on_real_nodes", "leaving::c"].map(str::to_owned);
        assert_eq!(choose(&tests, Some("gating")).0, ["gating::a"]);
    }
}

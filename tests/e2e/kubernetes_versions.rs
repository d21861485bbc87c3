//! The minors of Kubernetes that Headgate works with: what the pages and the chart say is what was run.

use std::fs;

use headgate_harness::{cluster, helm::chart, root, shared_world};
use headgate_minors::{
    results::{Seen, folder},
    table::{BEGIN, END, table},
};
use localstack_world::Minor;

#[test]
fn the_api_server_is_of_the_minor_that_was_asked_for() {
    shared_world::beside_others(|world| async move {
        let asked = match std::env::var("HEADGATE_KUBERNETES") {
            Ok(name) => {
                *Minor::all().iter().find(|minor| minor.name() == name).expect("a minor that there is")
            }
            Err(_) => Minor::default(),
        };
        let client = cluster::client(world.facts()).await;
        let said = client.apiserver_version().await.unwrap();
        assert_eq!(said.git_version, asked.version());
        assert_eq!(format!("{}.{}", said.major, said.minor), asked.name());
        assert_eq!(world.facts().kubernetes_version, asked.version());
    });
}

/// What reads files alone.
mod files {
    use super::*;

    fn all_seen() -> Vec<Seen> {
        Minor::all().iter().filter_map(|minor| Seen::read(root(), *minor).unwrap()).collect()
    }

    #[test]
    fn the_table_is_that_of_the_files_of_results() {
        let path = root().join("docs/kubernetes-versions.md");
        let page = fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page says where the table begins");
        let (_, after) = rest.split_once(END).expect("the page says where the table ends");
        let expected = format!("{before}{BEGIN}{}{END}{after}", table(&all_seen()));
        if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
            fs::write(&path, &expected).unwrap();
        }
        let page = fs::read_to_string(&path).unwrap();
        assert!(page == expected, "docs/kubernetes-versions.md has another table than the files: make docs");
    }

    #[test]
    fn every_file_of_results_is_of_a_minor_that_can_be_built_now_and_nothing_failed() {
        let seen = all_seen();
        for seen in &seen {
            let minor = seen.minor;
            assert_eq!(seen.version, minor.version(), "another version was run: make e2e KUBERNETES={minor}");
            assert!(seen.is_good(), "these failed on {minor}: {:?}", seen.failed);
        }
        let files = fs::read_dir(folder(root())).map_or(0, Iterator::count);
        assert_eq!(files, seen.len(), "expected one file for each minor that was run, and no other");
    }

    #[test]
    fn the_chart_and_the_pages_ask_for_the_same_minor_which_is_the_oldest_that_was_run_if_any_was() {
        let chart = fs::read_to_string(chart().join("Chart.yaml")).unwrap();
        let line = chart.lines().find_map(|line| line.strip_prefix("kubeVersion: ")).expect("a kubeVersion");
        let asked = line.strip_prefix("\">=").and_then(|rest| rest.strip_suffix(".0-0\""));
        let asked = asked.unwrap_or_else(|| panic!("{line}: expected \">=1.MINOR.0-0\""));
        if let Some(oldest) = all_seen().first() {
            assert_eq!(
                asked,
                oldest.minor.name(),
                "the chart's minimum is not the oldest minor that was run"
            );
        }
        let said = format!("Kubernetes {asked} or later");
        for page in ["README.md", "docs/running.md", "docs/kubernetes-versions.md"] {
            let text = fs::read_to_string(root().join(page)).unwrap();
            assert!(text.contains(&said), "{page} does not say {said:?}");
        }
    }
}

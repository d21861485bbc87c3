//! The supported minor versions of Kubernetes: the pages and the chart match what was tested.

use std::fs;

use headgate_harness::{cluster, helm::chart, root, shared_world};
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

#[test]
fn the_chart_and_the_pages_ask_for_the_oldest_minor_that_was_run_and_those_that_were_run_can_be_built() {
    let page = fs::read_to_string(root().join("docs/install/compatibility.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| 1."));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(" | ").collect()).collect();
    let run: Vec<String> = rows.iter().map(|row| format!("1.{} {}", row[0], row[1])).collect();
    let known: Vec<String> =
        Minor::all().iter().map(|minor| format!("{minor} {}", minor.version())).collect();
    assert_eq!(run, known, "docs/install/compatibility.md: run `make e2e KUBERNETES=…` and write the result");

    let oldest = Minor::all()[0].name();
    let chart = fs::read_to_string(chart().join("Chart.yaml")).unwrap();
    assert!(chart.contains(&format!("\nkubeVersion: \">={oldest}.0-0\"\n")), "{chart}");
    for page in ["README.md", "docs/install/helm.md", "docs/install/compatibility.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        assert!(text.contains(&format!("Kubernetes {oldest} or later")), "{page}");
    }
}

//! "Try it by hand" of docs/getting-started/local.md works. Its commands are read from the page and typed into a shell,
//! like a new user, in a separate world.

use headgate_harness::{
    headgate::beside,
    typed::{Step, Terminal, blocks, has_aws_cli, page},
};
use localstack_world::{Minor, Nodes, cache::Cache, kubernetes::Kubernetes};

/// A local world that is stopped in any case.
struct Stopped<'a>(&'a str);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let world = beside("world");
        let _ = std::process::Command::new(world).args(["down", "--name", self.0]).status();
    }
}

#[tokio::test]
async fn try_it_by_hand_runs_as_printed() {
    if !has_aws_cli() {
        eprintln!("there is no AWS CLI here: docs/getting-started/local.md is not tested");
        return;
    }
    // The first world on a machine builds Kubernetes, which takes long. Later worlds start within seconds.
    let cache = Cache::from_environment().unwrap();
    Kubernetes::find(&cache, Nodes::Simulated, Minor::default(), &|said| eprintln!("{said}")).await.unwrap();
    let folder = std::env::temp_dir().join(format!("headgate-by-hand-{}", std::process::id()));
    let name = format!("hand-{}", std::process::id());
    let _world = Stopped(&name);
    let variables = [
        ("HEADGATE_WORLD", name.clone()),
        // The programs were just built. Another build would wait for the build of other tests.
        ("CARGO", "true".to_owned()),
        ("KUBECACHEDIR", folder.display().to_string()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let mut first = Terminal::open(&[], variables.clone());
    let mut second = Terminal::open(&[], variables);
    let blocks = blocks(&page("getting-started/local.md", Some("Try it by hand")));
    let count: usize = blocks.iter().map(Vec::len).sum();
    assert!(count >= 15, "there are {count} commands only");
    // The page's world is named `default`.
    let programs = beside("world");
    let programs = programs.parent().unwrap().display().to_string();
    // Cargo may put programs into another folder.
    let rename = |text: &str| {
        text.replace("World default", &format!("World {name}")).replace("target/debug", &programs)
    };
    for block in &blocks {
        let runs = |step: &&Step| step.command.contains("/headgate run");
        let terminal = if block.iter().any(|step| runs(&step)) { &mut second } else { &mut first };
        for step in block {
            if runs(&step) {
                terminal.start(&step.renamed(rename)).await;
            } else {
                terminal.follow(&step.renamed(rename)).await;
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

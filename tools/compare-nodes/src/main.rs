//! `make compare-nodes`: lives the same pods on simulated and on real nodes, and says where they differ.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // what cannot go on panics

mod lives;

use std::{
    fs,
    process::ExitCode,
    sync::{Arc, Mutex},
};

use headgate_harness::{cluster::Cluster, shared_world::on};
use localstack_world::Nodes;

use lives::{LIVES, Seen};

fn main() -> ExitCode {
    let (simulated, real) = (watch(Nodes::Simulated), watch(Nodes::Real));
    if real.is_empty() {
        return ExitCode::FAILURE;
    }
    let pairs = LIVES.into_iter().zip(simulated).zip(real);
    let lives: Vec<_> = pairs.map(|((life, simulated), real)| (life, simulated, real)).collect();
    let text = lives::report(&lives);
    print!("{text}");
    let written = fs::create_dir_all("target/nodes")
        .and_then(|()| fs::write("target/nodes/report.json", lives::json(&lives).to_string()))
        .and_then(|()| fs::write("target/nodes/report.md", text));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot write target/nodes/report.json: {error}");
            ExitCode::FAILURE
        }
    }
}

/// All lives on nodes of one kind, one after the other; none if this machine cannot have such nodes.
fn watch(nodes: Nodes) -> Vec<Seen> {
    let all = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&all);
    on(nodes, "the lives of pods", move |world| async move {
        let cluster = Cluster::new(world.facts(), "lives").await;
        for life in LIVES {
            let seen = lives::live(&cluster, life).await;
            into.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(seen);
        }
    });
    let seen = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    seen.clone()
}

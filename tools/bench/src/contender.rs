//! The measured programs: Headgate, and the floor for comparison.

use std::{
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use headgate_harness::{
    aws,
    aws::Group,
    headgate::{Headgate, beside},
    wait,
};
use localstack_world::Facts;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// The floor: a program that watches pods and calls AWS can hardly need less (`src/bin/floor.rs`).
pub struct Floor {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Floor {
    /// Starts it for a namespace (`None`: all), with a group for each value of the label `app`, and waits until it has
    /// listed the pods.
    pub async fn start(
        facts: &Facts,
        kubeconfig: &Path,
        scope: Option<&str>,
        groups: &[(&str, &Group)],
    ) -> Self {
        let mut child = Command::new(beside("floor"))
            .args(scope.map(|namespace| format!("--namespace={namespace}")))
            .args(groups.iter().map(|(app, group)| format!("{app}={}", group.arn)))
            .env("KUBECONFIG", kubeconfig)
            .envs(aws::environment(facts))
            // AWS has token buckets per account, and this is another account.
            .env("AWS_ACCESS_KEY_ID", "floor")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut reader = BufReader::new(child.stderr.take().unwrap()).lines();
        let kept = lines.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = reader.next_line().await {
                kept.lock().unwrap().push(line);
            }
        });
        let floor = Self { child, lines };
        wait::until("the floor has listed the pods", || async {
            let lines = floor.lines.lock().unwrap();
            if lines.iter().any(|line| line == "ready") { Ok(()) } else { Err(lines.join("\n")) }
        })
        .await;
        floor
    }

    /// The ID of its process.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Kills it.
    pub async fn end(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// One of the two programs.
pub enum Contender {
    /// Headgate.
    Headgate(Headgate),
    /// The floor.
    Floor(Floor),
}

impl Contender {
    /// The ID of its process.
    pub fn pid(&self) -> u32 {
        match self {
            Self::Headgate(headgate) => headgate.pid(),
            Self::Floor(floor) => floor.pid(),
        }
    }

    /// Ends it.
    pub async fn end(self) {
        match self {
            Self::Headgate(headgate) => {
                headgate.terminate().await;
            }
            Self::Floor(floor) => floor.end().await,
        }
    }

    /// Its resident memory in MiB, after it has settled.
    pub async fn settled_memory(&self, rest: Duration) -> f64 {
        let mut last = memory(self.pid());
        loop {
            tokio::time::sleep(rest).await;
            let now = memory(self.pid());
            if (now - last).abs() < 0.5 {
                return now;
            }
            last = now;
        }
    }

    /// The processor time it has used, in seconds.
    pub fn processor_time(&self) -> f64 {
        // Fields 14 and 15 of proc(5), the 12th and 13th after the name, in ticks of 10 ms on every Linux.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks: f64 =
            fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
        ticks / 100.0
    }
}

/// The resident memory of a process in MiB.
pub fn memory(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    let kib: f64 = kib.unwrap();
    kib / 1024.0
}

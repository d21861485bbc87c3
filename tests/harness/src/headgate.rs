//! The `headgate` program as a process.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use localstack_world::Facts;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{Instant, sleep_until},
};

use crate::{aws, certificates::Files, http, wait};

/// A running `headgate`. Its drop kills the process.
pub struct Headgate {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    admin: String,
    debug: String,
    /// When its metrics were last read.
    read: tokio::sync::Mutex<Option<Instant>>,
}

/// The path of the program, where Cargo puts it: next to this one, or one folder up if this is a test.
pub fn program() -> PathBuf {
    beside("headgate")
}

/// The path of a program of the workspace: next to this one, or one folder up if this is a test.
pub fn beside(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program =
        here.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    program.unwrap_or_else(|| {
        panic!("no program {name} beside this one; expected `cargo build --workspace` first")
    })
}

/// Runs another command of the program to its end. Returns the exit code and the output.
pub async fn command(facts: &Facts, arguments: &[&str]) -> (Option<i32>, String) {
    command_as(facts, &facts.kubeconfig, arguments).await
}

/// The same, with this kubeconfig.
pub async fn command_as(facts: &Facts, kubeconfig: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let done = Command::new(program())
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .envs(aws::environment(facts))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let done = tokio::time::timeout(wait::DEADLINE, done).await.expect("the command ends").unwrap();
    let text = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap()).join("\n");
    (done.status.code(), text)
}

impl Headgate {
    /// Starts `headgate run` with these arguments, and waits until it is ready.
    pub async fn start(facts: &Facts, kubeconfig: &Path, arguments: &[&str]) -> Self {
        let headgate = Self::start_unready(facts, kubeconfig, arguments).await;
        wait::until("headgate is ready", || headgate.probe("/readyz")).await;
        headgate
    }

    /// Starts `headgate run` and waits until it responds, ready or not.
    pub async fn start_unready(facts: &Facts, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::start_within(facts, kubeconfig, arguments, &[]).await
    }

    /// The same, with more environment variables.
    pub async fn start_within(
        facts: &Facts,
        kubeconfig: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let debug = ["--debug-address=127.0.0.1:0"];
        let arguments = [&debug[..], arguments].concat();
        Self::start_program(&program(), facts, kubeconfig, &arguments, environment).await
    }

    /// The same, with another version of the program, and only with arguments that it supports.
    pub async fn start_program(
        program: &Path,
        facts: &Facts,
        kubeconfig: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        Self::start_command(program, "run", (facts, kubeconfig), arguments, environment).await
    }

    /// Starts `headgate certificates` with these arguments. It has no server.
    pub async fn start_certificates(facts: &Facts, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::start_command(&program(), "certificates", (facts, kubeconfig), arguments, &[]).await
    }

    /// Starts `headgate daemonsets` with these arguments, and waits until it responds.
    pub async fn start_daemonsets(facts: &Facts, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::start_command(&program(), "daemonsets", (facts, kubeconfig), arguments, &[]).await
    }

    async fn start_command(
        program: &Path,
        command: &str,
        (facts, kubeconfig): (&Facts, &Path),
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        // Tests run at the same time, so each needs its own Lease and ledgers.
        let named = arguments.iter().find_map(|argument| argument.strip_prefix("--namespaces="));
        let own = named.and_then(|named| named.split(',').next());
        let own = own.filter(|_| !arguments.iter().any(|argument| argument.starts_with("--own-namespace=")));
        let has = |flag: &str| arguments.iter().any(|argument| argument.starts_with(flag));
        let files = (command == "run" && has("--webhook-address=") && !has("--webhook-cert-dir="))
            .then(|| format!("--webhook-cert-dir={}", Files::shared().folder.display()));
        let log = (!arguments.iter().any(|argument| argument.starts_with("--log=")))
            .then_some("--log=info,headgate=debug");
        let mut child = Command::new(program)
            .args([command, "--log-format=json"])
            .args((command != "certificates").then_some("--admin-address=127.0.0.1:0"))
            .args(log)
            .args(own.map(|own| format!("--own-namespace={own}")))
            .args(files)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            // Tests also read detailed metrics.
            .env("HEADGATE_METRICS", "debug")
            .envs(aws::environment(facts))
            .envs(environment.iter().copied())
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
        let (admin, debug, read) = (String::new(), String::new(), tokio::sync::Mutex::default());
        let mut headgate = Self { child, lines, admin, debug, read };
        let start = wait::until("headgate says where it listens", || async {
            let start = headgate.logged(|line| line["message"] == "starting").into_iter().next();
            start.ok_or_else(|| headgate.text())
        })
        .await;
        let address = |of: &str| start[of].as_str().unwrap_or_default().to_owned();
        (headgate.admin, headgate.debug) = (address("admin"), address("debug"));
        headgate
    }

    /// The address of its webhook.
    pub async fn webhook(&self) -> String {
        wait::until("headgate says where its webhook is", || async {
            let said = self.logged(|line| line["webhook"].is_string()).into_iter().next();
            said.map(|line| line["webhook"].as_str().unwrap().to_owned()).ok_or_else(|| self.text())
        })
        .await
    }

    /// The address of its probes and metrics.
    pub fn admin(&self) -> &str {
        &self.admin
    }

    /// The address of its debug server.
    pub fn debug(&self) -> &str {
        &self.debug
    }

    /// All its log lines as one text.
    pub fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }

    /// The log lines that meet a condition.
    pub fn logged(&self, are: impl Fn(&Value) -> bool) -> Vec<Value> {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).filter(|line| are(line)).collect()
    }

    /// The log lines of level info and above.
    pub fn lines(&self) -> Vec<Value> {
        self.logged(|line| ["INFO", "WARN", "ERROR"].iter().any(|level| line["level"] == *level))
    }

    /// Sends a GET to the admin server, or for `/debug/*` to the debug server.
    ///
    /// # Errors The answer, if its status is not 200.
    pub async fn probe(&self, path: &str) -> Result<String, String> {
        let address = if path.starts_with("/debug/") { &self.debug } else { &self.admin };
        match http::request("GET", address, path, None).await? {
            (200, text) => Ok(text),
            (status, text) => Err(format!("{status} {text}")),
        }
    }

    /// The current metrics. Requests within a second share one answer.
    async fn metrics(&self) -> String {
        const SHARED_FOR: Duration = Duration::from_millis(1050);
        let mut read = self.read.lock().await;
        if let Some(last) = *read {
            sleep_until(last + SHARED_FOR).await;
        }
        let page = self.probe("/metrics").await.unwrap();
        *read = Some(Instant::now());
        page
    }

    /// The value of a metric, by its name and labels as in `/metrics`.
    pub async fn metric(&self, line: &str) -> Option<f64> {
        let page = self.metrics().await;
        page.lines().find_map(|row| row.strip_prefix(line)?.strip_prefix(' ')?.parse().ok())
    }

    /// The sum of a metric's samples that have at least these labels. `None`: there are none.
    pub async fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let page = self.metrics().await;
        let has = |row: &&str| labels.iter().all(|(label, is)| row.contains(&format!("{label}=\"{is}\"")));
        let samples = page.lines().filter(|row| row.starts_with(&format!("{name}{{"))).filter(has);
        let values = samples.filter_map(|row| row.rsplit_once(' ')?.1.parse::<f64>().ok());
        values.fold(None, |sum, value| Some(sum.unwrap_or_default() + value))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// The number of open file descriptors of its process.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Whether it is the leader.
    pub async fn leads(&self) -> bool {
        self.metric("headgate_leader").await == Some(1.0)
    }

    /// Whether it is the leader of `headgate daemonsets`.
    pub async fn leads_sets(&self) -> bool {
        self.metric("headgate_daemonsets_leader").await == Some(1.0)
    }

    /// Waits until it is the leader.
    pub async fn wait_leads(&self) {
        wait::until("this headgate leads", || async {
            if self.leads().await { Ok(()) } else { Err(self.text()) }
        })
        .await;
    }

    /// Sends a signal by its name, for example `STOP` or `CONT`.
    pub async fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().await.unwrap();
        assert!(sent.success());
    }

    /// Kills it with SIGKILL and waits for its end.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends SIGTERM and waits for the end. Returns the exit code and the log.
    pub async fn terminate(mut self) -> (Option<i32>, String) {
        self.signal("TERM").await;
        let ended = tokio::time::timeout(wait::DEADLINE, self.child.wait()).await;
        let status = ended.expect("headgate ends on SIGTERM").unwrap();
        wait::until("its last line", || async {
            let text = self.text();
            if text.contains("\"ended\"") { Ok(()) } else { Err(text) }
        })
        .await;
        (status.code(), self.text())
    }
}

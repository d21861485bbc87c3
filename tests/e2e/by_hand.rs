//! "Try it by hand" of docs/local-world.md does what it says: its commands are taken from there and typed into a shell, as a
//! newcomer does, in a world that is nobody else's.
//!
//! Each command has to succeed, and each line that the page prints below it has to come. What looks is typed again until
//! it shows what is printed, as people do. Words with a digit in them are somebody's numbers, names and addresses: any
//! word will do for them. `...` stands for anything.

use std::{path::Path, process::Stdio};

use headgate_harness::{root, wait};
use localstack_world::{Minor, Nodes, cache::Cache, kubernetes::Kubernetes};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// What is typed again until it shows what is printed.
const LOOKS: [&str; 2] = ["kubectl get ", "aws elbv2 describe-"];
/// A target goes on while somebody reads: what the page prints may be followed by this already.
const LATER: [(&str, &str); 3] = [
    ("initial", "healthy"),
    ("Elb.RegistrationInProgress", "Elb.InitialHealthChecking"),
    ("Elb.RegistrationInProgress", "None"),
];
/// Ends what a command prints.
const END: &str = "=== done:";

/// A command, and what is printed below it.
#[derive(Debug, Default)]
struct Step {
    command: String,
    printed: Vec<String>,
}

/// The blocks of the section, each with its commands.
fn blocks() -> Vec<Vec<Step>> {
    let page = std::fs::read_to_string(root().join("docs/local-world.md")).unwrap();
    let (_, section) = page.split_once("\n## Try it by hand\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("the next section");
    let blocks = section.split("```console\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.map(steps).collect()
}

fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), printed: Vec::new() });
        } else if goes_on {
            let step = steps.last_mut().unwrap();
            step.command = format!("{}\n{line}", step.command);
        } else {
            steps.last_mut().expect("a command first").printed.push(line.to_owned());
            continue;
        }
        goes_on = line.ends_with('\\');
    }
    steps
}

/// Whether this line shows what is printed.
fn shows(line: &str, printed: &str) -> bool {
    let line: Vec<&str> = line.split_whitespace().collect();
    let printed: Vec<&str> = printed.split_whitespace().collect();
    let is = |(actual, word): (&&str, &&str)| {
        actual == word
            || word.chars().any(|c| c.is_ascii_digit() || c == '…')
            || LATER.contains(&(*word, *actual))
    };
    line.windows(printed.len().max(1)).any(|words| words.iter().zip(&printed).all(is))
}

/// The first of what is printed that is not shown; each line shows one.
fn missing(said: &[String], printed: &[String]) -> Option<String> {
    let mut left: Vec<&String> = said.iter().collect();
    let printed = printed.iter().filter(|line| line.trim() != "..." && !line.trim().is_empty());
    for wanted in printed {
        let Some(at) = left.iter().position(|line| shows(line, wanted)) else { return Some(wanted.clone()) };
        left.remove(at);
    }
    None
}

/// A terminal. Dropping it ends what runs in it.
struct Terminal {
    shell: Child,
    input: ChildStdin,
    /// None: nobody looks any more.
    output: Option<Lines<BufReader<ChildStdout>>>,
}

impl Terminal {
    fn open(world: &str, folder: &Path) -> Self {
        let mut path = std::env::var("PATH").unwrap();
        if let Ok(clients) = std::env::var("HEADGATE_CLIENTS") {
            path = format!("{clients}:{path}");
        }
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        let mut shell = command
            .current_dir(root())
            .env("PATH", path)
            .env("HEADGATE_WORLD", world)
            // What this test is made of was just built, and building again would wait for other tests to be built.
            .env("CARGO", "true")
            .env_remove("KUBECONFIG")
            .env("KUBECACHEDIR", folder)
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // As on a terminal, which this is not.
            .env("HEADGATE_LOG_FORMAT", "text")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .unwrap();
        let (input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        Self { shell, input, output: Some(BufReader::new(output).lines()) }
    }

    async fn write(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    /// Types a command; gives what it prints and its exit code.
    async fn run(&mut self, command: &str) -> (Vec<String>, i32) {
        // A pipeline's first part may fail, too.
        self.write(&format!("set -o pipefail\n{{ {command}\n}} 2>&1 </dev/null\necho; echo \"{END} $?\"\n"))
            .await;
        let mut said = Vec::new();
        let output = self.output.as_mut().expect("a terminal in which nothing runs");
        let read = async {
            while let Some(line) = output.next_line().await.unwrap() {
                if let Some(code) = line.strip_prefix(END) {
                    return code.trim().parse().unwrap();
                }
                said.push(line);
            }
            panic!("the shell has ended in {command}");
        };
        let code = tokio::time::timeout(wait::DEADLINE, read).await;
        let code = code.unwrap_or_else(|_| panic!("not done within {:?}: {command}", wait::DEADLINE));
        (said, code)
    }

    /// Types a command that goes on; waits until what is printed below it was shown.
    async fn start(&mut self, step: &Step) {
        self.write(&format!("{} 2>&1 </dev/null\n", step.command)).await;
        let mut said = Vec::new();
        let mut output = self.output.take().expect("a terminal in which nothing runs");
        let read = async {
            while missing(&said, &step.printed).is_some() {
                match output.next_line().await.unwrap() {
                    Some(line) => said.push(line),
                    None => break,
                }
            }
        };
        let _ = tokio::time::timeout(wait::DEADLINE, read).await;
        assert_eq!(missing(&said, &step.printed), None, "{step:#?} has shown {said:#?}");
        // It goes on to print, and would stop if nobody read that.
        tokio::spawn(async move { while let Ok(Some(_)) = output.next_line().await {} });
    }

    async fn follow(&mut self, step: &Step) {
        if !LOOKS.iter().any(|looks| step.command.starts_with(looks)) {
            let (said, code) = self.run(&step.command).await;
            assert_eq!((code, missing(&said, &step.printed)), (0, None), "{step:#?} has shown {said:#?}");
            return;
        }
        let end = tokio::time::Instant::now() + wait::DEADLINE;
        loop {
            let (said, code) = self.run(&step.command).await;
            assert_eq!(code, 0, "{step:#?} has shown {said:#?}");
            match missing(&said, &step.printed) {
                None => return,
                Some(missing) => {
                    let late = tokio::time::Instant::now() > end;
                    assert!(!late, "{step:#?} never shows {missing}; last: {said:#?}");
                }
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // All that the shell has started is of its group.
        if let Some(id) = self.shell.id() {
            let _ = std::process::Command::new("kill").args(["-TERM", "--", &format!("-{id}")]).status();
        }
    }
}

/// A world that is stopped whatever happens.
struct Stopped<'a>(&'a str);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let world = headgate_harness::headgate::beside("world");
        let _ = std::process::Command::new(world).args(["down", "--name", self.0]).status();
    }
}

fn has_aws_cli() -> bool {
    let program = std::env::var("HEADGATE_CLIENTS").map_or("aws".into(), |folder| format!("{folder}/aws"));
    let version = std::process::Command::new(&program).arg("--version").output();
    let there = version.is_ok_and(|done| done.status.success());
    assert!(there || std::env::var("HEADGATE_CLIENTS").is_err(), "{program} does not run");
    there
}

#[tokio::test]
async fn try_it_by_hand_runs_as_printed() {
    if !has_aws_cli() {
        eprintln!("there is no AWS CLI here: docs/local-world.md is not tested");
        return;
    }
    // The first world on a machine builds Kubernetes, which takes as long as it takes; a world itself is up in seconds.
    let cache = Cache::from_environment().unwrap();
    Kubernetes::find(&cache, Nodes::Simulated, Minor::default(), &|said| eprintln!("{said}")).await.unwrap();
    let folder = std::env::temp_dir().join(format!("headgate-by-hand-{}", std::process::id()));
    let name = format!("hand-{}", std::process::id());
    let _world = Stopped(&name);
    let mut first = Terminal::open(&name, &folder);
    let mut second = Terminal::open(&name, &folder);
    let blocks = blocks();
    let count: usize = blocks.iter().map(Vec::len).sum();
    assert!(count >= 15, "there are {count} commands only");
    for block in &blocks {
        let runs = |step: &&Step| step.command.starts_with("target/debug/headgate run");
        let terminal = if block.iter().any(|step| runs(&step)) { &mut second } else { &mut first };
        for step in block {
            if runs(&step) {
                terminal.start(step).await;
            } else {
                terminal.follow(&step.in_world(&name)).await;
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

impl Step {
    /// The page's world is called `default`.
    fn in_world(&self, name: &str) -> Self {
        let of = |line: &String| line.replace("World default", &format!("World {name}"));
        Self { command: self.command.clone(), printed: self.printed.iter().map(of).collect() }
    }
}

#[test]
fn what_is_printed_is_found_in_what_is_said() {
    let said = ["World x is up: v1.36.3, 6 nodes".to_owned(), "10.0.0.1  draining".to_owned()];
    let lines = |all: &[&str]| -> Vec<String> { all.iter().map(|line| (*line).to_owned()).collect() };
    assert_eq!(missing(&said, &lines(&["World x is up: v1.2, 3 nodes", "..."])), None);
    assert!(missing(&said, &lines(&["World x is down"])).is_some());
    assert!(missing(&said, &lines(&["127.0.0.1 draining", "127.0.0.2 draining"])).is_some(), "one line each");
    assert!(shows("127.0.0.1 8080 healthy None", "127.0.0.2 8080 initial Elb.RegistrationInProgress"));
    let one = steps("$ a \\\n    b\nc\n$ d\n");
    assert_eq!((one.len(), &*one[0].command, &*one[1].command), (2, "a \\\n    b", "d"));
    assert_eq!(one[0].printed, ["c"]);
}

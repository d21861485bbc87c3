//! Types the commands of a page into a shell as they are printed, like a new user.
//!
//! Each command must succeed and print the lines that the page shows below it. Read-only commands are repeated until
//! their output matches, like people do. A word with a digit is a number, name or address of the example, so it matches
//! any word. `...` matches anything.

use std::process::Stdio;

use localstack_world::Facts;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{aws, root, wait};

/// Commands that are repeated until their output matches.
const LOOKS: [&str; 6] = [
    "kubectl get ",
    "kubectl headgate ",
    "aws elbv2 describe-",
    "headgate status",
    "headgate explain ",
    "headgate diff",
];
/// A target's state advances while a user reads, so these later states match too.
const LATER: [(&str, &str); 3] = [
    ("initial", "healthy"),
    ("Elb.RegistrationInProgress", "Elb.InitialHealthChecking"),
    ("Elb.RegistrationInProgress", "None"),
];
/// The line after the output of a command.
const END: &str = "=== done:";

/// A command with the printed output below it.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The command.
    pub command: String,
    /// The output on the page.
    pub printed: Vec<String>,
}

impl Step {
    /// The same with other names.
    #[must_use]
    pub fn renamed(&self, rename: impl Fn(&str) -> String) -> Self {
        let printed = self.printed.iter().map(|line| rename(line)).collect();
        Self { command: rename(&self.command), printed }
    }
}

/// A page of docs/, or its section with this heading.
pub fn page(name: &str, section: Option<&str>) -> String {
    let text = std::fs::read_to_string(root().join("docs").join(name)).unwrap();
    let Some(section) = section else { return text };
    let (_, rest) = text.split_once(&format!("\n## {section}\n")).expect("the section");
    rest.split("\n## ").next().unwrap().to_owned()
}

/// The blocks of a page with their commands.
pub fn blocks(text: &str) -> Vec<Vec<Step>> {
    let mut blocks: Vec<Vec<Step>> = Vec::new();
    let (mut inside, mut goes_on) = (false, false);
    for line in text.lines() {
        let bare = line.trim_start();
        if bare.starts_with("```") {
            inside = bare == "```console";
            if inside {
                blocks.push(Vec::new());
            }
            continue;
        }
        let Some(steps) = blocks.last_mut().filter(|_| inside) else { continue };
        if let Some(command) = bare.strip_prefix("$ ") {
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
    blocks
}

/// Whether a line matches the printed one.
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

/// The first printed line without a match. Each line matches at most one.
fn missing(said: &[String], printed: &[String]) -> Option<String> {
    let mut left: Vec<&String> = said.iter().collect();
    let printed = printed.iter().filter(|line| line.trim() != "..." && !line.trim().is_empty());
    for wanted in printed {
        let Some(at) = left.iter().position(|line| shows(line, wanted)) else { return Some(wanted.clone()) };
        left.remove(at);
    }
    None
}

/// Whether an AWS CLI is installed. Fails if it is required and missing.
pub fn has_aws_cli() -> bool {
    let program = std::env::var("HEADGATE_CLIENTS").map_or("aws".into(), |folder| format!("{folder}/aws"));
    let version = std::process::Command::new(&program).arg("--version").output();
    let there = version.is_ok_and(|done| done.status.success());
    assert!(there || std::env::var("HEADGATE_CLIENTS").is_err(), "{program} does not run");
    there
}

/// A terminal. Its drop ends all programs in it.
pub struct Terminal {
    shell: Child,
    input: ChildStdin,
    /// `None`: the output is no longer read.
    output: Option<Lines<BufReader<ChildStdout>>>,
}

impl Terminal {
    /// A terminal with these variables, and without this process's variables for AWS and Kubernetes. `bin`: the folders
    /// that are searched first.
    pub fn open(bin: &[&str], environment: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut path: Vec<String> = bin.iter().map(|folder| (*folder).to_owned()).collect();
        path.extend(std::env::var("HEADGATE_CLIENTS"));
        path.extend(std::env::var("PATH"));
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        let mut shell = command
            .current_dir(root())
            .env("PATH", path.join(":"))
            .env_remove("KUBECONFIG")
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_PAGER", "")
            // Like on a terminal.
            .env("HEADGATE_LOG_FORMAT", "text")
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .unwrap();
        let (input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
        Self { shell, input, output: Some(BufReader::new(output).lines()) }
    }

    /// A terminal of a local world's administrator, with these additional variables.
    pub fn in_world(facts: &Facts, variables: &[(&str, &str)]) -> Self {
        let kubectl = facts.kubectl.parent().unwrap().display().to_string();
        let mut environment: Vec<(String, String)> = aws::environment(facts).into_iter().collect();
        environment.push(("KUBECONFIG".into(), facts.kubeconfig.display().to_string()));
        // Version 1 of the CLI reads this variable instead of AWS_REGION.
        environment.push(("AWS_DEFAULT_REGION".into(), facts.region.clone()));
        environment.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Self::open(&[&kubectl], environment)
    }

    async fn write(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    /// Runs a command. Returns its output and exit code.
    pub async fn run(&mut self, command: &str) -> (Vec<String>, i32) {
        // The first part of a pipeline may fail too.
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

    /// Starts a command that does not end, and waits until it has printed the expected lines.
    pub async fn start(&mut self, step: &Step) {
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
        // Its later output must be read, or it would block.
        tokio::spawn(async move { while let Ok(Some(_)) = output.next_line().await {} });
    }

    /// Runs a command, which must print the expected lines. Returns all its output.
    pub async fn follow(&mut self, step: &Step) -> Vec<String> {
        if !LOOKS.iter().any(|looks| step.command.starts_with(looks)) {
            let (said, code) = self.run(&step.command).await;
            assert_eq!((code, missing(&said, &step.printed)), (0, None), "{step:#?} has shown {said:#?}");
            return said;
        }
        let end = tokio::time::Instant::now() + wait::DEADLINE;
        // On a slow machine, an expected line may disappear from the output before the next one appears.
        let mut seen: Vec<String> = Vec::new();
        loop {
            let (said, code) = self.run(&step.command).await;
            assert_eq!(code, 0, "{step:#?} has shown {said:#?}");
            if missing(&said, &step.printed).is_none() {
                return said;
            }
            let new: Vec<String> = said.iter().filter(|line| !seen.contains(line)).cloned().collect();
            seen.extend(new);
            match missing(&seen, &step.printed) {
                None => return said,
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
        // All processes that the shell has started are in its group.
        if let Some(id) = self.shell.id() {
            let _ = std::process::Command::new("kill").args(["-TERM", "--", &format!("-{id}")]).status();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_found_in_what_is_said() {
        let said = ["World x is up: v1.36.3, 6 nodes".to_owned(), "10.0.0.1  draining".to_owned()];
        let lines = |all: &[&str]| -> Vec<String> { all.iter().map(|line| (*line).to_owned()).collect() };
        assert_eq!(missing(&said, &lines(&["World x is up: v1.2, 3 nodes", "..."])), None);
        assert!(missing(&said, &lines(&["World x is down"])).is_some());
        let two = lines(&["127.0.0.1 draining", "127.0.0.2 draining"]);
        assert!(missing(&said, &two).is_some(), "one line each");
        assert!(shows("127.0.0.1 8080 healthy None", "127.0.0.2 8080 initial Elb.RegistrationInProgress"));
        let page = "text\n```yaml\n$ no\n```\n1. a step\n\n   ```console\n   $ a \\\n    b\nc\n$ d\n```\n";
        let blocks = blocks(page);
        let [one, two] = &blocks[0][..] else { panic!("{blocks:#?}") };
        assert_eq!((blocks.len(), &*one.command, &*two.command), (1, "a \\\n    b", "d"));
        assert_eq!(one.printed, ["c"]);
    }
}

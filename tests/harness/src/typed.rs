//! Pages whose commands are typed into a shell as they are printed, as a newcomer does.
//!
//! Each command has to succeed, and each line that the page prints below it has to come. What looks is typed again until
//! it shows what is printed, as people do. Words with a digit in them are somebody's numbers, names and addresses: any
//! word will do for them. `...` stands for anything.

use std::process::Stdio;

use localstack_world::Facts;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{aws, root, wait};

/// What is typed again until it shows what is printed.
const LOOKS: [&str; 6] = [
    "kubectl get ",
    "kubectl headgate ",
    "aws elbv2 describe-",
    "headgate status",
    "headgate explain ",
    "headgate diff",
];
/// A target goes on while somebody reads: what the page prints may be followed by this already.
const LATER: [(&str, &str); 3] = [
    ("initial", "healthy"),
    ("Elb.RegistrationInProgress", "Elb.InitialHealthChecking"),
    ("Elb.RegistrationInProgress", "None"),
];
/// Ends what a command prints.
const END: &str = "=== done:";

/// A command, and what is printed below it.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// What is typed.
    pub command: String,
    /// What the page prints below it.
    pub printed: Vec<String>,
}

impl Step {
    /// The same with other names in it.
    #[must_use]
    pub fn renamed(&self, rename: impl Fn(&str) -> String) -> Self {
        let printed = self.printed.iter().map(|line| rename(line)).collect();
        Self { command: rename(&self.command), printed }
    }
}

/// A page of docs/, or the section of this heading.
pub fn page(name: &str, section: Option<&str>) -> String {
    let text = std::fs::read_to_string(root().join("docs").join(name)).unwrap();
    let Some(section) = section else { return text };
    let (_, rest) = text.split_once(&format!("\n## {section}\n")).expect("the section");
    rest.split("\n## ").next().unwrap().to_owned()
}

/// The blocks of a page, each with its commands.
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

/// Whether there is an AWS CLI; where there has to be one, this fails if there is none.
pub fn has_aws_cli() -> bool {
    let program = std::env::var("HEADGATE_CLIENTS").map_or("aws".into(), |folder| format!("{folder}/aws"));
    let version = std::process::Command::new(&program).arg("--version").output();
    let there = version.is_ok_and(|done| done.status.success());
    assert!(there || std::env::var("HEADGATE_CLIENTS").is_err(), "{program} does not run");
    there
}

/// A terminal. Dropping it ends what runs in it.
pub struct Terminal {
    shell: Child,
    input: ChildStdin,
    /// None: nobody looks any more.
    output: Option<Lines<BufReader<ChildStdout>>>,
}

impl Terminal {
    /// One in which these variables are set, and none of AWS and Kubernetes that this process has. `bin`: where programs are
    /// looked for first.
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
            // As on a terminal, which this is not.
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

    /// One of an administrator of a world, in which these variables are set besides.
    pub fn in_world(facts: &Facts, variables: &[(&str, &str)]) -> Self {
        let kubectl = facts.kubectl.parent().unwrap().display().to_string();
        let mut environment: Vec<(String, String)> = aws::environment(facts).into_iter().collect();
        environment.push(("KUBECONFIG".into(), facts.kubeconfig.display().to_string()));
        // Version 1 of the CLI reads this, and not AWS_REGION.
        environment.push(("AWS_DEFAULT_REGION".into(), facts.region.clone()));
        environment.extend(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Self::open(&[&kubectl], environment)
    }

    async fn write(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    /// Types a command; gives what it prints and its exit code.
    pub async fn run(&mut self, command: &str) -> (Vec<String>, i32) {
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
        // It goes on to print, and would stop if nobody read that.
        tokio::spawn(async move { while let Ok(Some(_)) = output.next_line().await {} });
    }

    /// Types a command, which has to show what is printed below it; gives all that it has shown.
    pub async fn follow(&mut self, step: &Step) -> Vec<String> {
        if !LOOKS.iter().any(|looks| step.command.starts_with(looks)) {
            let (said, code) = self.run(&step.command).await;
            assert_eq!((code, missing(&said, &step.printed)), (0, None), "{step:#?} has shown {said:#?}");
            return said;
        }
        let end = tokio::time::Instant::now() + wait::DEADLINE;
        // On a slow machine one line may be over before the next one comes.
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
        // All that the shell has started is of its group.
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

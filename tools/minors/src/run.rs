//! Runs tests of the end-to-end program, and reads what became of each.
//!
//! Owns the process of a run and its end: when the time is over, it is killed, and the worlds that it started end
//! with it.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

use localstack_world::Minor;

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
}

/// What became of the tests of a run.
#[derive(Debug, Default)]
pub struct Run {
    /// Of each test that ended.
    pub outcomes: BTreeMap<String, Outcome>,
    /// Whether the time was over before all tests had ended.
    pub cut_off: bool,
}

/// The tests of a program.
///
/// # Errors
/// The program cannot be started, or does not list its tests.
pub fn list(program: &Path) -> io::Result<Vec<String>> {
    let output = Command::new(program).args(["--list", "--format", "terse"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let tests: Vec<String> =
        text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect();
    if tests.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{} lists no tests: {said}", program.display())));
    }
    Ok(tests)
}

/// The end-to-end program, built now if it has to be.
///
/// # Errors
/// Cargo fails, or does not say where the program is.
pub fn build(root: &Path) -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--locked", "-p", "headgate-tests", "--test", "e2e", "--no-run"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("the end-to-end tests cannot be built ({})", output.status)));
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| io::Error::other("cargo does not say where the end-to-end tests are"))
}

/// The program of the tests, in what cargo says.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).find_map(
        |message| {
            let is_it = message["target"]["name"] == "e2e" && message["profile"]["test"] == true;
            is_it.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
        },
    )
}

/// Runs tests on a minor until a moment, and shows what they print.
///
/// # Errors
/// The program cannot be started.
pub fn run(
    program: &Path,
    minor: Minor,
    tests: &[String],
    threads: Option<usize>,
    deadline: Instant,
) -> io::Result<Run> {
    let mut command = Command::new(program);
    command.arg("--exact").args(tests).env("HEADGATE_KUBERNETES", minor.name());
    // Programs from elsewhere are of whatever version.
    command.env_remove("KUBEBUILDER_ASSETS").env_remove("HEADGATE_REAL_NODES");
    if let Some(threads) = threads {
        command.env("RUST_TEST_THREADS", threads.to_string());
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or_else(|| io::Error::other("the tests have no output"))?;
    let (lines, read) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let mut run = Run::default();
    loop {
        match read.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                println!("{line}");
                run.outcomes.extend(outcome(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                run.cut_off = true;
                child.kill()?;
                break;
            }
        }
    }
    drop(read);
    child.wait()?;
    if !run.cut_off {
        // A reader ends with the output; after a kill somebody else may still hold it open.
        let _ = reader.join();
    }
    Ok(run)
}

/// What a line of libtest says about a test: `test NAME ... ok`.
fn outcome(line: &str) -> Option<(String, Outcome)> {
    let (name, said) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let outcome = match said.split_whitespace().next()? {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        _ => return None,
    };
    Some((name.to_owned(), outcome))
}

/// From now on.
pub fn within(minutes: u64) -> Instant {
    Instant::now() + Duration::from_secs(minutes * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_libtest_are_read_and_others_are_not() {
        assert_eq!(outcome("test gating::a ... ok"), Some(("gating::a".into(), Outcome::Passed)));
        assert_eq!(outcome("test gating::b ... FAILED"), Some(("gating::b".into(), Outcome::Failed)));
        for other in ["test result: ok. 3 passed; 0 failed", "running 3 tests", "test c ... ignored", ""] {
            assert_eq!(outcome(other), None, "{other}");
        }
    }

    #[test]
    fn the_program_of_the_tests_is_found_in_what_cargo_says() {
        let messages = concat!(
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"headgate\"},\"profile\":{\"test\":false},\"executable\":\"/no\"}\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"e2e\"},\"profile\":{\"test\":true},\"executable\":\"/deps/e2e-1\"}\n",
            "{\"reason\":\"build-finished\",\"success\":true}\n",
        );
        assert_eq!(executable(messages), Some(PathBuf::from("/deps/e2e-1")));
        assert_eq!(executable(""), None);
    }

    #[test]
    fn a_run_that_takes_too_long_is_cut_off() {
        let begin = Instant::now();
        // `sleep` takes what would be names of tests for times, and adds them up.
        let tests = ["60".to_owned()];
        let run = run_any(Path::new("/bin/sleep"), &tests, begin + Duration::from_millis(200));
        assert!(run.cut_off && run.outcomes.is_empty(), "{run:?}");
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    /// A program that knows no `--exact` is given its arguments by a shell.
    fn run_any(program: &Path, arguments: &[String], deadline: Instant) -> Run {
        let script = std::env::temp_dir().join(format!("headgate-minors-{}", std::process::id()));
        let text = format!("#!/bin/sh\nshift\nexec {} \"$@\"\n", program.display());
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let run = run(&script, Minor::default(), arguments, None, deadline).unwrap();
        std::fs::remove_file(&script).unwrap();
        run
    }
}

//! The workflows in `.github/workflows`: their commands exist here, and every action is pinned to a digest. Also tests
//! the release scripts.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, process::Command};

use headgate_harness::{helm::PUBLISHED, root};
use serde_json::Value;

/// Each workflow with its name and text.
fn workflows() -> Vec<(String, String)> {
    let folder = fs::read_dir(root().join(".github/workflows")).unwrap();
    let read = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap())
    };
    let mut all: Vec<_> = folder.map(|entry| read(entry.unwrap().path())).collect();
    all.sort();
    all
}

/// The steps of all jobs of a workflow.
fn steps(text: &str) -> Vec<Value> {
    let workflow: Value = serde_saphyr::from_str(text).unwrap();
    let jobs = workflow["jobs"].as_object().unwrap().values();
    jobs.flat_map(|job| job["steps"].as_array().unwrap().clone()).collect()
}

/// The commands in these shell lines: `make` with its target, and scripts of the repository.
fn commands(run: &str) -> Vec<String> {
    let words: Vec<&str> = run.split(|letter: char| " \n\"'$()<>`;|&=".contains(letter)).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if *word == "make" {
            found.push(format!("make {}", words.get(at + 1).unwrap_or(&"")));
        } else if word.starts_with("tools/") || word.starts_with(".ci/") {
            // A file that is read is no command, but has to exist.
            let read = at > 0 && words[at - 1] == "cat";
            found.push(format!("{}{word}", if read { "cat " } else { "" }));
        }
    }
    found
}

#[test]
fn every_command_of_a_workflow_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| line.contains(':') && !line.starts_with(['\t', '#', ' ']))
        .filter_map(|line| line.split(':').next())
        .collect();
    let mut looked_at = 0;
    for (name, text) in workflows() {
        for step in steps(&text) {
            let Some(run) = step["run"].as_str() else { continue };
            for command in commands(run) {
                looked_at += 1;
                match command.strip_prefix("make ") {
                    // The job's matrix has the targets.
                    Some("" | "{{") => {}
                    Some(target) => {
                        assert!(targets.contains(target), "{name}: the Makefile has no target {target:?}");
                    }
                    None if command.starts_with("cat ") => {
                        let file = command.trim_start_matches("cat ");
                        assert!(root().join(file).is_file(), "{name}: {file} does not exist");
                    }
                    None => {
                        let file = fs::metadata(root().join(&command));
                        let mode =
                            file.unwrap_or_else(|error| panic!("{name}: {command}: {error}")).permissions();
                        assert!(mode.mode() & 0o111 != 0, "{name}: {command} is not executable");
                    }
                }
            }
        }
    }
    assert!(looked_at > 15, "{looked_at}");
}

#[test]
fn the_matrices_of_the_workflows_name_what_exists() {
    let proofs = fs::read_to_string(root().join(".github/workflows/proofs.yaml")).unwrap();
    let proofs: Value = serde_saphyr::from_str(&proofs).unwrap();
    let matrix = |job: &str, name: &str| -> BTreeSet<String> {
        let values = proofs["jobs"][job]["strategy"]["matrix"][name].as_array().unwrap();
        values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let fuzzed = fs::read_dir(root().join("tests/fuzz/targets")).unwrap();
    let fuzzed = fuzzed.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    assert_eq!(matrix("fuzz", "target"), fuzzed.collect());
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    for run in matrix("zero-loss", "run") {
        let target = run.split(' ').next().unwrap();
        assert!(makefile.contains(&format!("\n{target}:")), "{target}");
    }

    let tests = fs::read_to_string(root().join(".github/workflows/test.yaml")).unwrap();
    let tests: Value = serde_saphyr::from_str(&tests).unwrap();
    let minors = tests["jobs"]["kubernetes"]["strategy"]["matrix"]["minor"].as_array().unwrap();
    let minors: Vec<&str> = minors.iter().map(|minor| minor.as_str().unwrap()).collect();
    let others =
        localstack_world::Minor::all().iter().filter(|minor| **minor != localstack_world::Minor::default());
    assert_eq!(
        minors,
        others.map(|minor| minor.name()).collect::<Vec<_>>(),
        "the gate runs on the default minor"
    );
}

#[test]
fn every_action_is_fixed_by_a_digest_and_every_workflow_says_what_it_may_do() {
    for (name, text) in workflows() {
        let workflow: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(workflow["permissions"], serde_json::json!({"contents": "read"}), "{name}: permissions");
        for (job, about) in workflow["jobs"].as_object().unwrap() {
            assert!(about["timeout-minutes"].is_u64(), "{name}: job {job} has no timeout");
        }
        for line in text.lines().map(str::trim).filter(|line| line.contains("uses: ")) {
            let (_, action) = line.split_once("uses: ").unwrap();
            let (_, fixed) = action.split_once('@').unwrap_or_else(|| panic!("{name}: {line}"));
            let (digest, tag) =
                fixed.split_once(" # v").unwrap_or_else(|| panic!("{name}: {line} names no tag"));
            let is_digest = digest.len() == 40 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_digest && tag.split('.').count() == 3, "{name}: {line}");
        }
    }
}

/// Runs a program in the repository. Panics with its output if it fails.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {complained}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn version_and_names_of_a_release_are_the_same_everywhere() {
    let version = said("tools/release/version.sh", &[]);
    assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
    let refused = Command::new(root().join("tools/release/version.sh")).arg("9.9.9").output().unwrap();
    assert!(!refused.status.success(), "it accepts a version that Cargo.toml does not have");
    let chart = fs::read_to_string(root().join("deploy/helm/headgate/Chart.yaml")).unwrap();
    let image = format!("image: {PUBLISHED}:{}\n", version.trim());
    assert!(chart.contains(&image), "Chart.yaml does not name the image of this version");
    let script = fs::read_to_string(root().join("tools/release/chart.sh")).unwrap();
    assert!(script.contains(&format!("\ndefault={PUBLISHED}\n")));
    let repository = env!("CARGO_PKG_REPOSITORY");
    for file in ["tools/release/image.sh", "Makefile", "SECURITY.md", "docs/install/verify.md"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains(repository), "{file} does not name {repository}");
    }
}

#[test]
fn the_scripts_of_a_release_are_programs_that_bash_can_read() {
    for entry in fs::read_dir(root().join("tools/release")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sh") {
            said("bash", &["-n", path.to_str().unwrap()]);
            assert!(fs::metadata(&path).unwrap().permissions().mode() & 0o111 != 0, "{}", path.display());
        }
    }
}

#[test]
fn commands_are_found_in_what_a_shell_runs() {
    let found = commands(
        "make a X=1\nsudo env \"PATH=$PATH\" make b HELM=\"$(tools/release/tools.sh helm4)\"\n.ci/run \"$(cat tools/a)\"",
    );
    assert_eq!(found, ["make a", "make b", "tools/release/tools.sh", ".ci/run", "cat tools/a"]);
}

//! The commands of README.md, docs/getting-started and docs/install/iam.md that need AWS or a registry. A real shell
//! runs them with programs that only record their arguments. Each call is compared with the chart, the IAM files, the
//! examples and the command line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use headgate_harness::{headgate::beside, helm, pages::prose, root, typed::has_aws_cli};
use serde_json::Value;

/// The recorded programs. A page that calls another program fails.
const RECORDED: [&str; 8] = ["aws", "curl", "eksctl", "headgate", "helm", "kubectl", "tar", "terraform"];
/// Values that the pages leave to the reader.
const GIVEN: [(&str, &str); 4] = [
    ("REGISTRY", "123456789012.dkr.ecr.eu-central-1.amazonaws.com"),
    ("CLUSTER", "my-cluster"),
    ("ACCOUNT", "123456789012"),
    (
        "TARGET_GROUP_ARN",
        "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/web/0123456789abcdef",
    ),
];
const RECORDER: &str = "#!/bin/sh
{ printf '%s\\037' \"$(basename \"$0\")\" \"$@\"; printf '\\036'; } >> \"$RECORD\"
case \"$*\" in *get-caller-identity*) echo 123456789012 ;; *) echo value-1 ;; esac
";

/// A call of a program: its name and arguments.
type Call = Vec<String>;

/// The blocks of a page that readers type.
fn script(page: &str) -> String {
    let mut script = String::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside {
            script.push_str(line);
            script.push('\n');
        }
    }
    script
}

/// The calls of a page's commands.
fn calls(page: &str) -> Vec<Call> {
    let name = page.replace(['/', '.'], "-");
    let folder = std::env::temp_dir().join(format!("headgate-printed-{name}-{}", std::process::id()));
    let (programs, record) = (folder.join("bin"), folder.join("record"));
    fs::create_dir_all(&programs).unwrap();
    let program = |name: &str, text: &str| {
        let path = programs.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    for name in RECORDED {
        program(name, RECORDER);
    }
    // A loop over thousands of requests runs once.
    program("seq", "#!/bin/sh\necho 1\n");
    for name in ["basename", "sed", "sort", "uniq"] {
        let _ = std::os::unix::fs::symlink(format!("/usr/bin/{name}"), programs.join(name));
    }
    let text = fs::read_to_string(root().join(page)).unwrap();
    let output = Command::new("/bin/bash")
        .args(["-euo", "pipefail", "-c", &script(&text)])
        .current_dir(root())
        .env_clear()
        .envs(GIVEN)
        .env("VPC", "vpc-1")
        .env("GROUP", "sg-1")
        .env("PATH", &programs)
        .env("RECORD", &record)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{page}: {}", String::from_utf8_lossy(&output.stderr));
    let record = fs::read_to_string(record).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let call = |text: &str| text.trim_end_matches('\u{1f}').split('\u{1f}').map(str::to_owned).collect();
    record.split_terminator('\u{1e}').map(call).collect()
}

/// The value of a flag, from `--flag value` or `--flag=value`.
fn flag<'a>(call: &'a Call, name: &str) -> Option<&'a str> {
    let with = format!("{name}=");
    let at = call.iter().position(|word| word == name || word.starts_with(&with))?;
    call[at].strip_prefix(&with).or_else(|| call.get(at + 1).map(String::as_str))
}

/// The values of a flag that may be repeated.
fn flags<'a>(call: &'a Call, name: &str) -> Vec<&'a str> {
    call.windows(2).filter(|pair| pair[0] == name).map(|pair| &*pair[1]).collect()
}

/// The long flags of a call.
fn long(call: &Call) -> BTreeSet<&str> {
    call.iter().filter(|word| word.starts_with("--")).map(|word| word.split('=').next().unwrap()).collect()
}

fn exists(path: &str) {
    assert!(root().join(path).exists(), "{path} does not exist");
}

/// The folder of a call's files: that of the repository, or the one into which the page downloads IAM policies.
fn folder_of(call: &Call) -> PathBuf {
    let downloaded = root().join("deploy/iam");
    let mut files = call.iter().filter_map(|word| word.strip_prefix("file://"));
    let is_downloaded = files.any(|file| !file.contains('/') && downloaded.join(file).exists());
    if is_downloaded { downloaded } else { root().to_owned() }
}

/// Checks that the help of a program lists all flags of the call.
fn knows(program: &Path, subcommands: &[&str], call: &Call) {
    let output = Command::new(program).args(subcommands).arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{} has no {subcommands:?}", program.display());
    for flag in long(call) {
        assert!(
            help.split([' ', ',', '=', '\n']).any(|word| word == flag),
            "{call:?}: {flag} is not in the help"
        );
    }
}

/// The published address of this repository's chart.
const PUBLISHED_CHART: &str = "oci://ghcr.io/headgate/charts/headgate";

/// The chart's output for a `helm install`.
struct Rendered {
    account: (String, String),
    role: Option<String>,
}

async fn render(call: &Call) -> Rendered {
    let left_out = ["--create-namespace", "--wait", "install", "helm"];
    let mut arguments = vec!["template", "--kube-version=1.33.0"];
    arguments.extend(call.iter().map(String::as_str).filter(|word| !left_out.contains(word)));
    let at = arguments.iter().position(|word| *word == PUBLISHED_CHART).expect("the published chart");
    let chart = helm::chart().display().to_string();
    arguments[at] = &chart;
    let text = helm::run(None, &arguments).await.unwrap_or_else(|error| panic!("{call:?}: {error}"));
    let documents: Vec<Value> = text
        .split("\n---\n")
        .map(|document| serde_saphyr::from_str(document.trim_start_matches("---\n")).unwrap())
        .collect();
    let name = &call[2];
    let of = |kind: &str| {
        let is = |document: &&Value| document["kind"] == kind && document["metadata"]["name"] == **name;
        documents.iter().find(is).unwrap_or_else(|| panic!("the chart makes no {kind} {name}"))
    };
    let account = of("ServiceAccount");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Rendered {
        account: (text(&account["metadata"]["namespace"]), text(&account["metadata"]["name"])),
        role: account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].as_str().map(str::to_owned),
    }
}

/// Checks that AWS has this operation with these parameters: the AWS CLI accepts the call, and fails only because it
/// cannot reach this address.
fn aws_knows(call: &Call) {
    let program = std::env::var("HEADGATE_CLIENTS").map_or("aws".into(), |folder| format!("{folder}/aws"));
    let output = Command::new(program)
        .args(&call[1..])
        .args(["--endpoint-url", "http://127.0.0.1:1", "--no-sign-request"])
        .current_dir(folder_of(call))
        .env("AWS_DEFAULT_REGION", "eu-central-1")
        .env("AWS_MAX_ATTEMPTS", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Could not connect to the endpoint URL"), "{call:?}: {said}");
}

/// The parameters of the stack: the required ones, and all.
fn parameters() -> (BTreeSet<String>, BTreeSet<String>) {
    let text = fs::read_to_string(root().join("examples/cloudformation/headgate.yaml")).unwrap();
    let section = text.split("\nParameters:\n").nth(1).unwrap().split("\nResources:\n").next().unwrap();
    let parts = section.split("\n  ").collect::<Vec<_>>().join("\n");
    let mut of: BTreeMap<String, bool> = BTreeMap::new();
    let mut current = String::new();
    for line in parts.lines() {
        if let Some(name) = line.trim_start().strip_suffix(':') {
            name.clone_into(&mut current);
            of.insert(current.clone(), true);
        } else if line.trim_start().starts_with("Default:") {
            of.insert(current.clone(), false);
        }
    }
    (
        of.iter().filter(|(_, needed)| **needed).map(|(name, _)| name.clone()).collect(),
        of.into_keys().collect(),
    )
}

/// The variables of the terraform example: the required ones, and all.
fn variables() -> (BTreeSet<String>, BTreeSet<String>) {
    let text = fs::read_to_string(root().join("examples/terraform/main.tf")).unwrap();
    let blocks = text.split("\nvariable \"").skip(1).map(|block| block.split("\n}").next().unwrap());
    let named: Vec<(String, bool)> = blocks
        .map(|block| (block.split('"').next().unwrap().to_owned(), !block.contains("default")))
        .collect();
    let needed = named.iter().filter(|(_, needed)| *needed).map(|(name, _)| name.clone()).collect();
    (needed, named.into_iter().map(|(name, _)| name).collect())
}

/// Checks that a call has all required names, and only names that exist.
fn given(call: &Call, names: &BTreeSet<String>, (needed, all): &(BTreeSet<String>, BTreeSet<String>)) {
    assert!(
        needed.is_subset(names) && names.is_subset(all),
        "{call:?}: {names:?}; needed {needed:?} of {all:?}"
    );
}

fn check_aws(call: &Call, has_cli: bool) {
    for word in call {
        if let Some(path) = word.strip_prefix("file://") {
            let file = folder_of(call).join(path);
            assert!(file.exists(), "{} does not exist", file.display());
        }
    }
    if call[1..3] == ["cloudformation", "deploy"] {
        exists(flag(call, "--template-file").unwrap());
        let at = call.iter().position(|word| word == "--parameter-overrides").unwrap();
        let names =
            call[at + 1..].iter().filter_map(|word| Some(word.split_once('=')?.0.to_owned())).collect();
        given(call, &names, &parameters());
    } else if has_cli {
        aws_knows(call);
    }
}

fn check_kubectl(call: &Call) {
    let words: Vec<&str> = call.iter().map(String::as_str).collect();
    let app = fs::read_to_string(root().join("examples/app/app.yaml")).unwrap();
    assert!(
        flag(call, "--namespace").is_none_or(|namespace| ["shop", "headgate"].contains(&namespace)),
        "{call:?}"
    );
    if words.contains(&"apply") {
        exists(flag(call, "-f").unwrap());
    } else if words.contains(&"label") {
        assert_eq!(words.last(), Some(&"headgate.dev/inject=true"));
    } else if words.contains(&"annotate") {
        assert!(words.last().unwrap().starts_with("headgate.dev/target-groups="), "{call:?}");
    } else if words.contains(&"rollout") {
        assert_eq!(words.last(), Some(&"deployment/web"));
        assert!(app.contains("kind: Deployment\nmetadata:\n  name: web\n  namespace: shop\n"), "{app}");
    } else {
        assert!(words.contains(&"get") || words.contains(&"logs"), "{call:?}");
        if words.contains(&"logs") {
            assert_eq!(words.last(), Some(&"deployment/headgate"));
            return;
        }
        assert!(words.contains(&"targetbindings") || words.contains(&"pods"), "{call:?}");
    }
}

/// Checks eksctl calls only against the chart and the policy, because its flags are not known here.
fn check_eksctl(page: &str, call: &Call, rendered: &Rendered, policies: &BTreeSet<String>) {
    let account = flag(call, "--service-account-name").or_else(|| flag(call, "--name"));
    match call[2].as_str() {
        "addon" => assert_eq!(account, Some("eks-pod-identity-agent"), "{page}: {call:?}"),
        "associate-iam-oidc-provider" => {}
        "podidentityassociation" | "iamserviceaccount" => {
            let names = (flag(call, "--namespace").unwrap(), account.unwrap());
            assert_eq!(names, (&*rendered.account.0, &*rendered.account.1), "{page}: {call:?}");
            let policy =
                flag(call, "--permission-policy-arns").or_else(|| flag(call, "--attach-policy-arn")).unwrap();
            let policy = policy.rsplit_once(":policy/").unwrap().1;
            assert!(policies.contains(policy), "{page}: no command creates the policy {policy}");
            if let Some(role) = &rendered.role {
                let its = flag(call, "--role-name").unwrap();
                assert!(
                    role.ends_with(&format!(":role/{its}")),
                    "{page}: the chart has {role}, eksctl makes {its}"
                );
            }
        }
        other => panic!("{page}: the test does not know `eksctl {other}`"),
    }
}

/// The archive of a release that is unpacked was downloaded, and is one that `make release` writes.
fn check_archive(page: &str, call: &Call, calls: &[Call]) {
    let [_, _, archive, program] = &call[..] else { panic!("{page}: {call:?}") };
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        (&**archive, &**program),
        (&*format!("headgate-{version}-linux-amd64.tar.gz"), "headgate"),
        "{page}"
    );
    let url = format!("{}/releases/download/v{version}/{archive}", env!("CARGO_PKG_REPOSITORY"));
    assert!(
        calls.iter().any(|call| call[0] == "curl" && call.contains(&url)),
        "{page}: nothing downloads {url}"
    );
    let script = fs::read_to_string(root().join("tools/release/files.sh")).unwrap();
    for part in ["linux-amd64", "name=headgate-$version-$platform\n", "/$name.tar.gz"] {
        assert!(script.contains(part), "tools/release/files.sh has no {part}");
    }
}

/// The programs that a page calls, after every call was compared.
async fn check(page: &str) -> BTreeSet<String> {
    let calls = calls(page);
    let of = |program: &'static str| calls.iter().filter(move |call| call[0] == program);
    let has_cli = has_aws_cli();
    let mut rendered = None;
    for call in of("helm") {
        knows(helm::program().await, &[&call[1]], call);
        if call[1] == "install" {
            rendered = Some(render(call).await);
        }
    }
    let policies: BTreeSet<String> = of("aws")
        .filter(|call| call[2] == "create-policy")
        .map(|call| flag(call, "--policy-name").unwrap().to_owned())
        .collect();
    for call in &calls {
        match call[0].as_str() {
            "aws" => check_aws(call, has_cli),
            "eksctl" => check_eksctl(page, call, rendered.as_ref().expect("helm install"), &policies),
            "headgate" => knows(&beside("headgate"), &[&call[1]], call),
            "kubectl" => check_kubectl(call),
            "tar" => check_archive(page, call, &calls),
            "terraform" if call[1] == "apply" => {
                let names = flags(call, "-var")
                    .iter()
                    .map(|given| given.split('=').next().unwrap().to_owned())
                    .collect();
                given(call, &names, &variables());
            }
            "terraform" | "curl" | "helm" => {}
            other => panic!("{page}: {other}"),
        }
    }
    calls.into_iter().map(|call| call[0].clone()).collect()
}

/// The page about IAM, README.md, and the pages of getting started. Another test types the page about the local world.
fn pages() -> Vec<String> {
    let folder: PathBuf = root().join("docs/getting-started");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> =
        names.filter(|name| name != "local.md").map(|name| format!("docs/getting-started/{name}")).collect();
    pages.extend(["README.md", IAM].map(str::to_owned));
    pages.sort();
    pages
}

#[tokio::test]
async fn commands_that_need_aws_or_a_registry_fit_the_chart_the_iam_files_and_the_command_line() {
    let mut called = BTreeMap::new();
    for page in pages() {
        called.insert(page.clone(), check(&page).await);
    }
    let programs = |page: &str| called[page].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(programs("README.md"), ["aws", "curl", "eksctl", "helm", "kubectl", "tar"]);
    assert_eq!(programs(IAM), ["aws", "eksctl", "headgate", "helm", "kubectl"]);
    assert_eq!(programs("docs/getting-started/infrastructure.md"), ["terraform"]);
    let eks = programs("docs/getting-started/eks.md");
    assert_eq!(eks, ["aws", "curl", "eksctl", "headgate", "helm", "kubectl", "tar"]);
}

/// The source of the commands about IAM.
const IAM: &str = "docs/install/iam.md";

/// The calls of a page that are about IAM, for any folder of the policies.
fn about_iam(page: &str) -> BTreeSet<Call> {
    let is_about = |call: &Call| {
        let of_aws =
            call[0] == "aws" && (call[1] == "iam" || call[2] == "add-tags" || call[2].contains("identity-a"));
        of_aws || call[0] == "eksctl"
    };
    calls(page)
        .into_iter()
        .filter(is_about)
        .map(|call| call.iter().map(|word| word.replace("file://deploy/iam/", "file://")).collect())
        .collect()
}

#[test]
fn pages_for_newcomers_repeat_the_commands_of_the_page_about_iam_as_they_are() {
    let source = about_iam(IAM);
    for page in ["README.md", "docs/getting-started/eks.md"] {
        let its = about_iam(page);
        let others: Vec<_> = its.difference(&source).collect();
        assert!(its.len() >= 2 && others.is_empty(), "{page}: {IAM} does not have {others:#?}");
    }
}

#[test]
fn every_make_target_of_these_pages_exists() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let mut found = 0;
    for page in ["README.md", "docs/getting-started/local.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let prose = prose(&text).into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        for code in prose.split('`').skip(1).step_by(2) {
            let Some((_, target)) =
                code.rsplit_once("make ").filter(|(before, _)| before.is_empty() || before.ends_with(' '))
            else {
                continue;
            };
            assert!(makefile.contains(&format!("\n{target}: ")), "{page}: there is no target {target}");
            found += 1;
        }
    }
    assert!(found >= 4, "{found} targets only");
}

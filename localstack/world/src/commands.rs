//! The command line of `world`.
//!
//! The module defines flags, exit codes and output. Exit codes: 0: success. 1: failure. 2: invalid usage. 3: the
//! cluster is not up. 4 (`status`): the cluster is up, but a component does not run.

use std::{
    future::Future,
    io::{self, Write},
    os::unix::process::CommandExt,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, Parser, Subcommand};

use crate::{
    cache::{Cache, FileLock, WorldName},
    component::{Component, State},
    console,
    control::{self, Request, Response},
    error::WorldError,
    facts::{Facts, FactsError},
    helm,
    kubernetes::Kubernetes,
    minor::Minor,
    options::Options,
    process::Process,
    reexec, report,
    serve::{self, ServeArguments},
    supervisor, world,
    world::{Start, World},
};

/// A real Kubernetes, simulated nodes and load balancers, on this machine's loopback addresses.
#[derive(Parser)]
#[command(name = "world", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a world, and return when it is ready
    Up(Up),
    /// Stop a world and remove its folder; succeeds if there is none
    Down(Named),
    /// Show the components of a world (exit code 3: not up, 4: a component does not run)
    Status(Status),
    /// Print environment variables for a shell: eval "$(world env)"
    Env(Named),
    /// Run a command in the network of a world with real nodes, with the environment of `world env`
    Exec(Exec),
    /// Stop one component (SIGTERM, SIGKILL after 3 s) and keep its data
    Stop(One),
    /// Kill one component (SIGKILL) and keep its data
    Kill(One),
    /// Start a component that was stopped or killed, or has failed
    Start(One),
    /// Stop and start one component
    Restart(One),
    /// Print the path of `helm`, and build it first if necessary
    Helm,
    /// Print the folder of the Kubernetes programs, and build them first if necessary
    Kubernetes(OfMinor),
    /// Run the supervisor of a world
    #[command(hide = true)]
    Serve(ServeArguments),
    /// Start a world with the library and keep it until this process ends
    #[command(hide = true)]
    Hold(Options),
    /// Run a command that ends with its parent
    #[command(hide = true, name = reexec::COMMAND)]
    Child(Child),
}

#[derive(Args)]
struct Up {
    #[command(flatten)]
    options: Options,

    /// Run in the foreground; Ctrl-C stops everything
    #[arg(long)]
    foreground: bool,
}

#[derive(Args)]
struct Named {
    /// Name of the world
    #[arg(long, env = "HEADGATE_WORLD", default_value = "default")]
    name: WorldName,
}

#[derive(Args)]
struct OfMinor {
    /// The minor version of Kubernetes [default: 1.36]
    #[arg(long, value_enum, env = "HEADGATE_KUBERNETES", value_name = "MINOR")]
    kubernetes: Option<Minor>,
}

#[derive(Args)]
struct Status {
    #[command(flatten)]
    world: Named,

    /// Print all facts about the world as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct One {
    /// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, elbv2, kubelet or nodes
    component: Component,

    #[command(flatten)]
    world: Named,
}

#[derive(Args)]
struct Exec {
    #[command(flatten)]
    world: Named,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

#[derive(Args)]
struct Child {
    #[arg(long)]
    parent: i32,
    program: String,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// The exit code of `status` if a component does not run.
const DEGRADED: u8 = 4;
/// The timeout for a supervisor to stop all components. A component needs at most 3 s.
const TAKE_DOWN: Duration = Duration::from_secs(30);

/// Parses the command line, runs the command, and returns the exit code.
pub fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Child(child) => {
            let error = reexec::become_dependent(child.parent, &child.program, &child.arguments);
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
        Command::Serve(arguments) => return serve::serve(arguments),
        Command::Up(up) if up.foreground => return serve::foreground(up.options),
        Command::Up(up) => run(start(up.options)),
        Command::Down(named) => run(down(named.name)),
        Command::Status(status) => run(show_status(status)),
        Command::Env(named) => environment(&named.name),
        Command::Exec(exec) => execute(&exec),
        Command::Stop(one) => run(work(one.world.name, Request::Stop { component: one.component })),
        Command::Kill(one) => run(work(one.world.name, Request::Kill { component: one.component })),
        Command::Start(one) => run(work(one.world.name, Request::Start { component: one.component })),
        Command::Restart(one) => run(work(one.world.name, Request::Restart { component: one.component })),
        Command::Hold(options) => run(hold(options)),
        Command::Helm => run(print_helm()),
        Command::Kubernetes(of) => run(print_kubernetes(of.kubernetes.unwrap_or_default())),
    };
    outcome.unwrap_or_else(|error| console::complain(&error))
}

fn run(task: impl Future<Output = Result<ExitCode, WorldError>>) -> Result<ExitCode, WorldError> {
    serve::runtime()?.block_on(task)
}

async fn start(options: Options) -> Result<ExitCode, WorldError> {
    let cache = Cache::from_environment()?;
    if let Some(facts) = living(&cache, &options.name)? {
        if !facts.ready {
            return Err(WorldError::AlreadyUp(options.name));
        }
        eprintln!("World {} was up already; its options stay what they were.", facts.name);
        say(&report::up(&facts, &console::program()));
        return Ok(ExitCode::SUCCESS);
    }
    let program_of_world = std::env::current_exe().map_err(WorldError::at("/proc/self/exe"))?;
    let begin = Instant::now();
    let world = World::start(Start {
        options,
        program: Some(program_of_world),
        new_session: true,
        ..Start::default()
    })
    .await?;
    let facts = world.detach().await?;
    eprintln!("Ready after {:.1} s.", begin.elapsed().as_secs_f64());
    say(&report::up(&facts, &console::program()));
    Ok(ExitCode::SUCCESS)
}

async fn print_helm() -> Result<ExitCode, WorldError> {
    let program = helm::find(&Cache::from_environment()?, &|said| eprintln!("{said}")).await?;
    say(&format!("{}\n", program.display()));
    Ok(ExitCode::SUCCESS)
}

async fn print_kubernetes(minor: Minor) -> Result<ExitCode, WorldError> {
    let cache = Cache::from_environment()?;
    let built = Kubernetes::built(&cache, minor, &|said| eprintln!("{said}")).await?;
    say(&format!("{}\n", built.executable("kubernetes").display()));
    Ok(ExitCode::SUCCESS)
}

async fn down(name: WorldName) -> Result<ExitCode, WorldError> {
    let cache = Cache::from_environment()?;
    if let Some(lock) = cache.lock_world(&name)? {
        let found = supervisor::remove_remains(&cache, &name, &lock)?;
        let what = if found { "was not running any more; its folder is removed" } else { "is not up" };
        eprintln!("World {name} {what}.");
        return Ok(ExitCode::SUCCESS);
    }
    let folder = cache.world(&name);
    let supervisor = Facts::read(&folder).ok().map(|facts| facts.supervisor);
    let answer = control::ask_and_see_the_end(&folder, &Request::Down, TAKE_DOWN).await;
    if let Ok(Response::Refused(reason)) = answer {
        return Err(WorldError::Refused(reason));
    }
    let lock = match wait_for_the_end(&cache, &name, Duration::from_secs(5)).await? {
        Some(lock) => lock,
        None => end_by_force(&cache, &name).await?,
    };
    supervisor::remove_remains(&cache, &name, &lock)?;
    // The supervisor releases the lock just before it exits.
    while supervisor.is_some_and(Process::is_alive) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    eprintln!("World {name} is down.");
    Ok(ExitCode::SUCCESS)
}

async fn end_by_force(cache: &Cache, name: &WorldName) -> Result<FileLock, WorldError> {
    let facts = Facts::read(&cache.world(name))?;
    eprintln!("World {name} does not answer: killing its supervisor (pid {}).", facts.supervisor.pid);
    facts.supervisor.kill();
    let silent = || WorldError::Silent { name: name.clone(), reason: "it survives being killed".to_owned() };
    wait_for_the_end(cache, name, Duration::from_secs(10)).await?.ok_or_else(silent)
}

/// Waits until the lock of the cluster is free, and takes the lock.
async fn wait_for_the_end(
    cache: &Cache,
    name: &WorldName,
    patience: Duration,
) -> Result<Option<FileLock>, WorldError> {
    let deadline = Instant::now() + patience;
    loop {
        let lock = cache.lock_world(name)?;
        if lock.is_some() || Instant::now() >= deadline {
            return Ok(lock);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn show_status(arguments: Status) -> Result<ExitCode, WorldError> {
    let cache = Cache::from_environment()?;
    let name = arguments.world.name;
    let facts = living(&cache, &name)?.ok_or(WorldError::NotUp(name))?;
    let facts = world::status(&facts).await?;
    if arguments.json {
        let text = serde_json::to_string_pretty(&facts).unwrap_or_default();
        say(&(text + "\n"));
    } else {
        say(&report::status(&facts));
    }
    let all_run = facts.components.iter().all(|component| component.state == State::Running);
    Ok(if all_run { ExitCode::SUCCESS } else { ExitCode::from(DEGRADED) })
}

fn environment(name: &WorldName) -> Result<ExitCode, WorldError> {
    let cache = Cache::from_environment()?;
    let facts = living(&cache, name)?.ok_or_else(|| WorldError::NotUp(name.clone()))?;
    say(&report::environment(&facts));
    Ok(ExitCode::SUCCESS)
}

/// Replaces this process with a command in the network of a local cluster.
fn execute(arguments: &Exec) -> Result<ExitCode, WorldError> {
    let cache = Cache::from_environment()?;
    let name = &arguments.world.name;
    let facts = living(&cache, name)?.ok_or_else(|| WorldError::NotUp(name.clone()))?;
    facts.enter_network()?;
    let script = report::environment(&facts) + "exec \"$@\"";
    let error =
        std::process::Command::new("/bin/sh").args(["-c", &script, "sh"]).args(&arguments.command).exec();
    Err(WorldError::at("/bin/sh")(error))
}

async fn work(name: WorldName, request: Request) -> Result<ExitCode, WorldError> {
    let cache = Cache::from_environment()?;
    let facts = living(&cache, &name)?.ok_or(WorldError::NotUp(name))?;
    world::request(&facts, &request).await?;
    Ok(ExitCode::SUCCESS)
}

async fn hold(options: Options) -> Result<ExitCode, WorldError> {
    let program = std::env::current_exe().map_err(WorldError::at("/proc/self/exe"))?;
    let world = World::start(Start { options, program: Some(program), ..Start::default() }).await?;
    say(&format!("{}\n", world.facts().folder.display()));
    std::future::pending().await
}

/// Returns the facts of a local cluster whose supervisor runs. Removes the files of a killed supervisor.
fn living(cache: &Cache, name: &WorldName) -> Result<Option<Facts>, WorldError> {
    if let Some(lock) = cache.lock_world(name)? {
        supervisor::remove_remains(cache, name, &lock)?;
        return Ok(None);
    }
    match Facts::read(&cache.world(name)) {
        Err(FactsError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Err(WorldError::InBetween(name.clone()))
        }
        facts => Ok(Some(facts?)),
    }
}

fn say(text: &str) {
    let mut output = io::stdout().lock();
    // An error means that the reader has closed the output.
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

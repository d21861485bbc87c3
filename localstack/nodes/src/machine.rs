//! The inside of a node: the first process of the node's namespaces, which starts all other processes.
//!
//! The process manages `/run`, `/var`, containerd and the kubelet of its node, and reaps child processes whose parents
//! have exited. The process runs while its standard input is open. When the process exits, the kernel kills all other
//! processes of the node. The effect equals a power failure. The process receives [`Wish`]es on standard input. The
//! process answers each request with an [`Answer`] on standard output.
//!
//! The process restarts a kubelet that exits, as an init system does. If containerd exits, the machine stops too.

use std::{
    fs::{self, File},
    io::{self, BufRead, Write},
    iter,
    os::unix::{fs::symlink, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, SyncSender},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use rustix::{
    mount::{MountFlags, mount},
    process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait},
};
use serde::{Deserialize, Serialize};

use crate::{
    cgroup,
    config::SOCKET,
    layout::{NodeOption, Place},
};

/// The timeout for containerd to open its socket.
const START: Duration = Duration::from_secs(60);
/// The pause before a kubelet is restarted after an exit.
const AGAIN: Duration = Duration::from_millis(500);

/// The arguments of a machine.
#[derive(Args, Clone, Debug)]
pub struct MachineArguments {
    /// The node
    #[arg(long, value_name = "NAME=ZONE=IP")]
    pub node: NodeOption,
    /// The folder of all nodes' disks
    #[arg(long)]
    pub folder: PathBuf,
    /// The folder of all logs
    #[arg(long)]
    pub logs: PathBuf,
    /// The name of its cgroup
    #[arg(long)]
    pub cgroup: String,
    /// The folder of `kubelet`, `containerd`, `ctr` and `containerd-shim-runc-v2`
    #[arg(long)]
    pub programs: PathBuf,
    /// Its credentials
    #[arg(long)]
    pub kubeconfig: PathBuf,
    /// A packed image to import before the kubelet starts; may be given several times
    #[arg(long)]
    pub image: Vec<PathBuf>,
}

/// A request to a machine, as a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wish {
    /// Kill the kubelet. The machine then restarts the kubelet.
    RestartKubelet,
    /// Import a packed image.
    Import(PathBuf),
}

/// An answer of a machine, as a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// containerd runs and has the images, and the kubelet was started.
    Started,
    /// The request succeeded.
    Done,
    /// The request failed, or the machine could not start.
    Failed(String),
}

/// Runs a machine until its standard input is closed.
///
/// # Errors
/// The machine failed. The error has the same text as the last [`Answer`].
pub fn run(arguments: &MachineArguments) -> Result<(), MachineError> {
    let outcome = start(arguments).and_then(|mut machine| {
        say(&Answer::Started);
        machine.live()
    });
    if let Err(error) = &outcome {
        say(&Answer::Failed(error.to_string()));
    }
    outcome
}

fn start(arguments: &MachineArguments) -> Result<Machine, MachineError> {
    cgroup::create(&arguments.cgroup).map_err(MachineError::at("/sys/fs/cgroup"))?;
    own_folders()?;
    let place = Place::of(&arguments.folder, &arguments.logs, &arguments.node.name);
    let containerd = start_containerd(arguments, &place)?;
    for image in &arguments.image {
        let status = import(arguments, &place, image)?.wait().map_err(MachineError::at("ctr"))?;
        if !status.success() {
            return Err(MachineError::Import(image.clone(), place.log("ctr")));
        }
    }
    let kubelet = start_kubelet(arguments, &place)?;
    // From now on, only the thread that runs `wait_for_children` may wait for children.
    let (news, events) = mpsc::sync_channel(64);
    spawn("orphans", news.clone(), wait_for_children)?;
    spawn("wishes", news, read_wishes)?;
    Ok(Machine { arguments: arguments.clone(), place, events, containerd, kubelet, importing: None })
}

/// Mounts an empty `/run` and `/var` for the machine. Programs write some files to these folders by default. The files
/// in `/run` and `/var` are on no disk, and other machines cannot see the files.
fn own_folders() -> Result<(), MachineError> {
    for folder in ["/run", "/var"] {
        mount("tmpfs", folder, "tmpfs", MountFlags::NOSUID, None)
            .map_err(|errno| MachineError::at(folder)(errno.into()))?;
    }
    for folder in ["/var/lib", "/var/log", "/var/tmp"] {
        fs::create_dir_all(folder).map_err(MachineError::at(folder))?;
    }
    symlink("/run", "/var/run").map_err(MachineError::at("/var/run"))
}

fn start_containerd(arguments: &MachineArguments, place: &Place) -> Result<Pid, MachineError> {
    let mut command = Command::new(arguments.programs.join("containerd"));
    command.arg("--config").arg(place.containerd_config());
    // containerd searches `PATH` for its shim and for runc.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = iter::once(arguments.programs.clone()).chain(std::env::split_paths(&path));
    let path =
        std::env::join_paths(path).map_err(|error| MachineError::at("PATH")(io::Error::other(error)))?;
    command.env("PATH", path);
    let child = logged(command, &place.log("containerd"))?;
    let deadline = Instant::now() + START;
    while UnixStream::connect(SOCKET).is_err() {
        if Instant::now() > deadline {
            return Err(MachineError::Containerd(place.log("containerd")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(pid(&child))
}

fn start_kubelet(arguments: &MachineArguments, place: &Place) -> Result<Pid, MachineError> {
    let NodeOption { name, zone, ip } = &arguments.node;
    let mut command = Command::new(arguments.programs.join("kubelet"));
    command
        .arg("--config")
        .arg(place.kubelet_config())
        .arg("--kubeconfig")
        .arg(&arguments.kubeconfig)
        .arg("--root-dir")
        .arg(place.kubelet())
        .arg("--cert-dir")
        .arg(place.kubelet().join("pki"))
        .arg(format!("--hostname-override={name}"))
        .arg(format!("--node-ip={ip}"))
        .arg(format!(
            "--node-labels=topology.kubernetes.io/zone={zone},topology.kubernetes.io/region=us-east-1"
        ));
    Ok(pid(&logged(command, &place.log("kubelet"))?))
}

fn import(arguments: &MachineArguments, place: &Place, image: &Path) -> Result<Child, MachineError> {
    let mut command = Command::new(arguments.programs.join("ctr"));
    command.args(["--address", SOCKET, "--namespace", "k8s.io", "images", "import"]).arg(image);
    logged(command, &place.log("ctr"))
}

fn logged(mut command: Command, log: &Path) -> Result<Child, MachineError> {
    let output = File::options().create(true).append(true).open(log).map_err(MachineError::at(log))?;
    let errors = output.try_clone().map_err(MachineError::at(log))?;
    let program = command.get_program().to_owned();
    let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
    child.map_err(MachineError::at(PathBuf::from(program)))
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

struct Machine {
    arguments: MachineArguments,
    place: Place,
    events: Receiver<Event>,
    containerd: Pid,
    kubelet: Pid,
    importing: Option<(Pid, PathBuf)>,
}

enum Event {
    Ended(Pid, WaitStatus),
    Wish(Wish),
    /// Standard input was closed.
    Over,
}

impl Machine {
    fn live(&mut self) -> Result<(), MachineError> {
        while let Ok(event) = self.events.recv() {
            match event {
                Event::Over => break,
                Event::Ended(pid, _) if pid == self.containerd => {
                    return Err(MachineError::Containerd(self.place.log("containerd")));
                }
                Event::Ended(pid, _) if pid == self.kubelet => {
                    thread::sleep(AGAIN);
                    self.kubelet = start_kubelet(&self.arguments, &self.place)?;
                }
                Event::Ended(pid, status) => self.imported(pid, status),
                Event::Wish(Wish::RestartKubelet) => {
                    // The kubelet may have already exited, with the same effect.
                    let _ = kill_process(self.kubelet, Signal::KILL);
                    say(&Answer::Done);
                }
                Event::Wish(Wish::Import(image)) => match import(&self.arguments, &self.place, &image) {
                    Ok(child) => self.importing = Some((pid(&child), image)),
                    Err(error) => say(&Answer::Failed(error.to_string())),
                },
            }
        }
        Ok(())
    }

    fn imported(&mut self, ended: Pid, status: WaitStatus) {
        let Some((_, image)) = self.importing.take_if(|(pid, _)| *pid == ended) else { return };
        say(&if status.exit_status() == Some(0) {
            Answer::Done
        } else {
            Answer::Failed(MachineError::Import(image, self.place.log("ctr")).to_string())
        });
    }
}

fn spawn(name: &str, news: SyncSender<Event>, work: fn(&SyncSender<Event>)) -> Result<(), MachineError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(move || work(&news));
    started.map(|_| ()).map_err(MachineError::at(name))
}

fn wait_for_children(news: &SyncSender<Event>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                if news.send(Event::Ended(pid, status)).is_err() {
                    return;
                }
            }
            // The interrupted call is repeated. The process always has a child, because containerd runs.
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn read_wishes(news: &SyncSender<Event>) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let event = match serde_json::from_str(&line) {
            Ok(wish) => Event::Wish(wish),
            Err(error) => {
                say(&Answer::Failed(format!("{line:?} is no wish of a machine: {error}")));
                continue;
            }
        };
        if news.send(event).is_err() {
            return;
        }
    }
    let _ = news.send(Event::Over);
}

fn say(answer: &Answer) {
    let mut output = io::stdout().lock();
    let line = serde_json::to_string(answer).unwrap_or_default();
    // If the reader has exited, standard input is closed too.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

/// The reason why a machine cannot run.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// containerd exited, or does not listen on its socket.
    #[error("containerd does not serve: see {log}", log = _0.display())]
    Containerd(PathBuf),
    /// An image could not be imported.
    #[error("cannot import {image}: see {log}", image = _0.display(), log = _1.display())]
    Import(PathBuf, PathBuf),
    /// A file, a folder or a program could not be used.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// The path of the file, folder or program.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl MachineError {
    fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

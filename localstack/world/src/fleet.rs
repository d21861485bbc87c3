//! Starts and stops the components of a local cluster in order.
//!
//! The fleet manages the running components. A start returns after the component serves, and a stop returns after its
//! process has exited. The fleet never restarts a component: a failed component remains stopped, so that a person can
//! find the cause. If a start or stop is cancelled, `stop_all` still stops all components.

use std::{collections::BTreeMap, future::Future, path::PathBuf, sync::Arc, time::Duration};

use rustix::process::Signal;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    board::Board,
    child::Running,
    component::Component,
    error::WorldError,
    plan::Plan,
    probe::{Probe, ProbeError},
    tail,
};

/// The timeout for a component to serve. The timeout is long, because tests share machines.
const START: Duration = Duration::from_mins(2);
/// The timeout for a component to exit after SIGTERM. After the timeout, the component is killed.
const STOP: Duration = Duration::from_secs(3);
/// The interval of probes of a component that does not serve yet.
const AGAIN: Duration = Duration::from_millis(50);

/// The method of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// SIGTERM, and SIGKILL after 3 s.
    Orderly,
    /// SIGKILL immediately.
    Kill,
}

/// The components of one local cluster.
pub(crate) struct Fleet {
    plan: Plan,
    board: Arc<Board>,
    probe: Probe,
    running: BTreeMap<Component, Running>,
}

impl Fleet {
    pub(crate) fn new(plan: Plan, board: Arc<Board>, probe: Probe) -> Self {
        Self { plan, board, probe, running: BTreeMap::new() }
    }

    /// Sets the images of pods on real nodes, which are built after the plan is made.
    pub(crate) fn set_images(&mut self, images: Vec<(String, PathBuf)>) {
        self.plan.images = images;
    }

    /// Starts all components of the cluster. Waits until pods can be created and every node is ready.
    pub(crate) async fn start_all(&mut self) -> Result<(), WorldError> {
        // The load balancers do not depend on Kubernetes. Every other step waits for the previous step.
        let steps: [&[Component]; 3] = [
            &[Component::Elbv2, Component::Etcd],
            &[Component::ApiServer],
            &[Component::ControllerManager, Component::Scheduler, Component::Kubelet, Component::Nodes],
        ];
        for step in steps {
            for component in step {
                if self.plan.options.has(*component) {
                    self.spawn(*component)?;
                }
            }
            // No component waits for elbv2.
            for component in step.iter().filter(|component| **component != Component::Elbv2) {
                self.wait_until_it_serves(*component).await?;
            }
        }
        self.wait_until_it_serves(Component::Elbv2).await?;
        self.wait_for_the_cluster().await
    }

    /// Starts a component that does not run, and waits until the component serves.
    pub(crate) async fn start(&mut self, component: Component) -> Result<(), WorldError> {
        if !self.plan.options.has(component) {
            return Err(WorldError::LeftOut(component));
        }
        if let Some(running) = self.running.get(&component)
            && running.process().is_alive()
        {
            return Err(WorldError::AlreadyRuns(component));
        }
        self.spawn(component)?;
        self.wait_until_it_serves(component).await
    }

    /// Stops a component, and waits until its process has exited. Does nothing if the component does not run.
    pub(crate) async fn stop(&mut self, component: Component, ending: Ending) -> Result<(), WorldError> {
        if !self.plan.options.has(component) {
            return Err(WorldError::LeftOut(component));
        }
        let Some(running) = self.running.get(&component).cloned() else { return Ok(()) };
        self.board.stopping(component);
        if ending == Ending::Orderly {
            running.signal(Signal::TERM).await;
            if timeout(STOP, running.ended()).await.is_err() {
                tracing::warn!(%component, "did not end within {} s of SIGTERM: killing it", STOP.as_secs());
            }
        }
        running.signal(Signal::KILL).await;
        let status = running.ended().await;
        self.board.ended(component, running.process(), status);
        self.running.remove(&component);
        tracing::info!(%component, "stopped");
        Ok(())
    }

    /// Stops all components in the reverse order of the start.
    pub(crate) async fn stop_all(&mut self) {
        let components: Vec<Component> = self.plan.options.components().collect();
        for component in components.into_iter().rev() {
            if let Err(error) = self.stop(component, Ending::Orderly).await {
                tracing::error!(%component, %error, "cannot be stopped");
            }
        }
    }

    fn spawn(&mut self, component: Component) -> Result<(), WorldError> {
        let command = self.plan.command_line(component);
        if !command.program.is_file() {
            return Err(WorldError::NoProgram { component, program: command.program });
        }
        let running = Running::start(&command, &self.plan.log(component), component.announces_itself())
            .map_err(|source| WorldError::Spawn { component, source })?;
        tracing::info!(%component, pid = running.process().pid, "started");
        self.board.started(component, running.process());
        tokio::spawn(report_end(Arc::clone(&self.board), component, running.clone()));
        self.running.insert(component, running);
        Ok(())
    }

    async fn wait_until_it_serves(&self, component: Component) -> Result<(), WorldError> {
        let Some(running) = self.running.get(&component) else { return Ok(()) };
        let address = self.plan.address(component);
        let serves = async {
            if component.announces_itself() {
                running.announced().await;
                return Ok(());
            }
            until(START, || self.probe.serves(component, address)).await
        };
        let outcome = tokio::select! {
            outcome = timeout(START, serves) => outcome.unwrap_or(Err(None)),
            status = running.ended() => {
                let how = status.map_or_else(|| "gone".to_owned(), |status| status.to_string());
                return Err(self.did_not_start(component, format!("its process ended ({how})")));
            }
        };
        match outcome {
            Ok(()) => {
                self.board.serves(component, running.process());
                Ok(())
            }
            Err(last) => {
                let last =
                    last.map_or_else(|| "it did not say that it is ready".to_owned(), |e| e.to_string());
                Err(self.did_not_start(component, format!("after {} s: {last}", START.as_secs())))
            }
        }
    }

    async fn wait_for_the_cluster(&self) -> Result<(), WorldError> {
        if self.plan.options.has(Component::ControllerManager) {
            let namespace = until(START, || self.probe.default_namespace()).await;
            namespace.map_err(|last| {
                self.no_cluster(Component::ControllerManager, "no default ServiceAccount", last)
            })?;
        }
        let nodes = [Component::Kubelet, Component::Nodes];
        if let Some(nodes_of) = nodes.into_iter().find(|component| self.plan.options.has(*component)) {
            let wanted = self.plan.network.zones.iter().map(|zone| zone.nodes.len()).sum();
            let nodes = until(START, || self.probe.nodes(wanted)).await;
            nodes.map_err(|last| self.no_cluster(nodes_of, "not all nodes are ready", last))?;
        }
        Ok(())
    }

    fn no_cluster(&self, component: Component, what: &str, last: Option<ProbeError>) -> WorldError {
        let last = last.map(|error| format!(" ({error})")).unwrap_or_default();
        self.did_not_start(component, format!("after {} s: {what}{last}", START.as_secs()))
    }

    fn did_not_start(&self, component: Component, reason: String) -> WorldError {
        let log = self.plan.log(component);
        WorldError::DidNotStart { component, reason, tail: tail::tail(&log), log }
    }
}

/// Waits until a component exits, and reports the exit to the board.
async fn report_end(board: Arc<Board>, component: Component, running: Running) {
    let status = running.ended().await;
    board.ended(component, running.process(), status);
}

/// Repeats a probe until it succeeds. Returns the last error after `patience`.
async fn until<F>(patience: Duration, question: impl Fn() -> F) -> Result<(), Option<ProbeError>>
where
    F: Future<Output = Result<(), ProbeError>>,
{
    let deadline = Instant::now() + patience;
    loop {
        match question().await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= deadline => return Err(Some(error)),
            Err(_) => sleep(AGAIN).await,
        }
    }
}

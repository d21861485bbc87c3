//! The states of a cluster's components, which all parts of the supervisor share.
//!
//! The board stores the current [`Facts`] in memory and on disk, and distinguishes requested stops from failures.

use std::{
    process::ExitStatus,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::{
    component::{Component, State},
    facts::{ComponentFacts, Facts},
    process::Process,
    tail,
};

/// The states of a cluster's components.
#[derive(Debug)]
pub(crate) struct Board {
    facts: Mutex<Facts>,
    failure: watch::Sender<Option<Component>>,
}

impl Board {
    pub(crate) fn new(facts: Facts) -> Self {
        let board = Self { facts: Mutex::new(facts), failure: watch::Sender::new(None) };
        board.change(|_| {});
        board
    }

    /// Returns a copy of the current facts.
    pub(crate) fn facts(&self) -> Facts {
        self.lock().clone()
    }

    /// Records that the cluster is ready and has this version of Kubernetes.
    pub(crate) fn ready(&self, kubernetes_version: String) {
        self.change(|facts| {
            facts.ready = true;
            facts.kubernetes_version = kubernetes_version;
        });
    }

    /// Records a new process of a component.
    pub(crate) fn started(&self, component: Component, process: Process) {
        self.change_component(component, |facts| {
            facts.process = Some(process);
            facts.state = State::Starting;
            facts.ended = None;
        });
    }

    /// Records that a component serves, unless a newer process of the component exists.
    pub(crate) fn serves(&self, component: Component, process: Process) {
        self.change_component(component, |facts| {
            if facts.process == Some(process) && facts.state == State::Starting {
                facts.state = State::Running;
            }
        });
    }

    /// Records the request to stop a component.
    pub(crate) fn stopping(&self, component: Component) {
        self.change_component(component, |facts| {
            if matches!(facts.state, State::Starting | State::Running) {
                facts.state = State::Stopping;
            }
        });
    }

    /// Records that a process of a component has exited. Without a request to stop, the exit is a failure, which is
    /// logged with the last lines of the component's log.
    pub(crate) fn ended(&self, component: Component, process: Process, status: Option<ExitStatus>) {
        let how = status.map_or_else(|| "gone".to_owned(), |status| status.to_string());
        let mut failed = None;
        self.change_component(component, |facts| {
            // Both the task that waits for the process and the code that stops the process report the exit.
            if facts.process != Some(process) || facts.ended.is_some() {
                return;
            }
            facts.ended = Some(how.clone());
            if facts.state == State::Stopping {
                facts.state = State::Stopped;
            } else {
                facts.state = State::Failed;
                failed = Some(facts.log.clone());
            }
        });
        if let Some(log) = failed {
            tracing::error!(%component, ended = how, "a component ended by itself; its log ends with:\n{}", tail::tail(&log));
            self.failure.send_replace(Some(component));
        }
    }

    /// Waits for the first failure of a component.
    pub(crate) async fn failure(&self) -> Component {
        let mut failure = self.failure.subscribe();
        loop {
            if let Some(component) = *failure.borrow_and_update() {
                return component;
            }
            if failure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn change_component(&self, component: Component, change: impl FnOnce(&mut ComponentFacts)) {
        self.change(|facts| {
            if let Some(facts) = facts.components.iter_mut().find(|facts| facts.name == component) {
                change(facts);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Facts)) {
        let mut facts = self.lock();
        change(&mut facts);
        if let Err(error) = facts.write() {
            tracing::error!(%error, "cannot write world.json");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        // A panic cannot leave the data in a half-changed state, because all changes are assignments.
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Plan, tests::plan},
        testing::{ScratchFolder, scratch_folder},
    };

    const SOME: Process = Process { pid: 11, born: 1 };
    const LATER: Process = Process { pid: 12, born: 2 };

    fn board() -> (Board, ScratchFolder) {
        let folder = scratch_folder();
        let plan = Plan { folder: folder.path().to_path_buf(), ..plan() };
        (Board::new(Facts::of(&plan, Process::current())), folder)
    }

    fn state(board: &Board) -> State {
        board.facts().components[0].state
    }

    #[test]
    fn an_end_that_was_asked_for_is_no_failure() {
        let (board, _folder) = board();
        board.started(Component::Etcd, SOME);
        board.serves(Component::Etcd, SOME);
        assert_eq!(state(&board), State::Running);
        board.stopping(Component::Etcd);
        board.ended(Component::Etcd, SOME, None);
        board.ended(Component::Etcd, SOME, None);
        assert_eq!(state(&board), State::Stopped);
        assert_eq!(*board.failure.borrow(), None);
    }

    #[test]
    fn an_end_that_nobody_asked_for_is_a_failure() {
        let (board, _folder) = board();
        board.started(Component::Etcd, SOME);
        board.ended(Component::Etcd, SOME, None);
        assert_eq!(state(&board), State::Failed);
        assert_eq!(*board.failure.borrow(), Some(Component::Etcd));
    }

    #[test]
    fn news_of_an_earlier_process_do_not_concern_the_present_one() {
        let (board, _folder) = board();
        board.started(Component::Etcd, SOME);
        board.started(Component::Etcd, LATER);
        board.serves(Component::Etcd, SOME);
        board.ended(Component::Etcd, SOME, None);
        assert_eq!(state(&board), State::Starting);
    }

    #[test]
    fn every_change_is_on_disk_at_once() {
        let (board, folder) = board();
        board.started(Component::Etcd, SOME);
        assert_eq!(Facts::read(folder.path()).unwrap(), board.facts());
    }
}

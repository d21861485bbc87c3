//! The sets and nodes that there are, by chance or not.

use std::{sync::Arc, time::Duration};

use headgate_daemonset::model::{Amount, Handshake, SetNode, SetSpec, Strategy, Wait};

/// How a set is rolled where nothing goes wrong but that the controller is killed.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// Two pods on each node, and a third one in a node's turn.
    Surge,
    /// One, and a second one.
    SurgeOfOne,
    /// Two, and one less.
    InPlace,
    /// Both at once.
    NodeReplace,
    /// As the first, when others have detached the node.
    Detached,
}

impl Way {
    pub const ALL: [Self; 5] =
        [Self::Surge, Self::SurgeOfOne, Self::InPlace, Self::NodeReplace, Self::Detached];

    /// So it is.
    pub fn apply(self, spec: &mut SetSpec) {
        spec.pods_per_node = if matches!(self, Self::SurgeOfOne) { 1 } else { 2 };
        spec.strategy = match self {
            Self::InPlace => Strategy::RollingUpdate { surge: 0, unavailable: 1 },
            Self::NodeReplace => Strategy::NodeReplace,
            _ => Strategy::RollingUpdate { surge: 1, unavailable: 0 },
        };
        spec.nodes_at_once = Amount::Number(2);
        // Detached: with a grace period.
        spec.handshake = matches!(self, Self::Detached).then(|| Arc::new(detaching()));
    }
}

/// A node in one of three zones.
pub fn node(at: usize) -> SetNode {
    let zone = ["a", "b", "c"][at % 3];
    SetNode { name: format!("{zone}{at}").into(), zone: zone.into(), ready: true, ..SetNode::default() }
}

/// What others are asked to do in a turn, in some worlds.
pub fn handshake(rng: &mut fastrand::Rng) -> Option<Handshake> {
    match rng.u8(..6) {
        0 => Some(Handshake { wait: None, ..detaching() }),
        1 => Some(detaching()),
        _ => None,
    }
}

/// Nodes are to be detached first, and that is waited for.
fn detaching() -> Handshake {
    let wait = Wait { key: "example.com/detached-at".into(), grace: Duration::from_secs(10) };
    Handshake { key: "example.com/detach".into(), value: "edge".into(), wait: Some(wait) }
}

/// How a set rolls, by chance.
pub fn vary(rng: &mut fastrand::Rng, spec: &mut SetSpec) {
    spec.pods_per_node = rng.usize(1..4);
    spec.strategy = match rng.u8(..8) {
        0 => Strategy::NodeReplace,
        1 => Strategy::OnDelete,
        2 => Strategy::RollingUpdate { surge: 0, unavailable: 1 },
        3 => Strategy::RollingUpdate { surge: 2, unavailable: 1 },
        _ => Strategy::RollingUpdate { surge: 1, unavailable: 0 },
    };
    spec.nodes_at_once = match rng.u8(..3) {
        0 => Amount::Percent(50),
        1 => Amount::Number(2),
        _ => Amount::Number(1),
    };
}

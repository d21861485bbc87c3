//! Decides which pod has which IP address.
//!
//! The status of a pod can show an address that the pod has lost. For example, the pods of a dead node remain in the
//! API for minutes, and the VPC assigns their addresses again in that time. Also, anyone who may write the status of a
//! pod can add the address of another pod. Each kubelet may write the status of all pods on its node. If several pods
//! show the same address, exactly one of these pods has the address:
//!
//! * **On one node**, the pod that was last to show the address has it immediately. A kubelet can write only about the
//!   pods of its own node (Kubernetes: NodeRestriction). The kubelet assigns the address of a terminated pod to the
//!   next pod.
//! * **Between nodes**, a pod keeps its address until the pod has terminated or is deleted, or until its status reports
//!   a deleted sandbox. A pod also loses its address when its node is deleted or has not been ready for a
//!   while. The kubelet of another node cannot write any of these facts. The pods of one node take over at most
//!   [`MOST`] addresses per minute from pods of other nodes; further pods wait.
//! * **Pods of the host network** share the address of their node. Another pod of that node never takes the address
//!   over.
//! * If a pod was already terminating when it was first seen with an address, it takes the address from no other pod. A
//!   list does not show which of two pods had the address first.
//!
//! The pod with the address need not be bound, and may be terminating or deregistered for its eviction. A list does not
//! show which pod has an address, so a new leader reads the ledgers first ([`Addresses::had`]).
//!
//! **Caveat.** Kubernetes reports a dead node as ready for 40 to 50 s. A pod on another node that gets an address of
//! the dead node must wait for up to 50 s.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use crate::{
    agenda::Agenda,
    model::{Cause, Moment, ObjectKey, PodFacts, changes::Contest, node::Presence},
};

/// The maximum number of addresses that the pods of one node take over from pods of other nodes within [`WINDOW`]. The
/// maximum exceeds the 16 addresses of a VPC prefix.
const MOST: u8 = 20;
const WINDOW: Duration = Duration::from_secs(60);

#[allow(clippy::struct_excessive_bools)] // Each field is an independent fact.
#[derive(Clone, Debug)]
struct Tenant {
    pod: ObjectKey,
    node: Option<Arc<str>>,
    host_network: bool,
    /// Whether the pod was not yet terminating when it was first seen with the address.
    came_alive: bool,
    /// Whether the pod's status reports that the pod has stopped or has no sandbox, and therefore has no address.
    is_down: bool,
    /// Whether the node was deleted after the pod was created.
    node_is_gone: bool,
    holds: bool,
    /// Whether this pod waits because a pod of another node had the address first.
    waits: bool,
}

impl Tenant {
    fn new(pod: &PodFacts) -> Self {
        Self {
            pod: pod.key.clone(),
            node: pod.node.clone(),
            host_network: pod.host_network,
            came_alive: !pod.terminating,
            is_down: pod.stopped || !pod.has_sandbox,
            node_is_gone: false,
            holds: false,
            waits: false,
        }
    }

    const fn shares_with(&self, other: &Self) -> bool {
        self.host_network && other.host_network
    }
}

/// Whether a later pod gets the address.
enum Takes {
    AtOnce,
    /// The pod gets the address, and the take-over counts against the limit of the pod's node.
    Over,
    Nothing,
}

/// See the module docs.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    /// For each address, the pods whose status shows the address, in the order in which they were first seen with it.
    /// One of the pods has the address.
    tenants: BTreeMap<IpAddr, Vec<Tenant>>,
    shared: BTreeSet<IpAddr>,
    /// The nodes that have not been ready for a while.
    lost: BTreeSet<Arc<str>>,
    /// The number of pods on deleted nodes.
    of_gone_nodes: usize,
    /// For each node, the time at which the current window started, and the number of addresses that its pods took over
    /// since then.
    taken: BTreeMap<Option<Arc<str>>, (Moment, u8)>,
    /// The addresses whose take-over waits because the node has reached its limit.
    waiting: Agenda<Moment, IpAddr>,
    /// The number of pods that wait for an address.
    contested: usize,
    /// The pods that started to wait after the last call of [`Self::take_contests`].
    contests: Vec<Contest>,
}

impl Addresses {
    /// Updates a pod that had the addresses `had`. `None`: the pod was deleted. Returns the other pods that may have
    /// lost or gained an address.
    pub fn moved(
        &mut self,
        pod: &ObjectKey,
        had: &[IpAddr],
        now: Option<&PodFacts>,
        seen: Moment,
    ) -> BTreeSet<ObjectKey> {
        let now = now.filter(|facts| !facts.finished);
        let has = now.map_or(&[][..], |facts| &facts.ips);
        let mut rivals = BTreeSet::new();
        for ip in had.iter().filter(|ip| !has.contains(ip)) {
            let Some(tenants) = self.tenants.get_mut(ip) else { continue };
            let Some(place) = tenants.iter().position(|tenant| tenant.pod == *pod) else { continue };
            let own = tenants.remove(place);
            self.contested -= usize::from(own.waits);
            self.of_gone_nodes -= usize::from(own.node_is_gone);
            rivals.extend(apart_from(&own, tenants));
            if tenants.len() < 2 {
                self.shared.remove(ip);
            }
            if tenants.is_empty() {
                self.tenants.remove(ip);
            }
            rivals.append(&mut self.settle(ip, seen));
        }
        for (facts, ip) in now.iter().flat_map(|facts| facts.ips.iter().map(move |ip| (facts, ip))) {
            let tenants = self.tenants.entry(*ip).or_default();
            let own = Tenant::new(facts);
            match tenants.iter_mut().find(|tenant| tenant.pod == *pod) {
                Some(known) if (known.is_down, &known.node) == (own.is_down, &own.node) => continue,
                Some(known) => (known.is_down, known.node) = (own.is_down, own.node),
                None => {
                    rivals.extend(apart_from(&own, tenants));
                    tenants.push(own);
                }
            }
            if tenants.len() > 1 {
                self.shared.insert(*ip);
            }
            rivals.append(&mut self.settle(ip, seen));
        }
        rivals
    }

    /// Records the presence of a node. Returns the pods whose addresses may have changed.
    pub fn node_is(&mut self, node: &Arc<str>, presence: Presence, seen: Moment) -> BTreeSet<ObjectKey> {
        let was_lost = self.lost.remove(node);
        match presence {
            Presence::Lost => _ = self.lost.insert(node.clone()),
            Presence::Gone => self.note_gone(node, true),
            Presence::Well if self.of_gone_nodes > 0 => self.note_gone(node, false),
            Presence::Well => {}
        }
        let mut rivals = BTreeSet::new();
        if presence != Presence::Well && !(was_lost && presence == Presence::Lost) {
            for ip in self.shared.clone() {
                rivals.append(&mut self.settle(&ip, seen));
            }
        }
        rivals
    }

    /// Records whether the node of these pods was deleted. Headgate does not store node names without pods.
    fn note_gone(&mut self, node: &Arc<str>, gone: bool) {
        let tenants = self.tenants.values_mut().flatten();
        for tenant in tenants.filter(|it| it.node.as_ref() == Some(node) && it.node_is_gone != gone) {
            tenant.node_is_gone = gone;
            self.of_gone_nodes = if gone { self.of_gone_nodes + 1 } else { self.of_gone_nodes - 1 };
        }
    }

    /// Records that a ledger lists `pod` with this address. The pod then has priority over pods of other nodes that
    /// show the address.
    pub fn had(&mut self, ip: &IpAddr, pod: &ObjectKey, seen: Moment) -> BTreeSet<ObjectKey> {
        let Some(tenants) = self.tenants.get_mut(ip).filter(|tenants| tenants.len() > 1) else {
            return BTreeSet::new();
        };
        let Some(own) = tenants.iter().find(|tenant| tenant.pod == *pod) else { return BTreeSet::new() };
        let node = own.node.clone();
        tenants.sort_by_key(|tenant| tenant.node != node);
        for tenant in tenants.iter_mut() {
            tenant.holds = tenant.pod == *pod;
        }
        let mut rivals: BTreeSet<ObjectKey> = tenants.iter().map(|tenant| tenant.pod.clone()).collect();
        rivals.append(&mut self.settle(ip, seen));
        rivals
    }

    /// Advances the time. Returns the pods whose addresses may have changed.
    pub fn pass(&mut self, now: Moment) -> BTreeSet<ObjectKey> {
        let mut rivals = BTreeSet::new();
        while let Some(ip) = self.waiting.take(now) {
            rivals.append(&mut self.settle(&ip, now));
        }
        rivals
    }

    /// The time at which [`Addresses::pass`] next needs to run.
    pub fn next_due(&self) -> Option<Moment> {
        self.waiting.next_due()
    }

    /// Decides which pod has an address. If another pod has the address now, returns all pods that show the address.
    fn settle(&mut self, ip: &IpAddr, now: Moment) -> BTreeSet<ObjectKey> {
        self.waiting.put(ip, None);
        let Self { tenants, lost, taken, waiting, contests, contested, .. } = self;
        let Some(tenants) = tenants.get_mut(ip) else { return BTreeSet::new() };
        let before = tenants.iter().position(|tenant| tenant.holds);
        let first = || tenants.iter().position(|tenant| tenant.came_alive).unwrap_or_default();
        let mut holder = before.unwrap_or_else(first);
        for place in holder + 1..tenants.len() {
            match takes(&tenants[place], &tenants[holder], lost) {
                Takes::Nothing => {}
                Takes::AtOnce => holder = place,
                Takes::Over => match turn(taken, tenants[place].node.as_ref(), now) {
                    None => holder = place,
                    Some(due) => waiting.hasten(ip, due),
                },
            }
        }
        let held = tenants[holder].clone();
        for (place, tenant) in tenants.iter_mut().enumerate() {
            tenant.holds = place == holder;
            let waits = place > holder && tenant.came_alive && !tenant.shares_with(&held);
            if waits && !tenant.waits {
                let (holder, waits) = (held.pod.clone(), tenant.pod.clone());
                contests.push(Contest { ip: *ip, holder, waits });
            }
            *contested = *contested + usize::from(waits) - usize::from(tenant.waits);
            tenant.waits = waits;
        }
        if before == Some(holder) {
            return BTreeSet::new();
        }
        tenants.iter().map(|tenant| tenant.pod.clone()).collect()
    }

    /// Returns the other pod that has this address, if any. The cause states whether that pod received the address
    /// later or had it first.
    pub fn taken_by(&self, ip: &IpAddr, pod: &ObjectKey) -> Option<(&ObjectKey, Cause)> {
        let tenants = self.tenants.get(ip)?;
        let own = tenants.iter().find(|tenant| tenant.pod == *pod)?;
        let holder = tenants.iter().find(|tenant| tenant.holds)?;
        let is_own = own.holds || own.shares_with(holder);
        let cause = if own.waits { Cause::AddressContested } else { Cause::IpChanged };
        (!is_own).then_some((&holder.pod, cause))
    }

    /// The pods whose status shows this address, in the order in which they were first seen with it.
    pub fn tenants(&self, ip: &IpAddr) -> impl Iterator<Item = &ObjectKey> {
        self.tenants.get(ip).into_iter().flatten().map(|tenant| &tenant.pod)
    }

    pub fn contests(&self) -> impl Iterator<Item = Contest> {
        self.shared.iter().flat_map(|ip| {
            let tenants = self.tenants.get(ip).map_or(&[][..], Vec::as_slice);
            let holder = tenants.iter().find(|tenant| tenant.holds);
            let waiting = tenants.iter().filter(|tenant| tenant.waits);
            waiting.filter_map(move |waits| {
                Some(Contest { ip: *ip, holder: holder?.pod.clone(), waits: waits.pod.clone() })
            })
        })
    }

    /// Returns the pods that started to wait for an address after the last call.
    pub fn take_contests(&mut self) -> Vec<Contest> {
        std::mem::take(&mut self.contests)
    }

    pub const fn contested(&self) -> usize {
        self.contested
    }
}

/// The other pods, except pods that share the address with this pod through the host network.
fn apart_from(own: &Tenant, others: &[Tenant]) -> impl Iterator<Item = ObjectKey> {
    others.iter().filter(|other| !own.shares_with(other)).map(|other| other.pod.clone())
}

/// Decides whether `later` takes the address over from `holder`.
fn takes(later: &Tenant, holder: &Tenant, lost: &BTreeSet<Arc<str>>) -> Takes {
    if !later.came_alive || later.shares_with(holder) {
        return Takes::Nothing;
    }
    let is_lost = holder.node_is_gone || holder.node.as_ref().is_some_and(|node| lost.contains(node));
    match later.node == holder.node {
        _ if !holder.came_alive => Takes::AtOnce,
        true if holder.host_network => Takes::Nothing,
        true => Takes::AtOnce,
        false if holder.is_down || is_lost => Takes::Over,
        false => Takes::Nothing,
    }
}

/// Counts a take-over by a pod of this node. If the node has reached its limit, returns the time at which the pod may
/// take the address over.
fn turn(
    taken: &mut BTreeMap<Option<Arc<str>>, (Moment, u8)>,
    node: Option<&Arc<str>>,
    now: Moment,
) -> Option<Moment> {
    taken.retain(|_, (since, _)| now < *since + WINDOW);
    let (since, count) = taken.entry(node.cloned()).or_insert((now, 0));
    if *count >= MOST {
        return Some(*since + WINDOW);
    }
    *count += 1;
    None
}

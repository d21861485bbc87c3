//! Who has which address.
//!
//! **An address is the pod's that got it last**, for as long as that pod has not finished and is not gone. The status of
//! a pod goes on carrying an address that it has lost: the pods of a node that died stay for minutes, and the VPC gives
//! their addresses away meanwhile. So it does not matter what the later pod is: whether anything binds it, whether it is
//! terminating, or is taken out for its eviction. Pods of the host network share the address of their node honestly. A
//! pod that had begun to terminate before it was seen with an address takes it from nobody: a list does not say which of
//! the two had it first.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::model::{ObjectKey, PodFacts};

#[derive(Clone, Debug)]
struct Tenant {
    pod: ObjectKey,
    host_network: bool,
    /// It was not terminating when it was seen with the address first.
    came_alive: bool,
}

impl Tenant {
    const fn shares_with(&self, other: &Self) -> bool {
        self.host_network && other.host_network
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    /// The pods whose status carries an address, in the order in which they got it.
    tenants: BTreeMap<IpAddr, Vec<Tenant>>,
}

impl Addresses {
    /// A pod that had the addresses `had` looks like this now; `None`: it is gone. Gives the others whose addresses may
    /// be theirs no more for that, or theirs again.
    pub fn moved(&mut self, pod: &ObjectKey, had: &[IpAddr], now: Option<&PodFacts>) -> BTreeSet<ObjectKey> {
        let now = now.filter(|facts| !facts.finished);
        let has = now.map_or(&[][..], |facts| &facts.ips);
        let mut rivals = BTreeSet::new();
        let mut note = |own: &Tenant, others: &[Tenant]| {
            rivals
                .extend(others.iter().filter(|other| !own.shares_with(other)).map(|other| other.pod.clone()));
        };
        for ip in had.iter().filter(|ip| !has.contains(ip)) {
            let Some(tenants) = self.tenants.get_mut(ip) else { continue };
            let Some(place) = tenants.iter().position(|tenant| tenant.pod == *pod) else { continue };
            let own = tenants.remove(place);
            note(&own, tenants);
            if tenants.is_empty() {
                self.tenants.remove(ip);
            }
        }
        for (facts, ip) in now.iter().flat_map(|facts| facts.ips.iter().map(move |ip| (facts, ip))) {
            let tenants = self.tenants.entry(*ip).or_default();
            if !tenants.iter().any(|tenant| tenant.pod == *pod) {
                let (host_network, came_alive) = (facts.host_network, !facts.terminating);
                let own = Tenant { pod: pod.clone(), host_network, came_alive };
                note(&own, tenants);
                tenants.push(own);
            }
        }
        rivals
    }

    /// The pod that has got this address since `pod` did.
    pub fn taken_by(&self, ip: &IpAddr, pod: &ObjectKey) -> Option<&ObjectKey> {
        let tenants = self.tenants.get(ip)?;
        let place = tenants.iter().position(|tenant| tenant.pod == *pod)?;
        let (own, later) = (tenants.get(place)?, tenants.get(place + 1..)?);
        let takes = |other: &&Tenant| other.came_alive && !own.shares_with(other);
        later.iter().rev().find(takes).map(|other| &other.pod)
    }

    /// The pods whose status carries this address, in the order in which they got it.
    pub fn tenants(&self, ip: &IpAddr) -> impl Iterator<Item = &ObjectKey> {
        self.tenants.get(ip).into_iter().flatten().map(|tenant| &tenant.pod)
    }
}

//! Who has which address, worked out anew from all pods whenever anything was said.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use super::{Oracle, Pods, Told};
use headgate_core::{
    ledger::PodMark,
    model::{Moment, Uid},
};

/// So many addresses the pods of a node take over within a minute.
const MOST: u8 = 20;
const MINUTE: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub struct Addresses {
    /// Who shows each address, in the order in which they came to.
    shown: BTreeMap<IpAddr, Vec<Uid>>,
    holders: BTreeMap<IpAddr, Uid>,
    /// The nodes that have not been ready for too long.
    lost: BTreeSet<Arc<str>>,
    taken: BTreeMap<Option<Arc<str>>, (Moment, u8)>,
    /// What has occurred.
    seen: Vec<&'static str>,
}

/// Whether `later` may have what `holder` has: at once (`false`), or as a take-over.
fn may_take(later: &Told, holder: &Told, lost: &BTreeSet<Arc<str>>) -> Option<bool> {
    if later.order == 0 {
        return None;
    }
    if holder.order == 0 || later.facts.node == holder.facts.node {
        return Some(false);
    }
    let node_is_lost = holder.facts.node.as_ref().is_some_and(|node| lost.contains(node));
    let has_lost = !holder.facts.has_sandbox || holder.facts.stopped || holder.node_gone || node_is_lost;
    has_lost.then_some(true)
}

impl Pods {
    /// Whether another pod has the IP of this one.
    pub fn has_lost_its_ip(&self, pod: &Told) -> bool {
        let others = |ip| self.addresses.holders.get(ip).is_some_and(|holder| *holder != pod.facts.uid);
        !pod.facts.finished && pod.facts.ips.iter().any(others)
    }

    /// The nodes that count as lost.
    pub(super) fn lost(&self) -> &BTreeSet<Arc<str>> {
        &self.addresses.lost
    }

    /// These nodes have not been ready for too long.
    pub(super) fn lost_nodes(&mut self, lost: BTreeSet<Arc<str>>, now: Moment) {
        if self.addresses.lost != lost {
            self.addresses.lost = lost;
            self.judge_addresses(now);
        }
    }

    /// This node is gone, or well again.
    pub(super) fn node_is_gone(&mut self, node: &Arc<str>, gone: bool, now: Moment) {
        let here = self.all.values_mut().filter(|pod| pod.facts.node.as_ref() == Some(node));
        here.filter(|pod| !pod.facts.ips.is_empty() && !pod.facts.finished)
            .for_each(|pod| pod.node_gone = gone);
        self.judge_addresses(now);
    }

    /// The ledgers say that this pod had this address.
    fn had(&mut self, ip: &IpAddr, mark: PodMark, now: Moment) {
        let all: BTreeMap<&Uid, &Told> = self.all.values().map(|pod| (&pod.facts.uid, pod)).collect();
        let Some(shown) = self.addresses.shown.get_mut(ip).filter(|shown| shown.len() > 1) else { return };
        let Some(own) = shown.iter().find(|uid| PodMark::of(uid) == mark).cloned() else { return };
        let node = |uid: &Uid| all.get(uid).and_then(|pod| pod.facts.node.clone());
        let its = node(&own);
        let (here, elsewhere): (Vec<Uid>, Vec<Uid>) = shown.drain(..).partition(|uid| node(uid) == its);
        shown.extend(here.into_iter().chain(elsewhere));
        self.addresses.holders.insert(*ip, own);
        self.judge_addresses(now);
    }

    /// Decides who has each address; says whether anybody has another one than before.
    pub(super) fn judge_addresses(&mut self, now: Moment) -> bool {
        let before = self.addresses.holders.clone();
        let Self { all, addresses, .. } = self;
        let Addresses { shown, holders, lost, taken, seen } = addresses;
        taken.retain(|_, (since, _)| now < *since + MINUTE);
        let all: BTreeMap<&Uid, &Told> = all.values().map(|pod| (&pod.facts.uid, pod)).collect();
        let shows = |uid: &Uid, ip: &IpAddr| {
            all.get(uid).is_some_and(|pod| !pod.facts.finished && pod.facts.ips.contains(ip))
        };
        for (ip, there) in shown.iter_mut() {
            there.retain(|uid| shows(uid, ip));
        }
        for (uid, pod) in all.iter().filter(|(_, pod)| !pod.facts.finished) {
            for ip in &pod.facts.ips {
                let there = shown.entry(*ip).or_default();
                if !there.contains(uid) {
                    there.push((*uid).clone());
                }
            }
        }
        shown.retain(|_, there| !there.is_empty());
        holders.retain(|ip, _| shown.contains_key(ip));
        for (ip, there) in &*shown {
            let holds = holders.get(ip).and_then(|holder| there.iter().position(|uid| uid == holder));
            let first = || there.iter().position(|uid| all[uid].order > 0).unwrap_or_default();
            let mut holder = holds.unwrap_or_else(first);
            for place in holder + 1..there.len() {
                match may_take(all[&there[place]], all[&there[holder]], lost) {
                    None if all[&there[place]].order > 0 => seen.push("address: contested"),
                    None => {}
                    Some(false) => {
                        seen.push("address: another pod of the node gets it");
                        holder = place;
                    }
                    Some(true) => {
                        let node = all[&there[place]].facts.node.clone();
                        let (_, count) = taken.entry(node).or_insert((now, 0));
                        if *count < MOST {
                            *count += 1;
                            seen.push("address: taken over");
                            holder = place;
                        }
                    }
                }
            }
            holders.insert(*ip, there[holder].clone());
        }
        self.addresses.holders != before
    }
}

impl Oracle {
    /// The replica has loaded ledgers that say this.
    pub fn ledgers_say(&mut self, had: &[(IpAddr, PodMark)], now: Moment) {
        for (ip, mark) in had {
            self.pods.had(ip, *mark, now);
        }
        self.claim(true);
    }

    /// What has occurred about addresses.
    pub(super) fn seen_of_addresses(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.pods.addresses.seen)
    }

    /// Whether other pods of the node of this one show one of its addresses.
    pub fn shares_with_its_node(&self, pod: &Told) -> bool {
        self.all_pods().any(|other| {
            other.facts.uid != pod.facts.uid
                && other.facts.node == pod.facts.node
                && other.facts.ips.iter().any(|ip| pod.facts.ips.contains(ip))
        })
    }
}

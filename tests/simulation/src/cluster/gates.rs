//! The readiness gates of pods: who has one, what is expected of whom, and what becomes of the condition.

use super::{Cluster, IPS, lives};
use crate::{cluster::Part, cluster::parts, words::gone, words::ip};
use headgate_core::model::{
    Change, Failure, GateFacts, Labels, ObjectKey, PodFacts, TargetPort,
    expected::Expected,
    gate::{GateWrite, Shown},
    target_binding::Pods,
};

impl Cluster {
    /// The gate of a new pod, with the bindings that its webhook expects, if it knows any; some pods have none.
    pub(super) fn gate(&self, app: &str, rng: &mut fastrand::Rng) -> Option<Box<GateFacts>> {
        let expected: Option<Box<str>> = match rng.u8(0..12) {
            0..=2 => return None,
            3..=6 => None,
            7 => Some("oops".into()),
            8 => Some("blue:8080,later:8080".into()),
            _ => Some(self.expected(app)).filter(|expected| !expected.is_empty()).map(Into::into),
        };
        Some(Box::new(GateFacts { expected, ..GateFacts::default() }))
    }

    /// What binds pods of this app now.
    fn expected(&self, app: &str) -> String {
        let labels = Labels::from_iter([("app", app)]);
        let groups = |text: &str| {
            parts(text)
                .iter()
                .filter_map(|part| if let Part::Group(name) = part { Some(*name) } else { None })
        };
        let mut all = Vec::new();
        let mut expect = |text: &str, port: &TargetPort| {
            let TargetPort::Number(port) = *port else { unreachable!("worlds use numbers") };
            all.extend(groups(text).map(|group| Expected { group: group.into(), port }));
        };
        for service in self.services.values().filter(|service| service.selector.selects(&labels)) {
            expect(service.target_groups.as_deref().unwrap_or_default(), &service.ports[0].target_port);
        }
        for binding in self.bindings.values().filter(|binding| !binding.ending) {
            if let Pods::Selected(selector, port, _) = &binding.pods
                && selector.selects(&labels)
            {
                expect(&binding.group, port);
            }
        }
        Expected::write(&all)
    }

    /// A condition is written into the status of a pod.
    pub fn write_gate(&mut self, write: &GateWrite) -> Result<(), Failure> {
        let condition = &write.condition;
        let status = if condition.open { "True" } else { "False" };
        let pod = self.pods.get_mut(&write.pod).filter(|pod| pod.uid == write.uid).ok_or_else(gone)?;
        if let Some(gate) = &mut pod.gate {
            let (reason, message) = (Some(condition.reason.as_str()), Some(&*condition.message));
            **gate = GateFacts::read(Some(status), reason, message, gate.expected.take());
        }
        let pod = pod.clone();
        self.say_pod(&Change::Applied(pod));
        Ok(())
    }

    /// Somebody else writes the whole status and loses the condition, or sets it by hand.
    pub(super) fn overwrite_gate(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let (shown, event) = match rng.u8(0..4) {
            0 => (Shown::Open(None), "event: gate set by hand"),
            1 => (Shown::Closed, "event: gate closed by hand"),
            _ => (Shown::Missing, "event: gate wiped out"),
        };
        let has = |pod: &&mut PodFacts| pod.gate.as_deref().is_some_and(|gate| gate.shown != shown);
        let at = rng.usize(0..self.pods.len().max(1));
        let pod = self.pods.values_mut().filter(has).nth(at)?;
        let gate = pod.gate.as_deref_mut()?;
        (gate.shown, gate.unread) = (shown, false);
        let pod = pod.clone();
        self.say_pod(&Change::Applied(pod));
        Some(event)
    }

    /// The condition of a living pod is lost; gives the pod.
    pub fn wipe_gate_out(&mut self, rng: &mut fastrand::Rng) -> Option<ObjectKey> {
        let has = |pod: &&PodFacts| {
            lives(pod) && pod.gate.as_deref().is_some_and(|gate| matches!(gate.shown, Shown::Open(_)))
        };
        let open: Vec<ObjectKey> = self.pods.values().filter(has).map(|pod| pod.key.clone()).collect();
        let pod = open.get(rng.usize(0..open.len().max(1)))?.clone();
        self.wipe_gate_of(&pod);
        Some(pod)
    }

    /// The condition of this pod is.
    pub fn wipe_gate_of(&mut self, key: &ObjectKey) {
        if let Some(pod) = self.pods.get_mut(key)
            && let Some(gate) = pod.gate.as_deref_mut()
        {
            (gate.shown, gate.unread) = (Shown::Missing, false);
            let pod = pod.clone();
            self.say_pod(&Change::Applied(pod));
        }
    }

    /// The sandbox of a pod is made anew, most likely of one whose gate is open: it gets another address.
    pub(super) fn change_sandbox(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let is_open =
            |pod: &PodFacts| pod.gate.as_deref().is_some_and(|gate| gate.shown.is_open_for(&pod.ips));
        let living = self.pods.values().filter(|pod| lives(pod));
        let (open, others): (Vec<&PodFacts>, Vec<&PodFacts>) = living.partition(|pod| is_open(pod));
        let (pods, event) = if open.is_empty() {
            (others, "event: sandbox changed")
        } else {
            (open, "event: sandbox changed while the gate is open")
        };
        let key: ObjectKey = pods.get(rng.usize(0..pods.len().max(1)))?.key.clone();
        let address = ip(rng.u8(1..=IPS));
        if self.elsewhere.contains(&address) || self.pods.values().any(|pod| pod.ips.contains(&address)) {
            return None;
        }
        let pod = self.pods.get_mut(&key)?;
        pod.ips = vec![address];
        let pod = pod.clone();
        self.forged.remove(&pod.uid);
        self.gets_ip(&pod);
        self.say_pod(&Change::Applied(pod));
        Some(event)
    }
}

//! All limits on input.
//!
//! Users of a namespace can write objects of up to 1.5 MiB, and Kubernetes hardly limits their content. Adapters apply
//! the limits when they convert an object to facts. A tenant therefore cannot slow Headgate down, or use up its memory,
//! at the expense of other tenants. Headgate ignores a part that exceeds a limit, and reports `LimitExceeded`.
//!
//! The limits are far above common sizes. `docs/reference/limits.md` is generated from the limits in this module.

use std::fmt;

use super::object::Labels;

/// A limit on input.
#[derive(Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limited items or size, such as "ports of a Service".
    pub what: &'static str,
    /// The maximum that Headgate reads.
    pub most: usize,
    /// The unit "bytes", or an empty text for a count.
    pub unit: &'static str,
    /// The effect on the part that exceeds the limit.
    pub effect: &'static str,
}

/// The size of a pod's labels, including keys and values. Kubernetes limits each key to 317 bytes and each value to 63
/// bytes, but does not limit the number of labels.
pub const POD_LABELS: Limit = Limit {
    what: "the labels of a pod",
    most: 16 * 1024,
    unit: " bytes",
    effect: "Headgate reads none of them, so nothing selects the pod",
};

/// The size of a selector, including keys and values.
pub const SELECTOR: Limit = Limit {
    what: "the selector of a Service or TargetBinding",
    most: 16 * 1024,
    unit: " bytes",
    effect: "Headgate does not read it; the previous selector remains in force",
};

/// The number of named container ports of a pod.
pub const POD_PORTS: Limit = Limit {
    what: "named ports of a pod",
    most: 256,
    unit: "",
    effect: "Headgate does not read the ones after them",
};

/// The number of ports of a Service. A load balancer has at most 100 listeners.
pub const SERVICE_PORTS: Limit = Limit {
    what: "ports of a Service",
    most: 256,
    unit: "",
    effect: "Headgate does not read the ones after them",
};

/// The size of the annotation `headgate.dev/target-groups`, which is enough for [`PARTS`] ARNs.
pub const TARGET_GROUPS: Limit = Limit {
    what: "headgate.dev/target-groups",
    most: 64 * 1024,
    unit: " bytes",
    effect: "Headgate does not read it; the previous value remains in force",
};

/// The number of parts in the annotation `headgate.dev/target-groups`. A Service may have hundreds of ports, but
/// Headgate reads and stores a target group for each part.
pub const PARTS: Limit = Limit {
    what: "parts of headgate.dev/target-groups",
    most: 200,
    unit: "",
    effect: "Headgate does not read the ones after them",
};

/// The size of the pod annotation `headgate.dev/expected-bindings`, which is enough for 200 target groups with the
/// longest name.
pub const EXPECTED: Limit = Limit {
    what: "headgate.dev/expected-bindings",
    most: 8 * 1024,
    unit: " bytes",
    effect: "Headgate ignores it",
};

/// The number of active bindings in one namespace. Headgate compares each pod event with all bindings of the pod's
/// namespace.
pub const BINDINGS: Limit = Limit {
    what: "bindings in a namespace",
    most: 1000,
    unit: "",
    effect: "No binding is added before others have ended",
};

/// The number of target groups that the objects of one namespace name. Headgate looks up each target group, repeatedly
/// if the target group does not exist.
pub const NAMES: Limit = Limit {
    what: "target groups that a namespace names",
    most: 1000,
    unit: "",
    effect: "Headgate looks up no further ones",
};

/// The number of problems of one object with the same reason. A Service may have 200 invalid parts.
pub const PROBLEMS: Limit = Limit {
    what: "problems of an object with the same reason",
    most: 20,
    unit: "",
    effect: "Headgate only counts further ones",
};

/// The number of workloads without pods in one namespace. Headgate keeps the record of a workload for one hour after
/// its last pod.
pub const WORKLOADS: Limit = Limit {
    what: "workloads of a namespace without pods",
    most: 1000,
    unit: "",
    effect: "Headgate forgets the one that ended first",
};

/// The size of the pod template of an IngressDaemonSet, as JSON. Headgate keeps every revision of the template.
pub const TEMPLATE: Limit = Limit {
    what: "the template of an IngressDaemonSet",
    most: 64 * 1024,
    unit: " bytes",
    effect: "Headgate leaves the set unchanged; its pods keep running",
};

/// The number of placement conditions of an IngressDaemonSet: labels of `nodeSelector`, tolerations, and terms,
/// expressions and values of the required node affinity. Headgate compares all conditions with each node.
pub const PLACEMENT: Limit = Limit {
    what: "node labels, terms, expressions, values and tolerations of an IngressDaemonSet",
    most: 1000,
    unit: "",
    effect: "Headgate leaves the set unchanged; its pods keep running",
};

/// The size of a PodDisruptionBudget's selector. Headgate compares the selector with the pods of each IngressDaemonSet
/// in the namespace.
pub const BUDGET_SELECTOR: Limit = Limit {
    what: "the selector of a PodDisruptionBudget",
    most: 16 * 1024,
    unit: " bytes",
    effect: "Headgate assumes that the budget selects no pod of an IngressDaemonSet",
};

/// All limits, for the docs.
pub const ALL: [&Limit; 14] = [
    &POD_LABELS,
    &SELECTOR,
    &POD_PORTS,
    &SERVICE_PORTS,
    &TARGET_GROUPS,
    &PARTS,
    &EXPECTED,
    &BINDINGS,
    &NAMES,
    &PROBLEMS,
    &WORKLOADS,
    &TEMPLATE,
    &PLACEMENT,
    &BUDGET_SELECTOR,
];

/// A part that exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The limit.
    pub limit: &'static Limit,
    /// The actual size or count.
    pub found: usize,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limit { what, most, unit, effect } = self.limit;
        let (first, rest) = what.split_at_checked(1).unwrap_or((what, ""));
        let what =
            if what.starts_with("headgate.dev/") { (*what).to_owned() } else { first.to_uppercase() + rest };
        write!(f, "{what}: {}{unit} exceed the limit of {most}{unit}. {effect}. Reduce them.", self.found)
    }
}

impl Limit {
    /// Checks a size or count. `None`: the value is within the limit.
    pub fn excess(&'static self, found: usize) -> Option<Excess> {
        (found > self.most).then_some(Excess { limit: self, found })
    }

    /// Reads labels or a selector.
    ///
    /// # Errors
    /// The labels or the selector are too large; the error contains the size.
    pub fn labels<K: AsRef<str>, V: AsRef<str>>(
        &'static self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Labels, Excess> {
        let pairs: Vec<(K, V)> = pairs.into_iter().collect();
        let size = pairs.iter().map(|(key, value)| key.as_ref().len() + value.as_ref().len()).sum();
        self.excess(size).map_or_else(|| Ok(pairs.into_iter().collect()), Err)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// The text is too long; the error contains the length.
    pub fn text(&'static self, text: &str) -> Result<Box<str>, Excess> {
        self.excess(text.len()).map_or_else(|| Ok(text.into()), Err)
    }

    /// Reads a list up to the limit, and returns the excess, if any.
    pub fn list<T>(&'static self, all: impl IntoIterator<Item = T>) -> (Vec<T>, Option<Excess>) {
        let mut all = all.into_iter();
        let read: Vec<T> = all.by_ref().take(self.most).collect();
        let more = all.count();
        let excess = self.excess(read.len() + more);
        (read, excess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_just_within_a_bound_is_read_and_one_more_is_not() {
        let labels = |length: usize| {
            POD_LABELS.labels([("app".to_owned(), "web".to_owned()), ("x".repeat(length), String::new())])
        };
        assert_eq!(labels(POD_LABELS.most - 6).unwrap().get("app"), Some("web"));
        let excess = labels(POD_LABELS.most - 5).unwrap_err();
        assert_eq!(
            excess.to_string(),
            "The labels of a pod: 16385 bytes exceed the limit of 16384 bytes. Headgate reads none of them, so nothing \
             selects the pod. Reduce them."
        );
        assert!(TARGET_GROUPS.text(&"x".repeat(TARGET_GROUPS.most)).is_ok());
        assert!(TARGET_GROUPS.text(&"x".repeat(TARGET_GROUPS.most + 1)).is_err());
        let (read, excess) = POD_PORTS.list(0..POD_PORTS.most);
        assert_eq!((read.len(), excess), (POD_PORTS.most, None));
        let (read, excess) = POD_PORTS.list(0..POD_PORTS.most + 3);
        assert_eq!((read.len(), excess.unwrap().found), (POD_PORTS.most, POD_PORTS.most + 3));
    }
}

//! All limits on input.
//!
//! Users of a namespace can write objects of up to 1.5 MiB, and Kubernetes hardly limits their content. Adapters apply
//! the limits when they convert an object to facts, so no tenant can slow Headgate down for other tenants. Headgate
//! omits a part that exceeds a limit, and reports `LimitExceeded`.
//!
//! The limits are far above common sizes. `docs/reference/limits.md` is generated from this module.

use std::fmt;

use super::object::Labels;

/// A limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limited part, in the plural or as a size: "ports of a Service".
    pub what: &'static str,
    /// The largest size or count that Headgate accepts.
    pub most: usize,
    /// "bytes", or empty for a count.
    pub unit: &'static str,
    /// Headgate's reaction to a part that exceeds the limit.
    pub effect: &'static str,
    /// The action that the user should take.
    pub fix: &'static str,
}

/// The size of a pod's labels, keys and values together. Kubernetes limits each key to 317 bytes and each value to 63,
/// but not their number.
pub const POD_LABELS: Limit = Limit {
    what: "the labels of a pod",
    most: 16 * 1024,
    unit: " bytes",
    effect: "Headgate ignores the labels, so no binding selects the pod",
    fix: "Shorten or remove labels",
};

/// The size of a selector, keys and values together.
pub const SELECTOR: Limit = Limit {
    what: "the selector of a Service or TargetBinding",
    most: 16 * 1024,
    unit: " bytes",
    effect: "The previous selector remains in force",
    fix: "Shorten the selector",
};

/// Named ports of the containers of a pod.
pub const POD_PORTS: Limit = Limit {
    what: "named ports of a pod",
    most: 256,
    unit: "",
    effect: "Headgate ignores named ports beyond the limit",
    fix: "Remove named ports from the pod",
};

/// Ports of a Service. A load balancer has at most 100 listeners.
pub const SERVICE_PORTS: Limit = Limit {
    what: "ports of a Service",
    most: 256,
    unit: "",
    effect: "Headgate ignores ports beyond the limit",
    fix: "Remove ports from the Service",
};

/// The annotation `headgate.dev/target-groups`: room for [`PARTS`] ARNs.
pub const TARGET_GROUPS: Limit = Limit {
    what: "headgate.dev/target-groups",
    most: 64 * 1024,
    unit: " bytes",
    effect: "The previous value remains in force",
    fix: "Shorten the annotation",
};

/// Parts of that annotation. A Service may have hundreds of ports, but each part names a target group that Headgate
/// reads and keeps.
pub const PARTS: Limit = Limit {
    what: "parts of headgate.dev/target-groups",
    most: 200,
    unit: "",
    effect: "Headgate ignores parts beyond the limit",
    fix: "Remove parts of the annotation",
};

/// The annotation `headgate.dev/expected-bindings` of a pod: 200 target groups with the longest name.
pub const EXPECTED: Limit = Limit {
    what: "headgate.dev/expected-bindings",
    most: 8 * 1024,
    unit: " bytes",
    effect: "Headgate ignores the annotation",
    fix: "Shorten the annotation",
};

/// Bindings in force in one namespace. Each pod event is compared with all bindings of its namespace.
pub const BINDINGS: Limit = Limit {
    what: "bindings in a namespace",
    most: 1000,
    unit: "",
    effect: "Headgate adds a binding only after another binding was removed",
    fix: "Remove bindings from the namespace",
};

/// Target groups that the objects of one namespace name. Each is looked up, and repeatedly if it does not exist.
pub const NAMES: Limit = Limit {
    what: "target groups that a namespace names",
    most: 1000,
    unit: "",
    effect: "Headgate does not look up target groups beyond the limit",
    fix: "Name fewer target groups",
};

/// Problems of one object with the same reason: a Service may have 200 invalid parts.
pub const PROBLEMS: Limit = Limit {
    what: "problems of an object with the same reason",
    most: 20,
    unit: "",
    effect: "Headgate only counts problems beyond the limit",
    fix: "Fix the reported problems",
};

/// Workloads of one namespace that are remembered for an hour after their last pod.
pub const WORKLOADS: Limit = Limit {
    what: "workloads of a namespace without pods",
    most: 1000,
    unit: "",
    effect: "Headgate drops the record of the workload whose last pod was deleted first",
    fix: "Use fewer workloads",
};

/// The pod template of an IngressDaemonSet, as JSON. Headgate keeps each of its revisions.
pub const TEMPLATE: Limit = Limit {
    what: "the template of an IngressDaemonSet",
    most: 64 * 1024,
    unit: " bytes",
    effect: "Headgate leaves the set unchanged; its pods keep running",
    fix: "Shorten the template",
};

/// The conditions for the nodes of an IngressDaemonSet: labels of `nodeSelector`, terms, expressions and values of
/// the required node affinity, and tolerations. All of them are compared with each node.
pub const PLACEMENT: Limit = Limit {
    what: "node labels, terms, expressions, values and tolerations of an IngressDaemonSet",
    most: 1000,
    unit: "",
    effect: "Headgate leaves the set unchanged",
    fix: "Simplify the placement",
};

/// The selector of a PodDisruptionBudget, which is compared with the pods of each IngressDaemonSet in its namespace.
pub const BUDGET_SELECTOR: Limit = Limit {
    what: "the selector of a PodDisruptionBudget",
    most: 16 * 1024,
    unit: " bytes",
    effect: "Headgate assumes that the budget selects no IngressDaemonSet pod",
    fix: "Shorten the selector",
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
        let Limit { what, most, unit, effect, fix } = self.limit;
        let size = if unit.is_empty() { "number" } else { "size" };
        write!(f, "The {size} of {what} is {}{unit}; the limit is {most}{unit}. {effect}. {fix}.", self.found)
    }
}

impl Limit {
    /// Checks a size or count. `None`: it is within the limit.
    pub fn excess(&'static self, found: usize) -> Option<Excess> {
        (found > self.most).then_some(Excess { limit: self, found })
    }

    /// Reads labels or a selector.
    ///
    /// # Errors
    /// They are too large. Contains the size.
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
    /// The text is too long. Contains the length.
    pub fn text(&'static self, text: &str) -> Result<Box<str>, Excess> {
        self.excess(text.len()).map_or_else(|| Ok(text.into()), Err)
    }

    /// Reads a list up to the limit. Also returns the excess, if any.
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
            "The size of the labels of a pod is 16385 bytes; the limit is 16384 bytes. Headgate ignores the labels, so no \
             binding selects the pod. Shorten or remove labels."
        );
        assert!(TARGET_GROUPS.text(&"x".repeat(TARGET_GROUPS.most)).is_ok());
        assert!(TARGET_GROUPS.text(&"x".repeat(TARGET_GROUPS.most + 1)).is_err());
        let (read, excess) = POD_PORTS.list(0..POD_PORTS.most);
        assert_eq!((read.len(), excess), (POD_PORTS.most, None));
        let (read, excess) = POD_PORTS.list(0..POD_PORTS.most + 3);
        assert_eq!((read.len(), excess.unwrap().found), (POD_PORTS.most, POD_PORTS.most + 3));
    }
}

//! All limits on input.
//!
//! Users of a namespace can write objects of up to 1.5 MiB, and Kubernetes hardly limits their content. Adapters apply
//! the limits when they convert an object to facts, so no tenant can slow Headgate down for other tenants. Headgate
//! omits a part that exceeds a limit, and reports `LimitExceeded`.
//!
//! The limits are far above common sizes. `docs/reference/limits.md` is generated from this module.

use std::fmt;

use super::object::Labels;

/// A limit on input.
#[derive(Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limited part, in the plural or as a size: "ports of a Service".
    pub what: &'static str,
    /// The largest size or count that Headgate accepts.
    pub most: usize,
    /// The unit "bytes", or an empty text for a count.
    pub unit: &'static str,
    /// Headgate's reaction to a part that exceeds the limit.
    pub effect: &'static str,
    /// The action that the user should take.
    pub fix: &'static str,
}

/// The size of a pod's labels, including keys and values. Kubernetes limits each key to 317 bytes and each value to 63
/// bytes, but does not limit the number of labels.
pub const POD_LABELS: Limit = Limit {
    what: "the labels of a pod",
    most: 16 * 1024,
    unit: " bytes",
    effect: "Headgate ignores the labels, so no binding selects the pod",
    fix: "Shorten or remove labels",
};

/// The size of a selector, including keys and values.
pub const SELECTOR: Limit = Limit {
    what: "the selector of a Service or TargetBinding",
    most: 16 * 1024,
    unit: " bytes",
    effect: "The previous selector remains in force",
    fix: "Shorten the selector",
};

/// The number of named container ports of a pod.
pub const POD_PORTS: Limit = Limit {
    what: "named ports of a pod",
    most: 256,
    unit: "",
    effect: "Headgate ignores named ports beyond the limit",
    fix: "Remove named ports from the pod",
};

/// The number of ports of a Service. A load balancer has at most 100 listeners.
pub const SERVICE_PORTS: Limit = Limit {
    what: "ports of a Service",
    most: 256,
    unit: "",
    effect: "Headgate ignores ports beyond the limit",
    fix: "Remove ports from the Service",
};

/// The size of the annotation `headgate.dev/target-groups`, which is enough for [`PARTS`] ARNs.
pub const TARGET_GROUPS: Limit = Limit {
    what: "headgate.dev/target-groups",
    most: 64 * 1024,
    unit: " bytes",
    effect: "The previous value remains in force",
    fix: "Shorten the annotation",
};

/// The number of parts in the annotation `headgate.dev/target-groups`. A Service may have hundreds of ports, but
/// Headgate reads and stores a target group for each part.
pub const PARTS: Limit = Limit {
    what: "parts of headgate.dev/target-groups",
    most: 200,
    unit: "",
    effect: "Headgate ignores parts beyond the limit",
    fix: "Remove parts of the annotation",
};

/// The size of the pod annotation `headgate.dev/expected-bindings`, which is enough for 200 target groups with the
/// longest name.
pub const EXPECTED: Limit = Limit {
    what: "headgate.dev/expected-bindings",
    most: 8 * 1024,
    unit: " bytes",
    effect: "Headgate ignores the annotation",
    fix: "Shorten the annotation",
};

/// The number of active bindings in one namespace. Headgate compares each pod event with all bindings of the pod's
/// namespace.
pub const BINDINGS: Limit = Limit {
    what: "bindings in a namespace",
    most: 1000,
    unit: "",
    effect: "Headgate adds a binding only after another binding was removed",
    fix: "Remove bindings from the namespace",
};

/// The number of target groups that the objects of one namespace name. Headgate looks up each target group, repeatedly
/// if the target group does not exist.
pub const NAMES: Limit = Limit {
    what: "target groups that a namespace names",
    most: 1000,
    unit: "",
    effect: "Headgate does not look up target groups beyond the limit",
    fix: "Name fewer target groups",
};

/// The number of problems of one object with the same reason. A Service may have 200 invalid parts.
pub const PROBLEMS: Limit = Limit {
    what: "problems of an object with the same reason",
    most: 20,
    unit: "",
    effect: "Headgate only counts problems beyond the limit",
    fix: "Fix the reported problems",
};

/// The number of workloads without pods in one namespace. Headgate keeps the record of a workload for one hour after
/// its last pod.
pub const WORKLOADS: Limit = Limit {
    what: "workloads of a namespace without pods",
    most: 1000,
    unit: "",
    effect: "Headgate drops the record of the workload whose last pod was deleted first",
    fix: "Use fewer workloads",
};

/// The size of the pod template of an IngressDaemonSet, as JSON. Headgate keeps every revision of the template.
pub const TEMPLATE: Limit = Limit {
    what: "the template of an IngressDaemonSet",
    most: 64 * 1024,
    unit: " bytes",
    effect: "Headgate leaves the set unchanged; its pods keep running",
    fix: "Shorten the template",
};

/// The number of placement conditions of an IngressDaemonSet: labels of `nodeSelector`, tolerations, and terms,
/// expressions and values of the required node affinity. Headgate compares all conditions with each node.
pub const PLACEMENT: Limit = Limit {
    what: "node labels, terms, expressions, values and tolerations of an IngressDaemonSet",
    most: 1000,
    unit: "",
    effect: "Headgate leaves the set unchanged",
    fix: "Simplify the placement",
};

/// The size of a PodDisruptionBudget's selector. Headgate compares the selector with the pods of each IngressDaemonSet
/// in the namespace.
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

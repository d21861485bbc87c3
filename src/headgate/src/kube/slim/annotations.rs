//! Selects the annotations that Headgate keeps in memory.

use std::{collections::BTreeMap, fmt};

use headgate_core::{
    binding::annotation,
    model::{expected::EXPECTED_BINDINGS, leaving, node::DETACHED_AT, policy},
};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use super::known;

/// The annotations that are kept for one kind of object.
pub trait Annotations {
    fn kept(self) -> Option<BTreeMap<String, String>>;
}

/// Keeps no annotations.
impl Annotations for IgnoredAny {
    fn kept(self) -> Option<BTreeMap<String, String>> {
        None
    }
}

/// Keeps the annotations of a Service that begin with Headgate's prefix, including misspelled ones.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct OfService(BTreeMap<String, Option<String>>);

impl Annotations for OfService {
    fn kept(self) -> Option<BTreeMap<String, String>> {
        let mut all = known(self.0);
        all.retain(|key, _| key.starts_with(annotation::PREFIX));
        Some(all)
    }
}

/// Keeps Headgate's annotation of a node.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct OfNode(BTreeMap<String, Option<String>>);

impl Annotations for OfNode {
    fn kept(self) -> Option<BTreeMap<String, String>> {
        let mut all = known(self.0);
        all.retain(|key, _| key == DETACHED_AT);
        Some(all)
    }
}

/// If the value is `true`, the cluster-autoscaler treats the pod as a DaemonSet pod.
pub const AS_DAEMON: &str = "cluster-autoscaler.kubernetes.io/daemonset-pod";

/// The relevant annotations of a pod.
const OF_POD: [&str; 7] = {
    let [leaving, waits, deregistered, may_go] = leaving::ALL;
    [EXPECTED_BINDINGS, policy::HOLD, AS_DAEMON, leaving, waits, deregistered, may_go]
};

/// Keeps the relevant annotations of a pod. A cluster may have 100,000 pods with long annotations, so only relevant
/// annotations are read.
#[derive(Default)]
pub struct OfPod(BTreeMap<String, String>);

impl Annotations for OfPod {
    fn kept(self) -> Option<BTreeMap<String, String>> {
        (!self.0.is_empty()).then_some(self.0)
    }
}

/// The name of an annotation, if it is relevant.
struct Counts(Option<&'static str>);

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Counts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an annotation")
            }

            fn visit_str<E>(self, name: &str) -> Result<Counts, E> {
                Ok(Counts(OF_POD.into_iter().find(|counts| *counts == name)))
            }
        }
        from.deserialize_identifier(Name)
    }
}

impl<'de> Deserialize<'de> for OfPod {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = OfPod;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut pairs: M) -> Result<OfPod, M::Error> {
                let mut kept = OfPod::default();
                while let Some(Counts(name)) = pairs.next_key()? {
                    if let Some(name) = name {
                        let value: Option<String> = pairs.next_value()?;
                        kept.0.extend(value.map(|value| (name.to_owned(), value)));
                    } else {
                        pairs.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(kept)
            }
        }
        from.deserialize_map(Pairs)
    }
}

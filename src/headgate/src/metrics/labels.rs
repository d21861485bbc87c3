//! The labels of the metrics.

use std::fmt::{self, Debug};
use std::hash::Hash;

use headgate_core::{Reason, model::target_group::TargetGroupArn};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// A set of labels with known names.
pub(super) trait Labels: EncodeLabelSet + Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// The names of the labels, in the order of the page.
    const NAMES: &'static [&'static str];
}

macro_rules! labels {
    ($($name:ident { $($label:ident: $value:ty),+ })+) => {$(
        #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(super) struct $name {
            $(pub(super) $label: $value),+
        }

        impl Labels for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($label)),+];
        }
    )+};
}

labels! {
    CallLabels { action: &'static str, outcome: &'static str }
    ActionLabel { action: &'static str }
    CauseLabel { cause: String }
    RequestLabels { verb: &'static str, outcome: &'static str }
    VerbLabel { verb: &'static str }
    StatusLabel { status: u16 }
    KindLabel { kind: &'static str }
    DirectionLabel { direction: &'static str }
    OutcomeLabel { outcome: &'static str }
    ServerLabel { server: &'static str }
    ClosedLabels { server: &'static str, reason: &'static str }
    GroupLabel { target_group: String }
    EvictionLabels { answer: &'static str, reason: Word }
    ReasonLabel { reason: Word }
    DecisionLabel { decision: &'static str }
    BuildLabels { version: &'static str }
}

impl GroupLabel {
    pub(super) fn of(group: &TargetGroupArn) -> Self {
        Self { target_group: group.name().to_owned() }
    }
}

impl ReasonLabel {
    pub(super) const fn of(reason: Reason) -> Self {
        Self { reason: Word(reason) }
    }
}

/// A reason as a label value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Word(pub(super) Reason);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.as_str().encode(encoder)
    }
}

//! Whether a target group needs a grant to be bound.

use clap::{Args, ValueEnum};
use headgate_core::model::settings::Granting;

/// The flag.
#[derive(Clone, Debug, Args)]
pub struct Grants {
    /// Which namespaces may bind a target group without a TargetGroupGrant. `optional`: the first namespace that binds
    /// the group. `required`: no namespace.
    #[arg(
        long = "grants",
        env = "HEADGATE_GRANTS",
        value_enum,
        default_value = "optional",
        value_name = "WHEN"
    )]
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    Optional,
    Required,
}

impl Grants {
    /// The meaning for groups that no grant names.
    pub const fn granting(&self) -> Granting {
        match self.when {
            When::Optional => Granting::Optional,
            When::Required => Granting::Required,
        }
    }
}

//! The flag that determines whether binding a target group requires a grant.

use clap::{Args, ValueEnum};
use headgate_core::model::settings::Granting;

/// The flag `--grants`.
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
    /// The rule for target groups that no grant names.
    pub const fn granting(&self) -> Granting {
        match self.when {
            When::Optional => Granting::Optional,
            When::Required => Granting::Required,
        }
    }
}

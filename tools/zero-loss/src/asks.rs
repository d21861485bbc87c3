//! The minimum of healthy targets that a target group requires.

/// The minimum of healthy targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// A percentage.
    Percent(u8),
    /// A number.
    Count(u8),
}

/// The settings of a target group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asks {
    /// The minimum of healthy targets.
    pub least: Least,
    /// Whether Headgate may read it.
    pub is_read: bool,
}

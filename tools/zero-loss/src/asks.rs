//! What a target group asks for before a load balancer goes by the health of its targets.

/// How many healthy targets a target group asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// So many percent.
    Percent(u8),
    /// So many.
    Count(u8),
}

/// What a target group asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asks {
    /// So many healthy targets.
    pub least: Least,
    /// Whether Headgate may read that.
    pub is_read: bool,
}

//! Shared parts of all servers: the clock, supervised tasks, the authority to write, reports of outages, and the
//! engine's views.

pub mod authority;
pub mod clock;
pub mod outage;
pub mod pulse;
pub mod sets;
pub mod supervise;
pub mod times;
pub mod troubles;
pub mod views;
pub mod within;

//! The base of every part: the clock, supervised tasks, and the authority to write. Also the reports of outages, and
//! the views of the engine.

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

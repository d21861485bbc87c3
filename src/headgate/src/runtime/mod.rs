//! What every part stands on: the clock, the tasks and who watches over them, the authority to write, what is said of an
//! outage and how often, and what the owner of the engine shows to the rest.

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

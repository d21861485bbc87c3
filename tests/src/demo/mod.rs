//! `make demo`: a rollout under traffic, twice, with every request accounted for.
//!
//! ```text
//!  stage      the namespace, load balancer, Deployment, Service of one run; what kubectl does to them
//!  recorder   what happened: the stand-in's trace and the lives of the pods, as they go by
//!  judge      pure: lost requests explained, lag measured, the verdict
//!  report     the table and target/demo/report.json
//!  screen     the live view
//!  play       the order of it all
//! ```

pub mod judge;
pub mod play;
pub mod recorder;
pub mod report;
pub mod screen;
pub mod stage;

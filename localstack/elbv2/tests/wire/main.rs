//! The stand-in over the wire: the AWS SDK for the API, sockets for the traffic, JSON for the control API.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod alb;
mod bodies;
mod calls;
mod clients;
mod control;
mod dns;
mod faults;
mod flows;
mod health;
mod lag;
mod life;
mod limits;
mod nlb;
mod pod;
mod process;
mod profiles;
mod resources;
mod rules;
mod stand;
mod uploads;
mod validation;
mod zones;

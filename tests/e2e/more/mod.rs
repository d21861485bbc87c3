//! Tests that `.ci/run` runs and `make test` does not: pages typed as printed, the chart, alerts during incidents,
//! migrations from other controllers, IPv6, outages, removed nodes, and long attacks.

mod as_printed;
mod attacks;
mod by_hand;
mod chart;
mod examples;
mod incidents;
mod ingress;
mod ipv6;
mod migrating;
mod outages;
mod passed_over;
mod printed;
mod sets;
mod shapes;
mod signals;
mod style;
mod trust;
mod weighing;
mod zones;

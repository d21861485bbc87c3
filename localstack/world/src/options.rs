//! The options of a local cluster, as flags and as data.
//!
//! The command line, the library and the supervisor use the same options.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::{cache::WorldName, component::Component, minor::Minor};

/// The type of a cluster's Kubernetes nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nodes {
    /// One program simulates all kubelets. Pods are HTTP servers on loopback addresses.
    #[default]
    Simulated,
    /// kubelet, containerd and runc, in a separate network namespace. Needs root and packages.
    Real,
}

impl std::fmt::Display for Nodes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            Self::Simulated => "simulated",
            Self::Real => "real",
        })
    }
}

/// The options of a world. The defaults are those of `world up`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct Options {
    /// Name of the world; several worlds with different names can run at the same time
    #[arg(long, env = "HEADGATE_WORLD", default_value = "default")]
    pub name: WorldName,

    /// Type of the Kubernetes nodes; real ones need root, containerd and runc
    #[arg(long, value_enum, default_value_t = Nodes::Simulated)]
    pub nodes: Nodes,

    /// The minor version of Kubernetes [default: 1.36]
    #[arg(long, value_enum, env = "HEADGATE_KUBERNETES", value_name = "MINOR")]
    pub kubernetes: Option<Minor>,

    /// Number of availability zones [default: 3, with real nodes 2]
    #[arg(long, default_value = "3", default_value_if("nodes", "real", "2"), hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=6))]
    pub zones: u8,

    /// Number of Kubernetes nodes in each zone
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub nodes_per_zone: u16,

    /// Duration of an AWS or kubelet second, in real seconds (0.05: twenty times faster)
    #[arg(long, default_value_t = 0.05, value_parser = time_scale)]
    pub time_scale: f64,

    /// Seed of the load balancers' random delays
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Components to leave out, separated by commas (for example elbv2,kubelet,nodes)
    #[arg(long, value_delimiter = ',', value_parser = optional_component)]
    pub without: Vec<Component>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: WorldName::default(),
            nodes: Nodes::Simulated,
            kubernetes: None,
            zones: 3,
            nodes_per_zone: 2,
            time_scale: 0.05,
            seed: 1,
            without: Vec::new(),
        }
    }
}

impl Options {
    /// Returns the default options of a local cluster with real nodes.
    pub fn real() -> Self {
        Self { nodes: Nodes::Real, zones: 2, ..Self::default() }
    }

    /// Returns the minor version of Kubernetes.
    pub fn minor(&self) -> Minor {
        self.kubernetes.unwrap_or_default()
    }

    /// Returns whether the cluster has this component.
    pub fn has(&self, component: Component) -> bool {
        let of_other_nodes = match self.nodes {
            Nodes::Simulated => Component::Nodes,
            Nodes::Real => Component::Kubelet,
        };
        component != of_other_nodes && !self.without.contains(&component)
    }

    /// Returns the components of the cluster in the order of their start.
    pub fn components(&self) -> impl Iterator<Item = Component> {
        Component::ALL.into_iter().filter(|component| self.has(*component))
    }

    /// Returns the flags for these options.
    pub fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--name={}", self.name),
            format!("--nodes={}", self.nodes),
            format!("--zones={}", self.zones),
            format!("--nodes-per-zone={}", self.nodes_per_zone),
            format!("--time-scale={}", self.time_scale),
            format!("--seed={}", self.seed),
        ];
        // If the option is absent, the called program reads the environment.
        arguments.extend(self.kubernetes.map(|minor| format!("--kubernetes={minor}")));
        arguments.extend(self.without.iter().map(|component| format!("--without={component}")));
        arguments
    }
}

fn time_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if scale > 0.0 && scale <= 10.0 => Ok(scale),
        _ => Err("a number above 0 and up to 10 is expected, such as 0.05".to_owned()),
    }
}

fn optional_component(text: &str) -> Result<Component, String> {
    let component: Component = text.parse().map_err(|error| format!("{error}"))?;
    if component.is_optional() {
        Ok(component)
    } else {
        Err(format!("there is no Kubernetes without {component}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        options: Options,
    }

    fn parse(arguments: &[String]) -> Result<Options, clap::Error> {
        let program = std::iter::once("world".to_owned());
        Flags::try_parse_from(program.chain(arguments.iter().cloned())).map(|flags| flags.options)
    }

    #[test]
    fn no_flags_mean_the_defaults() {
        assert_eq!(parse(&[]).unwrap(), Options::default());
    }

    #[test]
    fn no_choice_is_lost_on_the_way_through_flags() {
        let options = Options {
            name: "other".parse().unwrap(),
            nodes: Nodes::Real,
            kubernetes: Some(Minor::V34),
            zones: 3,
            nodes_per_zone: 7,
            time_scale: 0.125,
            seed: 42,
            without: vec![Component::Elbv2, Component::Kubelet],
        };
        assert_eq!(parse(&options.to_arguments()).unwrap(), options);
        assert_eq!(parse(&["--without=elbv2,kubelet".to_owned()]).unwrap().without, options.without);
    }

    #[test]
    fn real_nodes_are_in_two_zones_unless_told_otherwise() {
        let options = parse(&["--nodes=real".to_owned()]).unwrap();
        assert_eq!(options, Options::real());
        assert!(options.has(Component::Nodes) && !options.has(Component::Kubelet));
        assert_eq!(parse(&["--nodes=real".to_owned(), "--zones=4".to_owned()]).unwrap().zones, 4);
    }

    #[test]
    fn a_choice_that_cannot_work_is_refused_with_what_would() {
        let names: Vec<&str> = Minor::all().iter().map(|minor| minor.name()).collect();
        for (flag, expected) in [
            ("--zones=7", "1..=6"),
            ("--kubernetes=1.29", &format!("[possible values: {}]", names.join(", "))),
            ("--time-scale=0", "above 0"),
            ("--without=etcd", "no Kubernetes without etcd"),
            ("--without=nginx", "there is no component \"nginx\""),
        ] {
            let error = parse(&[flag.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(expected), "{flag}: {error}");
        }
    }
}

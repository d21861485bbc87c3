//! What a user may choose about a world, as flags and as data.
//!
//! Owns the one list of choices: the command line, the library, and the supervisor that either
//! starts all speak it, so a choice cannot get lost between them.

use clap::Args;

use crate::{cache::WorldName, component::Component};

/// The choices about a world. The defaults are those of `world up`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct Options {
    /// Name of the world; worlds of different names live side by side
    #[arg(long, default_value = "default")]
    pub name: WorldName,

    /// Number of availability zones
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=6))]
    pub zones: u8,

    /// Number of Kubernetes nodes in each zone
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub nodes_per_zone: u16,

    /// How long a second of AWS or of a kubelet takes here, in seconds (0.05: twenty times faster)
    #[arg(long, default_value_t = 0.05, value_parser = time_scale)]
    pub time_scale: f64,

    /// Seed of the load balancers' random delays
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Components to leave out, separated by commas (such as elbv2,kubelet)
    #[arg(long, value_delimiter = ',', value_parser = optional_component)]
    pub without: Vec<Component>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: WorldName::default(),
            zones: 3,
            nodes_per_zone: 2,
            time_scale: 0.05,
            seed: 1,
            without: Vec::new(),
        }
    }
}

impl Options {
    /// Whether the world is to have this component.
    pub fn has(&self, component: Component) -> bool {
        !self.without.contains(&component)
    }

    /// The components that the world is to have, in the order of their start.
    pub fn components(&self) -> impl Iterator<Item = Component> {
        Component::ALL.into_iter().filter(|component| self.has(*component))
    }

    /// The flags that say the same.
    pub fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            format!("--name={}", self.name),
            format!("--zones={}", self.zones),
            format!("--nodes-per-zone={}", self.nodes_per_zone),
            format!("--time-scale={}", self.time_scale),
            format!("--seed={}", self.seed),
        ];
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
            zones: 2,
            nodes_per_zone: 7,
            time_scale: 0.125,
            seed: 42,
            without: vec![Component::Elbv2, Component::Kubelet],
        };
        assert_eq!(parse(&options.to_arguments()).unwrap(), options);
        assert_eq!(parse(&["--without=elbv2,kubelet".to_owned()]).unwrap().without, options.without);
    }

    #[test]
    fn a_choice_that_cannot_work_is_refused_with_what_would() {
        for (flag, expected) in [
            ("--zones=7", "1..=6"),
            ("--time-scale=0", "above 0"),
            ("--without=etcd", "no Kubernetes without etcd"),
            ("--without=nginx", "there is no component \"nginx\""),
        ] {
            let error = parse(&[flag.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(expected), "{flag}: {error}");
        }
    }
}

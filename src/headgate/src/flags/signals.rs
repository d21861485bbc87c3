//! The flags that define the signs of nodes that will be removed.

use std::collections::BTreeSet;

use clap::Args;
use headgate_core::model::{
    Signals as Signs,
    signal::{Cordon, DISRUPTED, DYING},
};

/// The flags. Their defaults are the engine's own. They need the right to list and watch nodes, which Roles do not
/// give.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Nodes")]
pub struct Signals {
    /// Taint keys of nodes that will fail soon, comma-separated. Headgate deregisters pods on these nodes immediately.
    #[arg(long, env = "HEADGATE_DYING_NODE_TAINTS", default_value_t = DYING.join(","), value_parser = keys, value_name = "TAINTS", hide = true)]
    dying_node_taints: String,
    /// Taint keys of nodes that will be drained, comma-separated. Headgate deregisters pods on these nodes early if the
    /// pods have no hold.
    #[arg(long, env = "HEADGATE_DISRUPTED_NODE_TAINTS", default_value_t = DISRUPTED.join(","), value_parser = keys, value_name = "TAINTS", hide = true)]
    disrupted_node_taints: String,
    /// Pods to deregister early from a cordoned node. `unevictable`: pods that drain tools skip. `all` (or no value):
    /// also pods without a hold. `none`: no pods.
    #[arg(long, env = "HEADGATE_LEAVE_CORDONED_NODES", default_value = Cordon::Unevictable.as_str(), default_missing_value = Cordon::All.as_str(), num_args = 0..=1, require_equals = true, value_parser = cordon, value_name = "WHOSE")]
    leave_cordoned_nodes: Cordon,
}

fn each(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|key| !key.is_empty())
}

/// Whether a text is a valid label key.
fn is_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').unwrap_or(("", key));
    let prefix_is_good = !key.starts_with('/') && (prefix.is_empty() || super::is_subdomain(prefix));
    let outer = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    prefix_is_good
        && (1..=63).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && outer(name.chars().next())
        && outer(name.chars().next_back())
}

fn keys(text: &str) -> Result<String, String> {
    match each(text).find(|key| !is_key(key)) {
        None => Ok(text.to_owned()),
        Some(bad) => {
            Err(format!("\"{bad}\": set keys of taints, such as example.com/gone, without value and effect"))
        }
    }
}

fn cordon(text: &str) -> Result<Cordon, String> {
    let word = text.trim();
    Cordon::of_word(word).ok_or_else(|| {
        let words: Vec<&str> = Cordon::ALL.iter().map(|known| known.as_str()).collect();
        format!("\"{word}\": set one of {}", words.join(", "))
    })
}

impl Signals {
    /// Converts the flags to the engine's signs.
    pub fn signs(&self) -> Signs {
        let read = |text: &str| each(text).map(Into::into).collect::<BTreeSet<_>>();
        Signs {
            dying: read(&self.dying_node_taints),
            disrupted: read(&self.disrupted_node_taints),
            cordon: self.leave_cordoned_nodes,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        signals: Signals,
    }

    fn parse(arguments: &[&str]) -> Result<Signs, String> {
        let all = ["headgate"].iter().chain(arguments);
        Command::try_parse_from(all).map(|command| command.signals.signs()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_the_engines_own_and_each_list_is_the_users() {
        assert_eq!(parse(&[]).unwrap(), Signs::default());
        let own = parse(&[
            "--dying-node-taints=",
            "--disrupted-node-taints=a.example/b, C_d",
            "--leave-cordoned-nodes",
        ]);
        let own = own.unwrap();
        assert!(own.dying.is_empty() && own.cordon == Cordon::All);
        assert_eq!(own.disrupted, ["a.example/b".into(), "C_d".into()].into());
    }

    #[test]
    fn a_cordon_moves_whom_the_user_says() {
        for (value, is) in [
            ("", Cordon::All),
            ("=all", Cordon::All),
            ("=unevictable", Cordon::Unevictable),
            ("=none", Cordon::None),
        ] {
            let signs = parse(&[&format!("--leave-cordoned-nodes{value}")]).unwrap();
            assert_eq!(signs.cordon, is, "{value}");
        }
        let said = parse(&["--leave-cordoned-nodes=some"]).unwrap_err();
        assert!(said.contains("\"some\": set one of none, unevictable, all"), "{said}");
    }

    #[test]
    fn what_cannot_be_the_key_of_a_taint_is_refused() {
        for bad in ["a=b:NoSchedule", "/x", "a/", "a b", "A.example/x", "-x", &"x".repeat(64)] {
            let said = parse(&[&format!("--dying-node-taints=karpenter.sh/disrupted,{bad}")]).unwrap_err();
            assert!(said.contains("set keys of taints"), "{said}");
        }
    }
}

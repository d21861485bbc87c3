//! `headgate explain`, and the arguments that locate Headgate for all client commands.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};
use headgate::{
    flags::{is_subdomain, lease_name, namespace},
    kube::installation::{LEASE, NAMESPACE},
};

use super::which::Which;
use crate::explain::{
    command::{Object, Options},
    reach,
};

/// The arguments.
#[derive(Debug, Args)]
pub struct Explain {
    /// A pod (`NAME` or `pod/NAME`), even a deleted pod; or `service/NAME`, `targetbinding/NAME`,
    /// `node/NAME`, `ids/NAME`.
    #[arg(value_parser = object, value_name = "POD|KIND/NAME")]
    object: Object,
    /// Namespace of the object. Default: the namespace of the kubeconfig's context.
    #[arg(short, long, value_parser = namespace, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: Output,
    #[command(flatten)]
    way: Way,
}

/// How an answer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// For programs; the names of the fields are stable.
    Json,
}

/// The way to Headgate. A client reaches the leader through a port that the API server forwards, or connects to an
/// address directly. The first way needs permission to get the Lease, and to get and create `pods/portforward` in
/// Headgate's namespace.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Where Headgate is")]
pub struct Way {
    /// Headgate's namespace; must match `headgate run --own-namespace`.
    #[arg(long, env = "HEADGATE_OWN_NAMESPACE", default_value = NAMESPACE, value_parser = namespace, value_name = "NAMESPACE")]
    own_namespace: String,
    /// Name of the Lease; must match `headgate run --lease-name`.
    #[arg(long, env = "HEADGATE_LEASE_NAME", default_value = LEASE, value_parser = lease_name, value_name = "NAME")]
    lease_name: String,
    /// Port of the debug address; must match `headgate run --debug-address`.
    #[arg(long, default_value_t = 8081, value_name = "PORT")]
    debug_port: u16,
    /// Query this debug address directly, for example through `kubectl port-forward`. Use the address of the leader.
    #[arg(long, value_name = "IP:PORT")]
    address: Option<SocketAddr>,
    #[command(flatten)]
    which: Which,
}

impl Way {
    pub fn way(self) -> reach::Way {
        reach::Way {
            own_namespace: self.own_namespace,
            lease: self.lease_name,
            port: self.debug_port,
            address: self.address,
            which: self.which.cluster(),
        }
    }
}

/// Parses an object in kubectl's notation, such as `service/web`. Without a kind, the object is a pod.
pub fn object(text: &str) -> Result<Object, String> {
    let (kind, name) = text.split_once('/').unwrap_or(("pod", text));
    let of: fn(String) -> Object = match kind {
        "pod" | "pods" | "po" => Object::Pod,
        "service" | "services" | "svc" => Object::Service,
        "targetbinding" | "targetbindings" | "tb" => Object::TargetBinding,
        "node" | "nodes" | "no" => Object::Node,
        "ingressdaemonset" | "ingressdaemonsets" | "ids" => Object::IngressDaemonSet,
        _ => {
            return Err("set a pod, or service/NAME, targetbinding/NAME, node/NAME or ids/NAME".to_owned());
        }
    };
    if is_subdomain(name) {
        Ok(of(name.to_owned()))
    } else {
        Err("set the name of an object: lower-case letters, digits, hyphens and dots".to_owned())
    }
}

impl Explain {
    pub fn options(self) -> Options {
        Options {
            namespace: self.namespace,
            object: self.object,
            way: self.way.way(),
            json: self.output == Output::Json,
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
        explain: Explain,
    }

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let all = ["explain"].iter().chain(arguments);
        let command = Command::try_parse_from(all).map_err(|error| error.to_string())?;
        Ok(command.explain.options())
    }

    #[test]
    fn an_object_is_named_as_kubectl_names_it() {
        let name = || "web-0".to_owned();
        for (named, object) in [
            ("web-0", Object::Pod(name())),
            ("pod/web-0", Object::Pod(name())),
            ("pods/web-0", Object::Pod(name())),
            ("svc/web-0", Object::Service(name())),
            ("service/web-0", Object::Service(name())),
            ("targetbinding/web-0", Object::TargetBinding(name())),
            ("node/web-0", Object::Node(name())),
            ("ids/web-0", Object::IngressDaemonSet(name())),
            ("ingressdaemonset/web-0", Object::IngressDaemonSet(name())),
        ] {
            assert_eq!(parse(&[named, "-n", "shop"]).unwrap().object, object);
        }
        for (bad, expected) in [
            ("Web", "the name of an object"),
            ("deployment/web", "a pod, or service/NAME"),
            ("web?x=y", "the name of an object"),
            ("svc/", "the name of an object"),
            ("", "the name of an object"),
        ] {
            let said = parse(&[bad]).unwrap_err();
            assert!(said.contains(&format!("set {expected}")), "{said}");
        }
    }

    #[test]
    fn headgate_is_where_its_chart_puts_it_unless_it_is_said_where() {
        let way = parse(&["web-0", "-o", "json"]).unwrap();
        assert!(way.json);
        assert_eq!((&*way.way.own_namespace, &*way.way.lease, way.way.port), ("headgate", "headgate", 8081));
        assert!(parse(&["web-0", "--address", "nowhere"]).is_err());
    }
}

//! `headgate migrate`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use headgate::flags::{duration, lease_name, namespace};

use super::explain::Way;
use crate::migrate::command::{Names, Options, Place, Which, Wish};

/// The controller to migrate from.
#[derive(Debug, Subcommand)]
pub enum Migrate {
    /// Migrate TargetGroupBindings from AWS Load Balancer Controller (LBC), or back
    ///
    /// The command shows the targets in AWS, the targets that Headgate wants, and the steps in the only safe order.
    /// Without --apply, the command changes nothing. After a failure, run the command again to continue. Exit code 0:
    /// done, or nothing prevents the migration; 1: a step cannot start; 2: failure.
    #[command(after_help = "Example:\n  headgate migrate lbc --namespace shop --apply --stop-lbc")]
    Lbc(Box<Lbc>),
}

/// The arguments.
#[derive(Debug, Args)]
pub struct Lbc {
    /// Names of the TargetGroupBindings. Default: all TargetGroupBindings.
    #[arg(value_name = "NAME", value_parser = lease_name)]
    names: Vec<String>,
    /// Namespace of the TargetGroupBindings. Default: the namespace of the kubeconfig's context.
    #[arg(short, long, value_parser = namespace, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Migrate the TargetGroupBindings of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Where to write the binding: the annotation of the Service, or a TargetBinding with the name of the
    /// TargetGroupBinding.
    #[arg(long, value_enum, default_value = "annotation", value_name = "WHAT")]
    to: To,
    /// Carry out the migration. Without this flag, the command only shows the plan.
    #[arg(long)]
    apply: bool,
    /// Migrate back to LBC. LBC must run.
    #[arg(long, conflicts_with_all = ["to", "stop_lbc", "lbc_is_stopped", "leave_lbc_stopped"])]
    back: bool,
    #[command(flatten)]
    accept: Accept,
    #[command(flatten)]
    controllers: Controllers,
    /// Maximum duration of one step.
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    timeout: Duration,
    /// Output format. With --apply, `json` prints progress to standard error.
    #[arg(short, long, value_enum, default_value = "table", value_name = "FORMAT")]
    output: Output,
    #[command(flatten)]
    way: Way,
}

/// Effects that the user accepts.
#[derive(Debug, Args)]
pub struct Accept {
    /// Accept that LBC removes the security group rules of a binding (spec.networking), because you created your own
    /// rules.
    #[arg(long = "accept-networking")]
    networking: bool,
    /// With --back: accept that LBC deregisters targets that are not pods of the Service.
    #[arg(long, requires = "back")]
    lbc_may_remove: bool,
    /// Assert that LBC is not running, if its Deployment cannot be found.
    #[arg(long, conflicts_with = "stop_lbc")]
    lbc_is_stopped: bool,
}

/// The Deployments to stop and start.
#[derive(Debug, Args)]
pub struct Controllers {
    /// Scale LBC to 0 when necessary, and scale LBC up again at the end.
    #[arg(long)]
    stop_lbc: bool,
    /// Do not start LBC again, so that you can uninstall LBC.
    #[arg(long)]
    leave_lbc_stopped: bool,
    /// With --back: scale this Deployment of Headgate to 0 for some seconds, so that Headgate releases the targets.
    #[arg(long, requires = "back", value_name = "DEPLOYMENT", value_parser = lease_name)]
    stop_headgate: Option<String>,
    /// Namespace of LBC.
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE", value_parser = namespace)]
    lbc_namespace: String,
    /// Name of LBC's Deployment.
    #[arg(long, default_value = "aws-load-balancer-controller", value_name = "NAME", value_parser = lease_name)]
    lbc_deployment: String,
    /// Name of LBC's webhook configurations.
    #[arg(long, default_value = "aws-load-balancer-webhook", value_name = "NAME", value_parser = lease_name)]
    lbc_webhook: String,
}

/// Where to write a binding.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "lowercase")]
pub enum To {
    /// In the annotation.
    Annotation,
    /// In a TargetBinding.
    TargetBinding,
}

/// How an answer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs; the names of the fields are stable.
    Json,
}

impl Lbc {
    pub fn options(self) -> Options {
        let Self {
            names,
            namespace,
            all_namespaces,
            to,
            apply,
            back,
            accept,
            controllers,
            timeout,
            output,
            way,
        } = self;
        let wishes = [
            (controllers.stop_lbc, Wish::StopLbc),
            (controllers.leave_lbc_stopped, Wish::LeaveLbcStopped),
            (accept.lbc_is_stopped, Wish::LbcIsStopped),
            (accept.networking, Wish::AcceptNetworking),
            (accept.lbc_may_remove, Wish::LbcMayRemove),
        ];
        Options {
            which: Which { namespace, everywhere: all_namespaces, names },
            back,
            to: match to {
                To::Annotation => Place::Annotation,
                To::TargetBinding => Place::TargetBinding,
            },
            wishes: wishes.into_iter().filter(|(is, _)| *is).map(|(_, wish)| wish).collect(),
            apply,
            json: output == Output::Json,
            timeout,
            lbc: Names {
                namespace: controllers.lbc_namespace,
                deployment: controllers.lbc_deployment,
                webhook: controllers.lbc_webhook,
            },
            stop_headgate: controllers.stop_headgate,
            way: way.way(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(subcommand)]
        migrate: Migrate,
    }

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let all = ["migrate", "lbc"].iter().chain(arguments);
        let Migrate::Lbc(lbc) = Command::try_parse_from(all).map_err(|error| error.to_string())?.migrate;
        Ok(lbc.options())
    }

    #[test]
    fn nothing_is_changed_or_stopped_unless_it_is_said() {
        let options = parse(&["web"]).unwrap();
        assert!(!options.apply && !options.back && options.wishes.is_empty());
        assert_eq!((options.to, &*options.which.names), (Place::Annotation, &["web".to_owned()][..]));
        assert_eq!(parse(&["--to=targetbinding"]).unwrap().to, Place::TargetBinding);
        let wishes = parse(&["--stop-lbc", "--accept-networking"]).unwrap().wishes;
        assert_eq!(wishes, [Wish::StopLbc, Wish::AcceptNetworking].into());
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for bad in [
            &["--stop-lbc", "--lbc-is-stopped"][..],
            &["--back", "--stop-lbc"],
            &["--stop-headgate=headgate"],
            &["-A", "-n", "shop"],
            &["--lbc-may-remove"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}

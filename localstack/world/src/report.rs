//! Formats the output of the commands from the facts. The module is pure.

use std::path::Path;

use crate::{component::Component, facts::Facts};

/// Returns the final output of `world up`. `program`: the name with which the user called this program.
pub(crate) fn up(facts: &Facts, program: &str) -> String {
    let name =
        if facts.name.as_str() == "default" { String::new() } else { format!(" --name {}", facts.name) };
    let has = |component| facts.components.iter().any(|facts| facts.name == component);
    let nodes: usize = facts.zones.iter().map(|zone| zone.nodes.len()).sum();
    let has_nodes = has(Component::Kubelet) || has(Component::Nodes);
    let nodes = if has_nodes { format!("{nodes} {} nodes", facts.nodes) } else { "no nodes".to_owned() };
    let mut lines = vec![format!(
        "World {} is up: Kubernetes {}, {nodes}, {} zones, VPC {} ({}).",
        facts.name,
        facts.kubernetes_version,
        facts.zones.len(),
        facts.vpc,
        facts.vpc_cidr,
    )];
    let mut rows = vec![("Kubernetes API", facts.api_server.clone())];
    if has(Component::Elbv2) {
        rows.push(("ELBv2 API", facts.aws_endpoint.clone()));
        rows.push(("ELBv2 control", facts.elbv2_control.clone()));
        rows.push(("DNS (UDP)", facts.dns.clone()));
    }
    if has_nodes {
        rows.push(("kubelet control", facts.kubelet_control.clone()));
    }
    rows.push(("kubeconfig", facts.kubeconfig.display().to_string()));
    rows.push(("logs", facts.logs.display().to_string()));
    lines.extend(rows.into_iter().map(|(what, place)| format!("  {what:<16} {place}")));
    lines.push("Go on with".to_owned());
    if facts.network_namespace.is_some() {
        lines.push(format!(
            "  {program} exec{name} -- bash         # a shell in the world's network: outside nothing of it answers"
        ));
    }
    lines.push(format!(
        "  eval \"$({program} env{name})\"   # kubectl, KUBECONFIG and AWS settings for this shell"
    ));
    lines.push(format!("  {program} down{name}            # stops everything and removes its folder"));
    joined(&lines)
}

fn joined(lines: &[String]) -> String {
    lines.join("\n") + "\n"
}

/// Returns the output of `world status`: a table with one line per component.
pub(crate) fn status(facts: &Facts) -> String {
    let mut rows = vec![["COMPONENT", "STATE", "PID", "ADDRESS", "LOG"].map(str::to_owned)];
    for component in &facts.components {
        let pid = component.process.filter(|process| process.is_alive());
        let state = match &component.ended {
            Some(how) => format!("{} ({how})", component.state),
            None => component.state.to_string(),
        };
        rows.push([
            component.name.to_string(),
            state,
            pid.map_or_else(|| "-".to_owned(), |process| process.pid.to_string()),
            component.address.clone(),
            component.log.display().to_string(),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..4).map(width).collect();
    let line = |row: &[String; 5]| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.chain([row[4].clone()]).collect::<Vec<_>>().join("  ")
    };
    joined(&rows.iter().map(line).collect::<Vec<_>>())
}

/// Returns the output of `world env`: lines for a shell.
pub(crate) fn environment(facts: &Facts) -> String {
    let subnets: Vec<&str> = facts.zones.iter().map(|zone| zone.subnet_id.as_str()).collect();
    let path = |path: &Path| path.display().to_string();
    let variables = [
        ("KUBECONFIG", path(&facts.kubeconfig)),
        // The endpoint applies only to ELBv2, because the stand-in provides no other service.
        ("AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2", facts.aws_endpoint.clone()),
        ("AWS_REGION", facts.region.clone()),
        ("AWS_DEFAULT_REGION", facts.region.clone()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ("AWS_PAGER", String::new()),
        ("HEADGATE_WORLD_CONTROL", facts.elbv2_control.clone()),
        ("HEADGATE_WORLD_DNS", facts.dns.clone()),
        ("HEADGATE_WORLD_VPC", facts.vpc.clone()),
        ("HEADGATE_WORLD_SUBNETS", subnets.join(" ")),
        ("HEADGATE_WORLD_KUBELET_CONTROL", facts.kubelet_control.clone()),
    ];
    let mut lines: Vec<String> =
        variables.iter().map(|(name, value)| format!("export {name}={}", quoted(value))).collect();
    if let Some(folder) = facts.kubectl.parent() {
        lines.push(format!("export PATH={}:\"$PATH\"", quoted(&path(folder))));
    }
    joined(&lines)
}

/// Quotes a text for any POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        component::State,
        plan::{Plan, tests::plan},
        process::Process,
    };

    fn facts() -> Facts {
        Facts::of(&plan(), Process::current())
    }

    #[test]
    fn the_environment_names_the_load_balancer_endpoint_and_no_other() {
        let text = environment(&facts());
        assert!(
            text.contains("export AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2='http://127.107.192.1:6'\n")
        );
        assert!(!text.contains("AWS_ENDPOINT_URL="), "{text}");
        assert!(text.contains("export HEADGATE_WORLD_SUBNETS='subnet-a subnet-b'\n"), "{text}");
        assert!(text.contains("export AWS_PAGER=''\n"), "{text}");
        assert!(text.ends_with("export PATH='/cache/worlds/default/bin':\"$PATH\"\n"), "{text}");
    }

    #[test]
    fn a_shell_takes_a_strange_path_as_it_is() {
        let plan = Plan { folder: "/it's here/$(rm)".into(), ..plan() };
        let text = environment(&Facts::of(&plan, Process::current()));
        assert!(text.contains(r"export KUBECONFIG='/it'\''s here/$(rm)/kubeconfig'"), "{text}");
    }

    #[test]
    fn the_table_says_how_a_component_ended() {
        let mut facts = facts();
        facts.components[0].state = State::Failed;
        facts.components[0].ended = Some("exit status: 1".to_owned());
        let text = status(&facts);
        let etcd = text.lines().nth(1).unwrap();
        assert!(etcd.starts_with("etcd ") && etcd.contains("failed (exit status: 1)  -  "), "{text}");
        assert!(etcd.ends_with("/logs/etcd.log"), "{text}");
        assert_eq!(text.lines().count(), 7);
    }

    #[test]
    fn the_lines_to_go_on_with_name_the_world_unless_it_is_the_default() {
        assert!(up(&facts(), "world").contains("eval \"$(world env)\""));
        let mut other = facts();
        other.name = "blue".parse().unwrap();
        assert!(up(&other, "world").contains("world down --name blue"));
    }
}

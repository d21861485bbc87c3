//! DescribeAccountLimits: returns the configured quotas, or the defaults of AWS.

use super::Api;
use super::xml::Xml;

pub fn describe_limits(api: &Api) -> Xml {
    let quotas = api.shared.with(|model, _| model.behaviour().quotas).unwrap_or_default();
    let limits = [
        ("target-groups", quotas.target_groups),
        ("targets-per-application-load-balancer", quotas.targets_per_application),
        ("targets-per-network-load-balancer", quotas.targets_per_network),
        ("targets-per-availability-zone-per-network-load-balancer", quotas.targets_per_zone),
    ];
    let mut xml = Xml::default();
    xml.list("Limits", limits, |member, (name, most)| {
        member.text("Name", name).text("Max", most);
    });
    xml
}

//! Determines the proxy for connections to the API server, with kubectl's rules.
//!
//! * `proxy-url` of the kubeconfig's cluster has priority, and `NO_PROXY` does not apply to it (client-go:
//!   `http.ProxyURL`).
//! * Without `proxy-url`, `HTTPS_PROXY` applies, or `HTTP_PROXY` for a cluster without TLS. The exceptions are API
//!   servers that `NO_PROXY` names, and loopback addresses (Go: `http.ProxyFromEnvironment`). Each variable name may
//!   also be in lower case.
//! * A client that runs in a pod with its ServiceAccount uses no proxy, because the API server is in the cluster. In a
//!   pod, the proxy variables are for AWS.

use std::net::IpAddr;

use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use thiserror::Error;

/// The proxy setting is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "cannot use the proxy of {from}: it is not a URL of http, https or socks5. Set one such as \
     http://proxy.example.com:3128"
)]
pub struct ProxyError {
    /// The name of the invalid setting. The error omits the URL, which may contain a password.
    from: &'static str,
}

/// Returns the proxy for the cluster at `cluster`. `named` is the proxy in the cluster's kubeconfig. `variable` reads
/// an environment variable.
///
/// # Errors
/// The setting does not contain a valid proxy URL.
pub fn of(
    cluster: &Uri,
    named: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Uri>, ProxyError> {
    let named = named.filter(|named| !named.is_empty());
    if let Some(named) = named {
        return read(named, "proxy-url in the kubeconfig").map(Some);
    }
    let either = |upper: &'static str, lower: &'static str| {
        [upper, lower]
            .into_iter()
            .find_map(|name| Some((name, variable(name).filter(|text| !text.is_empty())?)))
    };
    let set = match cluster.scheme_str() {
        Some("http") => either("HTTP_PROXY", "http_proxy"),
        _ => either("HTTPS_PROXY", "https_proxy"),
    };
    let Some((from, text)) = set.filter(|_| !is_local(cluster)) else { return Ok(None) };
    let none_for = either("NO_PROXY", "no_proxy").map(|(_, text)| for_port(&text, port(cluster)));
    // The matcher only decides whether to use a proxy, so its URL does not matter.
    let matcher = Matcher::builder().all("http://proxy").no(none_for.unwrap_or_default()).build();
    if matcher.intercept(cluster).is_none() {
        return Ok(None);
    }
    read(&text, from).map(Some)
}

fn read(text: &str, from: &'static str) -> Result<Uri, ProxyError> {
    let text = text.trim();
    // As curl and Go do, Headgate treats a URL without a scheme as an HTTP proxy.
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    // The proxy resolves host names for both schemes.
    let text = text.strip_prefix("socks5h://").map_or(text.clone(), |rest| format!("socks5://{rest}"));
    let proxy: Uri = text.parse().map_err(|_| ProxyError { from })?;
    let is_known = matches!(proxy.scheme_str(), Some("http" | "https" | "socks5"));
    if is_known && proxy.host().is_some_and(|host| !host.is_empty()) {
        Ok(proxy)
    } else {
        Err(ProxyError { from })
    }
}

fn host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_matches(['[', ']'])
}

fn port(uri: &Uri) -> u16 {
    uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 })
}

fn is_local(cluster: &Uri) -> bool {
    let host = host(cluster);
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// The entries of `NO_PROXY` that apply to the port `wanted`. An entry may contain a port. A domain entry may begin
/// with `*.`, which is removed.
fn for_port(text: &str, wanted: u16) -> String {
    let counts = |entry: &str| {
        let entry = entry.trim();
        let entry = entry.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(entry);
        match entry.rsplit_once(':') {
            // An IPv6 address without brackets contains no port.
            Some((host, _)) if host.contains(':') && !host.ends_with(']') => Some(entry.to_owned()),
            Some((host, port)) => {
                (port.parse() == Ok(wanted)).then(|| host.trim_matches(['[', ']']).to_owned())
            }
            None => Some(entry.to_owned()),
        }
    };
    text.split(',').filter_map(counts).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cluster: &str, named: Option<&str>, environment: &[(&str, &str)]) -> Option<String> {
        let variable =
            |name: &str| environment.iter().find(|(is, _)| *is == name).map(|(_, value)| (*value).to_owned());
        of(&cluster.parse().unwrap(), named, variable).unwrap().map(|uri| uri.to_string())
    }

    const CLUSTER: &str = "https://ABC.gr7.eu-west-1.eks.amazonaws.com";

    #[test]
    fn the_kubeconfig_counts_before_the_environment_and_whatever_no_proxy_says() {
        let all = [("HTTPS_PROXY", "http://other:1"), ("NO_PROXY", "*")];
        for cluster in [CLUSTER, "https://127.0.0.1:6443"] {
            let found = found(cluster, Some("socks5://bastion:1080"), &all);
            assert_eq!(found.as_deref(), Some("socks5://bastion:1080/"));
        }
        assert_eq!(found(CLUSTER, Some(""), &[]), None);
    }

    #[test]
    fn the_environment_counts_as_for_kubectl() {
        let proxy = ("HTTPS_PROXY", "http://proxy.corp.example:3128");
        let url = Some("http://proxy.corp.example:3128/");
        for (cluster, environment, expected) in [
            (CLUSTER, &[proxy][..], url),
            (CLUSTER, &[("https_proxy", "proxy.corp.example:3128")], url),
            (
                CLUSTER,
                &[("HTTPS_PROXY", "socks5h://user:x@bastion:1080")],
                Some("socks5://user:x@bastion:1080/"),
            ),
            (CLUSTER, &[("HTTP_PROXY", "http://p:1")], None),
            ("http://10.0.0.1:8080", &[("HTTP_PROXY", "http://p:1")], Some("http://p:1/")),
            // `NO_PROXY` does not apply to the host name of the proxy.
            (CLUSTER, &[proxy, ("NO_PROXY", ".corp.example,10.0.0.0/8")], url),
            (CLUSTER, &[proxy, ("NO_PROXY", ".eks.amazonaws.com")], None),
            (CLUSTER, &[proxy, ("NO_PROXY", "localhost, *.eks.amazonaws.com,")], None),
            (CLUSTER, &[proxy, ("no_proxy", "amazonaws.com:443")], None),
            (CLUSTER, &[proxy, ("NO_PROXY", "amazonaws.com:8443")], url),
            (CLUSTER, &[proxy, ("NO_PROXY", "*")], None),
            ("https://10.100.0.1", &[proxy, ("NO_PROXY", "10.0.0.0/8")], None),
            ("https://10.100.0.1", &[proxy, ("NO_PROXY", "10.100.0.1")], None),
            ("https://10.100.0.1", &[proxy, ("NO_PROXY", "192.168.0.0/16")], url),
            ("https://[fd00::1]:6443", &[proxy, ("NO_PROXY", "fd00::1")], None),
            ("https://[fd00::1]:6443", &[proxy, ("NO_PROXY", "[fd00::1]:6443")], None),
            ("https://[fd00::1]:6443", &[proxy, ("NO_PROXY", "fd00::2")], url),
            ("https://127.0.0.1:6443", &[proxy], None),
            ("https://localhost:6443", &[proxy], None),
            ("https://[::1]:6443", &[proxy], None),
        ] {
            assert_eq!(found(cluster, None, environment).as_deref(), expected, "{cluster} {environment:?}");
        }
    }

    #[test]
    fn what_is_no_proxy_is_said_without_its_password() {
        for odd in ["ftp://proxy:1", "http://", "not a url", "socks4://user:secret@p:1"] {
            let error = of(&CLUSTER.parse().unwrap(), Some(odd), |_| None).unwrap_err().to_string();
            assert!(error.contains("Set one such as http://proxy.example.com:3128"), "{error}");
            assert!(error.contains("proxy-url in the kubeconfig") && !error.contains("secret"), "{error}");
        }
    }
}

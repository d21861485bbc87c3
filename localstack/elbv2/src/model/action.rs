//! The actions of listeners and rules: forward a request, answer it, or redirect the client.

use super::{GroupId, Kind, Refusal};

/// One target group of a forward action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    pub group: GroupId,
    /// The weight, from 0 to 999. The share of the traffic is the weight divided by the sum of all weights.
    pub weight: u32,
}

/// An answer that the load balancer itself generates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedResponse {
    /// The HTTP status, from 200 to 299 or from 400 to 599.
    pub status: u16,
    /// The content type, which is one of the five types that AWS supports.
    pub content_type: Option<String>,
    /// The body, with up to 1,024 characters.
    pub body: String,
}

/// The address of a redirect. `#{protocol}`, `#{host}`, `#{port}`, `#{path}` and `#{query}` are replaced by the values
/// of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields of RedirectConfig
pub struct Redirect {
    pub permanent: bool,
    pub protocol: String,
    pub host: String,
    pub port: String,
    pub path: String,
    pub query: String,
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Forwards the request to one of these target groups. The list is not empty.
    Forward(Vec<Forward>),
    /// The load balancer itself answers the request.
    Fixed(FixedResponse),
    /// Redirects the client.
    Redirect(Redirect),
}

impl From<Vec<Forward>> for Action {
    fn from(forwards: Vec<Forward>) -> Self {
        Self::Forward(forwards)
    }
}

impl Action {
    /// Returns the target groups that the action forwards to.
    pub fn forwards(&self) -> &[Forward] {
        match self {
            Self::Forward(forwards) => forwards,
            Self::Fixed(_) | Self::Redirect(_) => &[],
        }
    }

    /// Rejects actions that a kind of load balancer does not support.
    pub fn check(&self, kind: Kind) -> Result<(), Refusal> {
        match self {
            Self::Forward(forwards) if forwards.is_empty() => {
                Err(Refusal::validation("A listener must have at least one default action"))
            }
            Self::Forward(_) => Ok(()),
            _ if kind == Kind::Network => Err(Refusal::InvalidLoadBalancerAction(
                "A listener of a Network Load Balancer has actions of type 'forward' only".to_owned(),
            )),
            Self::Fixed(fixed) => fixed.check(),
            Self::Redirect(redirect) => redirect.check(),
        }
    }
}

impl FixedResponse {
    fn check(&self) -> Result<(), Refusal> {
        const TYPES: [&str; 5] =
            ["text/plain", "text/css", "text/html", "application/javascript", "application/json"];
        if !matches!(self.status, 200..=299 | 400..=599) {
            return Err(Refusal::validation(format!(
                "The status code '{}' is not 2XX, 4XX or 5XX",
                self.status
            )));
        }
        if self.content_type.as_ref().is_some_and(|kind| !TYPES.contains(&kind.as_str())) {
            return Err(Refusal::validation(format!(
                "The content type must be one of '{}'",
                TYPES.join(", ")
            )));
        }
        if self.body.chars().count() > 1024 {
            return Err(Refusal::validation("The message body can have up to 1024 characters"));
        }
        Ok(())
    }
}

impl Redirect {
    fn check(&self) -> Result<(), Refusal> {
        let same = (self.protocol.as_str(), self.host.as_str(), self.port.as_str(), self.path.as_str())
            == ("#{protocol}", "#{host}", "#{port}", "/#{path}");
        if same {
            return Err(Refusal::validation(
                "A redirect must change at least one of protocol, host, port and path, or it would never end",
            ));
        }
        if !["HTTP", "HTTPS", "#{protocol}"].contains(&self.protocol.as_str()) {
            return Err(Refusal::validation(format!(
                "The redirect protocol '{}' is not valid",
                self.protocol
            )));
        }
        if !self.path.starts_with('/') {
            return Err(Refusal::validation(format!(
                "The redirect path '{}' must begin with '/'",
                self.path
            )));
        }
        Ok(())
    }

    /// Returns the redirect address for a request.
    pub fn location(&self, host: &str, port: u16, path: &str, query: &str) -> String {
        let fill = |text: &str| {
            text.replace("#{protocol}", "http")
                .replace("#{host}", host)
                .replace("#{port}", &port.to_string())
                .replace("#{path}", path.trim_start_matches('/'))
                .replace("#{query}", query)
        };
        let protocol = fill(&self.protocol).to_ascii_lowercase();
        let query = fill(&self.query);
        let query = if query.is_empty() { query } else { format!("?{query}") };
        format!("{protocol}://{}:{}{}{query}", fill(&self.host), fill(&self.port), fill(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_keeps_what_it_does_not_change() {
        let redirect = Redirect {
            permanent: true,
            protocol: "HTTPS".into(),
            host: "#{host}".into(),
            port: "443".into(),
            path: "/#{path}".into(),
            query: "#{query}".into(),
        };
        assert_eq!(redirect.location("a.example", 80, "/b/c", "d=e"), "https://a.example:443/b/c?d=e");
    }
}

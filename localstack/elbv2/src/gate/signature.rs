//! Checks the presence, form and scope of version 4 signatures. The signature itself is never verified, because the
//! stand-in has no secrets.

use axum::http::HeaderMap;

use super::TurnedAway;
use crate::behaviour::Signatures;

/// The service name in signatures. Classic Load Balancer has the same name.
const SERVICE: &str = "elasticloadbalancing";

/// The signature of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signature {
    /// The Authorization header, or the query parameters in the same form.
    text: Option<String>,
    /// The access key, date, region, service and terminator.
    scope: Option<[String; 5]>,
}

impl Signature {
    /// Reads the signature from the headers of a call.
    pub fn read(headers: &HeaderMap) -> Self {
        let Some(text) = headers.get("authorization").map(|value| String::from_utf8_lossy(value.as_bytes()))
        else {
            return Self::default();
        };
        Self { scope: scope(&text), text: Some(text.into_owned()) }
    }

    /// Returns the access key, or an empty string for a call without a signature.
    pub fn access_key(&self) -> &str {
        self.scope.as_ref().map_or("", |[key, ..]| key)
    }

    /// Checks the signature and returns the access key.
    pub(super) fn check(&self, wanted: Signatures, region: &str) -> Result<&str, TurnedAway> {
        if wanted == Signatures::Ignored {
            return Ok(self.access_key());
        }
        let Some(text) = &self.text else {
            return if wanted == Signatures::IfPresent {
                Ok("")
            } else {
                Err(TurnedAway::new(
                    403,
                    "MissingAuthenticationToken",
                    "Request is missing Authentication Token",
                ))
            };
        };
        let Some([key, date, for_region, service, end]) = &self.scope else {
            return Err(TurnedAway::new(
                400,
                "IncompleteSignature",
                format!(
                    "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature' parameters. Authorization={text}"
                ),
            ));
        };
        let wrong = |why: String| Err(TurnedAway::new(403, "SignatureDoesNotMatch", why));
        if for_region != region {
            return wrong(format!("Credential should be scoped to a valid region, not '{for_region}'. "));
        }
        if service != SERVICE {
            return wrong(format!("Credential should be scoped to correct service: '{SERVICE}'. "));
        }
        if end != "aws4_request" {
            return wrong(format!(
                "Credential should be scoped with a valid terminator: 'aws4_request', not '{end}'. "
            ));
        }
        if date.len() != 8 || !date.bytes().all(|digit| digit.is_ascii_digit()) {
            return wrong(format!("Date in Credential scope should be of the form YYYYMMDD, not '{date}'. "));
        }
        Ok(key)
    }
}

/// Returns the credential scope of a header. `None`: the header is incomplete.
fn scope(text: &str) -> Option<[String; 5]> {
    let rest = text.strip_prefix("AWS4-HMAC-SHA256")?;
    let parameter = |name: &str| {
        let mut parts = rest.split(',').map(str::trim);
        parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).filter(|value| !value.is_empty())
    };
    let (credential, _) = (parameter("Credential")?, parameter("SignedHeaders")?);
    let signature = parameter("Signature")?;
    if signature.len() != 64 || !signature.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    // Access keys contain no slash. The four other parts are the scope.
    let parts: Vec<String> = credential.split('/').map(str::to_owned).collect();
    parts.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: Option<&str>, wanted: Signatures) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        if let Some(text) = text {
            headers.insert("authorization", text.parse().unwrap());
        }
        let signature = Signature::read(&headers);
        signature.check(wanted, "us-east-1").map(str::to_owned).map_err(|refused| refused.code)
    }

    fn header(scope: &str) -> String {
        let digits = "0".repeat(64);
        format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, Signature={digits}")
    }

    #[test]
    fn the_access_key_of_a_sound_signature_is_known() {
        let header = header("AKID/20261121/us-east-1/elasticloadbalancing/aws4_request");
        assert_eq!(check(Some(&header), Signatures::Required), Ok("AKID".into()));
    }

    #[test]
    fn another_region_service_date_or_end_does_not_match() {
        for scope in [
            "AKID/20261121/eu-west-1/elasticloadbalancing/aws4_request",
            "AKID/20261121/us-east-1/ec2/aws4_request",
            "AKID/today/us-east-1/elasticloadbalancing/aws4_request",
            "AKID/20261121/us-east-1/elasticloadbalancing/aws2_request",
        ] {
            let refused = check(Some(&header(scope)), Signatures::IfPresent);
            assert_eq!(refused, Err("SignatureDoesNotMatch".into()), "{scope}");
        }
    }

    #[test]
    fn a_header_that_is_no_signature_is_incomplete() {
        for text in ["Bearer x", "AWS4-HMAC-SHA256 Credential=a/b/c/d/e, Signature=ab", ""] {
            assert_eq!(check(Some(text), Signatures::IfPresent), Err("IncompleteSignature".into()), "{text}");
            assert_eq!(check(Some(text), Signatures::Ignored), Ok(String::new()));
        }
    }

    #[test]
    fn a_call_without_signature_is_refused_only_where_one_is_required() {
        assert_eq!(check(None, Signatures::IfPresent), Ok(String::new()));
        assert_eq!(check(None, Signatures::Required), Err("MissingAuthenticationToken".into()));
    }
}

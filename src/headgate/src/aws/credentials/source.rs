//! The source of the credentials as text, derived from environment variables.

/// The provider that should have credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    name: String,
    advice: &'static str,
}

impl Source {
    /// Checks the providers in the SDK's order.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        if set("AWS_ACCESS_KEY_ID").is_some() {
            let advice = "Set AWS_SECRET_ACCESS_KEY too";
            return Self { name: "the environment (AWS_ACCESS_KEY_ID)".into(), advice };
        }
        if let Some(profile) = set("AWS_PROFILE") {
            let advice = "Add credentials to that profile";
            return Self { name: format!("the profile {profile} (AWS_PROFILE)"), advice };
        }
        if let (Some(file), Some(role)) = (set("AWS_WEB_IDENTITY_TOKEN_FILE"), set("AWS_ROLE_ARN")) {
            let name = format!("web identity (IRSA) of the role {role} with the token in {file}");
            let advice = "Check that the role exists and trusts the ServiceAccount, that the token exists, and that STS is reachable";
            return Self { name, advice };
        }
        let agent = set("AWS_CONTAINER_CREDENTIALS_FULL_URI")
            .or_else(|| set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"));
        if let Some(agent) = agent {
            let advice =
                "Associate the ServiceAccount with a role, and check the EKS Pod Identity Agent on the node";
            return Self { name: format!("EKS Pod Identity ({agent})"), advice };
        }
        let advice = "Give the ServiceAccount a role (IRSA or EKS Pod Identity), or let pods reach the metadata service of \
                      the instance";
        Self { name: "the instance's metadata".into(), advice }
    }

    /// The error message for a provider that returns no credentials.
    pub fn fault(&self, why: &str) -> String {
        format!("{}: {why}. {}", self.name, self.advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_is_named_as_the_environment_has_it_and_what_is_blank_is_not_set() {
        let web = [("AWS_ROLE_ARN", "arn:aws:iam::1:role/x"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token")];
        let key = ("AWS_ACCESS_KEY_ID", "k");
        let agent = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials");
        let blank = ("AWS_ACCESS_KEY_ID", " ");
        for (variables, said) in [
            (vec![key, web[0], web[1]], "the environment (AWS_ACCESS_KEY_ID): why"),
            (vec![("AWS_PROFILE", "dev")], "the profile dev (AWS_PROFILE): why"),
            (
                vec![blank, web[0], web[1], agent],
                "of the role arn:aws:iam::1:role/x with the token in /token: why",
            ),
            (vec![web[0], agent], "EKS Pod Identity (http://169.254.170.23/v1/credentials): why"),
            (vec![web[0]], "the instance's metadata: why"),
        ] {
            let of = |name: &str| {
                let found = variables.iter().find(|(is, _)| *is == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let fault = Source::of(of).fault("why");
            assert!(fault.contains(said) && fault.contains("why. "), "{fault}");
        }
    }
}

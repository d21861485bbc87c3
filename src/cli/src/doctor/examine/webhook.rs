//! The webhooks for new pods and for evictions: whether they are there, trusted, and asked.

use headgate::webhook::secret::OWN_ENTRIES;

use crate::doctor::{
    facts::{Entry, Looked, Path, Tried, Webhook},
    finding::Finding,
};

/// One of the two kinds of configurations.
struct Kind {
    name: &'static str,
    /// The file that users apply.
    file: &'static str,
    /// What happens without it.
    without: &'static str,
}

const MUTATING: Kind = Kind {
    name: "MutatingWebhookConfiguration",
    file: "config/webhook/mutating.yaml",
    without: "no new pod is given the readiness gate and the hold",
};
const VALIDATING: Kind = Kind {
    name: "ValidatingWebhookConfiguration",
    file: "config/webhook/validating.yaml",
    without: "no eviction waits for its pod to be deregistered",
};

pub fn examine(webhook: &Webhook) -> Vec<Finding> {
    let mut found = configuration(webhook, &MUTATING, &webhook.mutating);
    found.extend(configuration(webhook, &VALIDATING, &webhook.validating));
    let about = format!("{} {}", MUTATING.name, webhook.name);
    match &webhook.tried {
        Err(why) => found.push(Finding::warning("WebhookUntried", about, why)),
        Ok(Tried::Silent { namespace }) => {
            let said = format!(
                "a pod that asked for it in namespace {namespace} was given nothing; expected the API server to reach \
                 `headgate run --webhook-address` through the Service of the configuration, to trust its certificate, \
                 and its selectors to match; Headgate's log has connections that failed"
            );
            found.push(Finding::error("WebhookSilent", about, said));
        }
        Ok(Tried::Asked | Tried::Not) => {}
    }
    found
}

fn configuration(webhook: &Webhook, kind: &Kind, looked: &Looked<Option<Vec<Entry>>>) -> Vec<Finding> {
    let about = format!("{} {}", kind.name, webhook.name);
    let entries = match looked {
        Err(why) => return vec![Finding::warning("WebhookUnchecked", about, why)],
        Ok(None) => {
            let said = format!(
                "it is not there, so {}; expected that of {}, or its name in --webhook-configuration; fine without \
                 `headgate run --webhook-address`",
                kind.without, kind.file
            );
            return vec![Finding::warning("WebhookMissing", about, said)];
        }
        Ok(Some(entries)) => entries,
    };
    let is_own = |entry: &&Entry| OWN_ENTRIES.iter().any(|own| entry.name.ends_with(own));
    let own: Vec<&Entry> = entries.iter().filter(is_own).collect();
    if own.is_empty() {
        let said =
            format!("no entry of it ends in {}; expected those of {}", OWN_ENTRIES.join(" or "), kind.file);
        return vec![Finding::error("WebhookMissing", about, said)];
    }
    own.iter().flat_map(|own| entry(own, webhook, &format!("{about}, {}", own.name))).collect()
}

fn entry(entry: &Entry, webhook: &Webhook, about: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    match &webhook.authorities {
        Ok(Some(authorities)) if *authorities != entry.bundle => found.push(Finding::error(
            "WebhookUntrusted",
            about,
            "its caBundle is not what Headgate's Secret has in ca.crt, so the API server does not trust Headgate; the \
             leader mends that within 10 s if it may patch the configuration (config/rbac/webhook.yaml)",
        )),
        Ok(None) if entry.bundle.is_empty() => found.push(Finding::error(
            "WebhookUntrusted",
            about,
            "its caBundle is empty, and Headgate has no Secret with a certificate; expected `headgate run \
             --webhook-address`, or cert-manager to fill it in",
        )),
        Err(why) => found.push(Finding::warning("WebhookUnchecked", about, why)),
        Ok(_) => {}
    }
    match entry.path {
        Path::Bare => found.push(Finding::warning(
            "WebhookPathOpen",
            about,
            "it calls a path that is no secret, so whoever reaches the webhook can ask in the API server's name; the \
             leader writes the secret one when every replica serves it (a minute after the installation), if it has the roles of config/rbac/webhook.yaml; its log says what it waits for",
        )),
        Path::Other => found.push(Finding::warning(
            "WebhookPathOther",
            about,
            "it calls a secret path that is not the one of Headgate's Secret; the leader mends that within 10 s when \
             every replica serves it, if it may patch the configuration (config/rbac/webhook.yaml)",
        )),
        Path::Present | Path::Uncompared => {}
    }
    if !entry.ignores_failures {
        let said = "its failurePolicy is not Ignore: what it is asked about is refused while no Headgate answers, and \
                    whoever is refused is shown the secret path; expected Ignore";
        found.push(Finding::error("WebhookRefuses", about, said));
    }
    found
}

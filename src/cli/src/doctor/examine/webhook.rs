//! Checks whether the webhook configurations exist, the API server trusts the webhooks, and the API server calls the
//! webhooks.

use headgate::certificates::configurations::OWN_ENTRIES;
use headgate_core::Reason;

use crate::doctor::{
    facts::{Entry, Path, Reserved, Tried, Unseen, Webhook},
    finding::Finding,
};

/// One of the two webhook configurations.
struct Kind {
    name: &'static str,
    /// The manifest of the configuration.
    file: &'static str,
    /// The effect of a missing configuration.
    without: &'static str,
}

const MUTATING: Kind = Kind {
    name: "MutatingWebhookConfiguration",
    file: "config/webhook/mutating.yaml",
    without: "no new pod gets the readiness gate and the hold",
};
const VALIDATING: Kind = Kind {
    name: "ValidatingWebhookConfiguration",
    file: "config/webhook/validating.yaml",
    without: "no eviction waits for its pod to be deregistered",
};

pub fn examine(webhook: &Webhook) -> Vec<Finding> {
    let mut found = configuration(webhook, &MUTATING, &webhook.mutating);
    found.extend(configuration(webhook, &VALIDATING, &webhook.validating));
    // A caller without permission to read the configuration cannot compare it with the Secret.
    let is_forbidden = matches!(webhook.mutating, Err(Unseen::Forbidden(_)));
    if let (Err(why), false) = (&webhook.authorities, is_forbidden) {
        let about = format!("caBundle and path, compared with Secret {}", webhook.secret);
        found.push(Finding::unseen(about, why));
    }
    let about = format!("{} {}", MUTATING.name, webhook.name);
    match &webhook.tried {
        Err(why) => found.push(Finding::unseen(about, why)),
        Ok(Tried::Silent { namespace }) => {
            let said = format!(
                "a pod that asked for it in namespace {namespace} got nothing: check that the API server \
                 reaches `headgate run --webhook-address` through the Service of the configuration, that it \
                 trusts the certificate, and that the selectors match; Headgate's log has connections that \
                 failed"
            );
            found.push(Finding::error(Reason::WebhookFails, about, said));
        }
        Ok(Tried::Asked | Tried::Not) => {}
    }
    found
}

fn configuration(webhook: &Webhook, kind: &Kind, looked: &Reserved<Option<Vec<Entry>>>) -> Vec<Finding> {
    let about = format!("{} {}", kind.name, webhook.name);
    let entries = match looked {
        Err(why) => return vec![Finding::unseen(about, why)],
        Ok(None) => {
            let said = format!(
                "it does not exist, so {}. Apply that of {}, or name it in --webhook-configuration. Not \
                 needed without `headgate run --webhook-address`",
                kind.without, kind.file
            );
            return vec![Finding::warning(Reason::NotInstalled, about, said)];
        }
        Ok(Some(entries)) => entries,
    };
    let is_own = |entry: &&Entry| OWN_ENTRIES.iter().any(|own| entry.name.ends_with(own));
    let own: Vec<&Entry> = entries.iter().filter(is_own).collect();
    if own.is_empty() {
        let said =
            format!("none of its entries ends in {}. Apply those of {}", OWN_ENTRIES.join(" or "), kind.file);
        return vec![Finding::error(Reason::NotInstalled, about, said)];
    }
    own.iter().flat_map(|own| entry(own, webhook, &format!("{about}, {}", own.name))).collect()
}

fn entry(entry: &Entry, webhook: &Webhook, about: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    match &webhook.authorities {
        Ok(Some(authorities)) if *authorities != entry.bundle => found.push(Finding::error(
            Reason::WebhookFails,
            about,
            "its caBundle differs from ca.crt in the Secret, so the API server does not trust Headgate. \
             Check the log of `headgate certificates`, which repairs that within 30 s",
        )),
        Ok(None) if entry.bundle.is_empty() => found.push(Finding::error(
            Reason::WebhookFails,
            about,
            "its caBundle is empty, and there is no Secret of `headgate certificates`. Run `headgate \
             certificates`, or let cert-manager set caBundle",
        )),
        Ok(_) | Err(_) => {}
    }
    if entry.path == Path::Other {
        found.push(Finding::error(
            Reason::WebhookFails,
            about,
            "it calls another path than the served one, so its requests are rejected. Check the log of \
             `headgate certificates`, which repairs that within 30 s; with your own certificate the path is \
             /headgate",
        ));
    }
    if !entry.ignores_failures {
        let said = "its failurePolicy is not Ignore: requests are rejected while no Headgate answers, and \
                    the error shows the secret path. Set Ignore";
        found.push(Finding::error(Reason::WebhookFails, about, said));
    }
    found
}

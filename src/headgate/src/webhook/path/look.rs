//! Reads Secret and configurations on every replica: every ten seconds, and when a path was asked for that is not known.
//!
//! It writes nothing. What cannot be read stays as it was read before; a failure is logged when it begins and changes.

use std::{sync::atomic::Ordering, time::Duration};

use headgate_core::secret_path::Times;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::{Entry, Known, Publisher, named::Configurations, stored};
use crate::redact::redacted;
use crate::webhook::{
    Own,
    secret::{now, period, within},
};

/// At most one look in this time, however many unknown paths are asked for.
const REST: Duration = Duration::from_secs(1);

/// Keeps what is known of the paths right.
pub struct Looker {
    secrets: Api<Secret>,
    configurations: Configurations,
    own: Own,
    publish: Publisher,
    /// What was read last of the Secret, and of each configuration.
    known: Known,
    named: [Vec<String>; 2],
}

impl Looker {
    /// For a Headgate with this namespace of its own.
    pub fn new(client: Client, namespace: &str, own: Own, publish: Publisher) -> Self {
        let secrets = Api::namespaced(client.clone(), namespace);
        let configurations = Configurations::new(client, own.configuration.clone());
        let (known, named) = (Known::default(), Default::default());
        Self { secrets, configurations, own, publish, known, named }
    }

    /// Looks for ever.
    pub async fn run(mut self) -> Result<(), String> {
        let period = period(self.own.lifetime);
        let rest = REST.min(period);
        let mut trouble = None;
        loop {
            let error = self.look().await.err();
            if error != trouble {
                if let Some(error) = &error {
                    warn!(%error, "it cannot be read by which paths the webhooks are called, tried again");
                } else {
                    info!("it can be read again by which paths the webhooks are called");
                }
                trouble = error;
            }
            sleep(rest).await;
            let _ = timeout(period.saturating_sub(rest), self.publish.looks.wanted.notified()).await;
        }
    }

    async fn look(&mut self) -> Result<(), String> {
        let look = self.publish.looks.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let (secret, new_pods, evictions) = tokio::join!(
            within(self.secrets.get_opt(&self.own.secret)),
            self.configurations.for_new_pods(),
            self.configurations.for_evictions(),
        );
        let mut troubles = Vec::new();
        match secret {
            Ok(secret) => {
                let stored = secret.as_ref().and_then(stored::read);
                self.known.secret = stored.map(|stored| stored.served()).unwrap_or_default();
            }
            Err(error) => troubles.push(format!("Secret {}: {error}", self.own.secret)),
        }
        for (named, found) in self.named.iter_mut().zip([new_pods, evictions]) {
            match found {
                Ok(found) => {
                    *named = found.iter().flat_map(|found| &found.entries).map(Entry::path).collect();
                }
                Err(error) => troubles.push(error.to_string()),
            }
        }
        self.known.named =
            faded(&self.known.named, self.named.concat(), now(), Times::new(self.own.lifetime).spread());
        self.known.look = look;
        self.publish.known.send_replace(self.known.clone());
        if troubles.is_empty() {
            return Ok(());
        }
        Err(redacted(&format!("{}; grant the roles of config/rbac/webhook.yaml", troubles.join("; "))))
    }
}

/// What is named now, and what was named before and is served for `spread` more seconds: an API server learns of a change
/// a moment after it was made.
fn faded(
    before: &[(String, Option<i64>)],
    named: Vec<String>,
    now: i64,
    spread: i64,
) -> Vec<(String, Option<i64>)> {
    let gone = before.iter().filter(|(path, _)| !named.contains(path));
    let fading = gone.map(|(path, until)| (path.clone(), Some(until.unwrap_or(now.saturating_add(spread)))));
    let fading: Vec<_> = fading.filter(|(_, until)| until.is_some_and(|until| now < until)).collect();
    named.into_iter().map(|path| (path, None)).chain(fading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_named_no_more_is_served_a_while_longer_and_then_forgotten() {
        let names = |all: &[&str]| all.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let first = faded(&[], names(&["/inject", "/evict"]), 100, 60);
        assert_eq!(first, [("/inject".into(), None), ("/evict".into(), None)]);
        let second = faded(&first, names(&["/a", "/evict"]), 110, 60);
        assert_eq!(second, [("/a".into(), None), ("/evict".into(), None), ("/inject".to_owned(), Some(170))]);
        let third = faded(&second, names(&["/a", "/evict"]), 169, 60);
        assert_eq!(third, second);
        assert_eq!(
            faded(&third, names(&["/a"]), 170, 60),
            [("/a".into(), None), ("/evict".into(), Some(230))]
        );
        let back = faded(&third, names(&["/inject"]), 150, 60);
        assert_eq!(back[0], ("/inject".into(), None), "it is named again");
    }
}

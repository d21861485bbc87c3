//! Lists the replicas for the page. All pages share one list, which is refreshed rarely.

use std::{sync::Arc, time::Duration};

use headgate_core::leadership::lease::pod_of;
use serde::Serialize;
use tokio::{sync::Mutex, time::Instant};

use crate::kube::replicas::Replicas;

/// A list of replicas is reused for this time.
const FRESH: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(5);

/// A replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replica {
    /// The name of the replica's pod.
    pub pod: String,
    /// Whether the replica holds the Lease.
    pub leads: bool,
}

/// Lists the replicas. `None`: the leader election is disabled, so there are no other replicas.
#[derive(Clone)]
pub struct Standbys(Option<Arc<Mutex<Asked>>>);

struct Asked {
    replicas: Replicas,
    /// The name of this replica's pod.
    own: String,
    last: Option<(Instant, Result<Vec<String>, String>)>,
}

impl Standbys {
    /// Creates an empty list, for a replica without leader election.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Creates a list of all replicas except the replica in the pod `own`.
    pub fn beside(replicas: Replicas, own: &str) -> Self {
        Self(Some(Arc::new(Mutex::new(Asked { replicas, own: own.to_owned(), last: None }))))
    }

    /// Returns the leader with the identity `holder`, and the other ready replicas.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn ready(&self, holder: Option<&str>) -> Result<Vec<Replica>, String> {
        let leader = holder.map(|holder| pod_of(holder).unwrap_or(holder).to_owned());
        let mut all = Vec::new();
        if let Some(asked) = &self.0 {
            let mut asked = asked.lock().await;
            if asked.last.as_ref().is_none_or(|(at, _)| at.elapsed() > FRESH) {
                let others = asked.replicas.others(PATIENCE).await;
                let others = others.map(|others| others.into_iter().map(String::from).collect());
                asked.last = Some((Instant::now(), others));
            }
            if let Some((_, others)) = &asked.last {
                all = others.clone()?;
            }
            all.push(asked.own.clone());
        }
        all.extend(leader.clone());
        all.sort_unstable();
        all.dedup();
        let replica = |pod: String| Replica { leads: leader.as_ref() == Some(&pod), pod };
        Ok(all.into_iter().map(replica).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_leads_alone_is_the_only_replica() {
        let alone = Standbys::none().ready(Some("headgate-0_00ff")).await.unwrap();
        assert_eq!(alone, [Replica { pod: "headgate-0".to_owned(), leads: true }]);
        assert_eq!(Standbys::none().ready(None).await.unwrap(), []);
    }
}

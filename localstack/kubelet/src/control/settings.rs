//! The route for the reuse of addresses.
//!
//! The settings apply to all zones. A change does not affect omitted settings.

use super::{Controls, Optional, error};
use crate::address::{COOL_DOWN, Reuse};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    ip_cool_down_seconds: Option<f64>,
    ip_reuse: Option<Reuse>,
}

#[derive(Debug, Serialize)]
pub(super) struct Settings {
    ip_cool_down_seconds: f64,
    ip_reuse: Reuse,
}

pub(super) async fn read(State(controls): State<Arc<Controls>>) -> Json<Settings> {
    // All zones have the same rules.
    let rules =
        controls.pools.first().map(|pool| pool.lock().unwrap_or_else(PoisonError::into_inner).rules());
    let (cool_down, ip_reuse) = rules.unwrap_or((COOL_DOWN, Reuse::default()));
    Json(Settings { ip_cool_down_seconds: cool_down.as_secs_f64(), ip_reuse })
}

pub(super) async fn change(state: State<Arc<Controls>>, Optional(change): Optional<Change>) -> Response {
    let cool_down = match change.ip_cool_down_seconds.map(Duration::try_from_secs_f64) {
        None => None,
        Some(Ok(cool_down)) if cool_down <= Duration::from_hours(24) => Some(cool_down),
        Some(_) => {
            let sentence = "ip_cool_down_seconds must be real seconds from 0 to 86400";
            return error(StatusCode::UNPROCESSABLE_ENTITY, sentence);
        }
    };
    for pool in &state.pools {
        let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        let (known_cool_down, known_reuse) = pool.rules();
        pool.set_rules(cool_down.unwrap_or(known_cool_down), change.ip_reuse.unwrap_or(known_reuse));
    }
    read(state).await.into_response()
}

//! The rules of the state machine, call by call, and the driver of the tests.

mod calls;
mod health;
mod ledger;
mod reads;
mod refused;

use std::collections::BTreeMap;

use super::{refusals::FIRST_WAIT, *};
use crate::{
    ledger::{LedgerRequest, LedgerVersion},
    model::{CallItem, FailureClass, HealthState, Owner, Uid, WallTime, changes::Through, time::Window},
    testing::{arn, target},
};

const T: u8 = 1;

fn binding(name: &str) -> BindingKey {
    let origin = Origin::TargetBinding(ObjectKey::new("shop", name));
    BindingKey { origin, port: "http".into(), group: arn("blue") }
}

fn through(name: &str) -> Through {
    Through { last: binding(name), others: Vec::new() }
}

fn owned(by: Option<&str>) -> Ownership {
    Ownership {
        through: through("web"),
        target: target(T, 80),
        owner: by.map(|uid| Owner { pod: ObjectKey::new("shop", uid), uid: Uid::new(uid) }),
        cause: if by.is_some() { Cause::PodHasIp } else { Cause::PodTerminating },
        seen: Moment::START,
    }
}

/// The state machine with a ledger that is written as soon as it asks.
struct Drive(Registrations, u64);

impl Default for Drive {
    fn default() -> Self {
        let settings = GroupSettings {
            late: Duration::from_secs(30),
            replacement_grace: Duration::from_secs(300),
            holder_patience: Duration::from_secs(3600),
            dates_registrations: true,
            add_window: Window { idle: Duration::ZERO, most: Duration::ZERO },
            read_only: false,
            bounds: crate::model::Bounds::default(),
            seed: 1,
        };
        let mut registrations = Registrations::new(&settings, 1);
        registrations.no_ledger();
        Self(registrations, 0)
    }
}

impl Drive {
    /// Whether nothing is left this many seconds after the start.
    fn is_over(&mut self, seconds: u64) -> bool {
        self.0.forget_departed(at(seconds));
        self.0.is_empty()
    }

    fn write_ledger(&mut self) {
        self.1 += 1;
        let id = RequestId(self.1);
        let request = self.0.ledger_request(&arn("blue"), || true, id, (Moment::START, WallTime::default()));
        if let Some(LedgerRequest::Write(..)) = request {
            self.0.wrote_ledger(id, &Ok(Some(LedgerVersion::new(self.1.to_string()))), Moment::START);
        }
    }
    fn want(&mut self, by: Option<&str>) {
        self.0.want(owned(by), true);
    }
    fn add(&mut self) -> (RequestId, Vec<CallItem>) {
        self.write_ledger();
        assert!(self.adds(), "no registration is due");
        self.1 += 1;
        (RequestId(self.1), self.0.start_addition(RequestId(self.1), 100))
    }
    fn remove(&mut self) -> (RequestId, Vec<CallItem>) {
        assert!(self.0.oldest_removal().is_some(), "no removal is due");
        self.1 += 1;
        (RequestId(self.1), self.0.start_removal(RequestId(self.1), 100))
    }
    fn due(&mut self) -> (bool, bool) {
        self.write_ledger();
        (self.adds(), self.0.oldest_removal().is_some())
    }
    fn adds(&self) -> bool {
        self.0.oldest_addition().is_some() || self.0.oldest_retry().is_some()
    }
    fn registered(&mut self, call: &(RequestId, Vec<CallItem>), ok: bool) {
        let failure = (!ok).then_some(FailureClass::Unavailable);
        self.0.registered(call.0, &call.1, failure, Moment::START);
    }
    fn refused(&mut self, call: &(RequestId, Vec<CallItem>)) {
        self.0.registered(call.0, &call.1, Some(FailureClass::Refused), Moment::START);
    }
    fn deregistered(&mut self, call: &(RequestId, Vec<CallItem>), ok: bool) {
        let failure = (!ok).then_some(FailureClass::Unavailable);
        self.0.deregistered(call.0, &call.1, failure, None, Moment::START);
    }
    fn with_a_registered() -> Self {
        let mut drive = Self::default();
        drive.want(Some("a"));
        let call = drive.add();
        drive.registered(&call, true);
        drive
    }
}

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn removed() -> Drive {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    let call = drive.remove();
    drive.deregistered(&call, true);
    drive
}

fn shows(state: HealthState) -> BTreeMap<Target, crate::model::health::Health> {
    BTreeMap::from([(target(T, 80), state.into())])
}

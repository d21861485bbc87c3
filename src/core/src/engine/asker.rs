//! The part of the engine that sent a request.

use crate::{
    lanes::Ticket,
    model::{Call, ObjectKey, TargetGroupArn},
};

/// The part of the engine that sent a request and receives the answer.
#[derive(Clone, Debug)]
pub enum Asker {
    /// A call about a target group, or a look-up of target groups, and the rate-limit ticket of the call.
    Call(Call, Ticket),
    /// A request for all ledgers, by a new leader or a standby.
    Ledgers,
    /// A read of this target group's ledger.
    ReadLedger(TargetGroupArn),
    /// A write of this target group's ledger.
    WriteLedger(TargetGroupArn),
    /// The deletion of this target group's ledger.
    DeleteLedger(TargetGroupArn),
    /// A write to this pod's readiness gate.
    Gate(ObjectKey),
    /// A request of the eviction module, about a pod that may be evicted or a node that will be removed.
    Eviction,
}

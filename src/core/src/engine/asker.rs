//! Which part of the engine sent a request.

use crate::{
    lanes::Ticket,
    model::{Call, ObjectKey, TargetGroupArn},
};

/// The part that sent a request and gets the answer.
#[derive(Clone, Debug)]
pub enum Asker {
    /// A call about a target group, or a look-up of target groups, and the rate-limit ticket that it used.
    Call(Call, Ticket),
    /// The load of all ledgers, by a new leader or a standby.
    Ledgers,
    /// The read of this target group's ledger.
    ReadLedger(TargetGroupArn),
    /// The write of this target group's ledger.
    WriteLedger(TargetGroupArn),
    /// The deletion of this target group's ledger.
    DeleteLedger(TargetGroupArn),
    /// The write of this pod's readiness gate.
    Gate(ObjectKey),
    /// The evictions: about a pod that is or should be deregistered early, or a node that is about to be removed.
    Eviction,
}

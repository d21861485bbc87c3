//! Which part of the engine sent a request.

use crate::{
    lanes::Ticket,
    model::{Call, ObjectKey, TargetGroupArn},
};

/// The part that sent a request and gets the answer.
#[derive(Clone, Debug)]
pub enum Asker {
    /// A target group, or the directory of target groups: the call, and the rate-limit ticket that it used.
    Call(Call, Ticket),
    /// A new leader, or a standby, that reads all ledgers.
    Ledgers,
    /// The ledger of this target group: it is read,
    ReadLedger(TargetGroupArn),
    /// written,
    WriteLedger(TargetGroupArn),
    /// or deleted.
    DeleteLedger(TargetGroupArn),
    /// The gate of this pod.
    Gate(ObjectKey),
    /// The evictions, about a pod that leaves or should, or a node that is about to be removed.
    Eviction,
}

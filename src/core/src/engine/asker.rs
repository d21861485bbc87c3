//! Who waits for the answer to a request.

use crate::{
    lanes::Ticket,
    model::{Call, ObjectKey, TargetGroupArn},
};

/// Who has asked, and is to have the answer.
#[derive(Clone, Debug)]
pub enum Asker {
    /// A target group, or the directory: it was this call, and is to be accounted for with this ticket.
    Call(Call, Ticket),
    /// Whoever takes over, about all ledgers.
    Ledgers,
    /// The ledger of this target group: it is read,
    ReadLedger(TargetGroupArn),
    /// written,
    WriteLedger(TargetGroupArn),
    /// or deleted.
    DeleteLedger(TargetGroupArn),
    /// The gate of this pod.
    Gate(ObjectKey),
    /// The evictions, about a pod that leaves, or is to, or a node that goes.
    Eviction,
}

//! Every state of one small world around the real engine: where the simulation tries many large worlds at random, this
//! looks at all that one small world can come to.
//!
//! **The world.** One target group, in which a stranger has put a target. A Service that names it. Two pods, each with a
//! readiness gate, and one address: the second pod gets it when the first one ends. The first one is evicted, or deleted.
//! Two replicas, of which one leads.
//!
//! **What may happen**, in any order, at any instant at which an engine or the world has something to do:
//!
//! * an event of the watch reaches a replica; a request is answered; a user does the next thing;
//! * a call to AWS is lost, or its answer is; it is applied after it was given up; it is throttled or refused; a read shows
//!   the past; the answer to a write of a ledger is lost;
//! * the leader dies and starts anew, or loses the Lease, and what it has sent is done late, or never.
//!
//! **What is asked.** Of every step what [`oracle`] says, which shares no code with the engine. Whenever all has come to
//! rest, AWS has what it should, and the gates are open that should be. And it does come to rest: no way that nothing
//! more goes wrong on goes round in a circle.
//!
//! **How it stays finite.** Time goes in whole seconds, to the next instant at which something is due, and only when
//! nothing is in flight and nothing is left to be said: what is slow is a fault. What may go wrong on one path is counted
//! ([`Bounds`]). A user acts soon, or when all has come to rest. What reaches a standby comes as late as it can
//! (`World::choices`). And two states that differ only in what has no consequence are one ([`fingerprint`]).
//!
//! **What is kept.** A state holds both engines, some 60 KB. So of a new state only the one before it is kept, and the
//! choice that leads on, until its own turn comes; of those that are done, 16 bytes and the way to them.
//!
//! ```text
//!  words        what there is                       parts    what a state is made of
//!  aws          the target group                    world    a state: what may happen next, and what follows
//!  fingerprint  the number of a state               oracle   what must never happen, and what must be at rest
//!  bounds       how much may go wrong               explore  breadth first through all states
//!  say          what a path that leads to something wrong says
//! ```
//!
//! This is built twice, like the rest of the simulation: with the core, and with a copy of it that holds mistakes.

mod aws;
mod bounds;
mod explore;
mod fingerprint;
mod oracle;
mod parts;
mod say;
mod words;
mod world;

pub use self::{
    bounds::Bounds,
    explore::{Broken, Report, explore, tell},
};

//! Long attacks, and the certificate of the webhooks.

mod certificates;
mod crowd;
mod hostile;
mod path;
mod sets;

//! Attacks that take long to play, and the certificate of the webhooks.

mod certificates;
mod crowd;
mod hostile;
mod path;
mod sets;

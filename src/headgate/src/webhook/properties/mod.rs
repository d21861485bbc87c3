//! Properties of what the webhooks are sent, and of what is stored for them.

mod reviews;
mod secret;

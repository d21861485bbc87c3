//! Properties of what the webhooks are sent.

mod reviews;

//! Properties of the requests to the webhooks.

mod reviews;

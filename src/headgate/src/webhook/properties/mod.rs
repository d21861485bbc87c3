//! Property tests of requests to the webhooks.

mod reviews;

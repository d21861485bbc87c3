//! Limits the size of list pages.
//!
//! The API server only limits the number of objects in a page, and each object may have up to 1.5 MiB. The client does
//! not read a page that is larger than [`MOST`]. After a page that was too large, the client requests fewer objects at
//! a time ([`smaller`]).

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll},
};

use http_body_util::{Either, LengthLimitError, Limited};
use hyper::{Request, Response, Uri};
use kube::client::Body;
use tower::{Layer, Service};

/// The maximum size of a page, in bytes.
pub const MOST: usize = 16 * 1024 * 1024;

/// The number of objects to request after a page with `page` objects was too large.
pub const fn smaller(page: u32) -> u32 {
    if page > 8 { page / 8 } else { 1 }
}

/// Whether a request has failed because a page was too large.
pub fn is_too_large(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A layer that limits the size of the answers to list requests.
#[derive(Clone, Copy, Debug)]
pub struct Bounded;

impl<S> Layer<S> for Bounded {
    type Service = BoundedLists<S>;

    fn layer(&self, inner: S) -> BoundedLists<S> {
        BoundedLists(inner)
    }
}

/// The service that [`Bounded`] creates.
#[derive(Clone, Debug)]
pub struct BoundedLists<S>(S);

impl<S, B> Service<Request<Body>> for BoundedLists<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<Either<Limited<B>, B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_page = is_page(request.uri());
        let answer = self.0.call(request);
        Box::pin(async move {
            let bounded = |body| {
                if is_page { Either::Left(Limited::new(body, MOST)) } else { Either::Right(body) }
            };
            Ok(answer.await?.map(bounded))
        })
    }
}

/// Whether the request is for a page of a list. The answers of watches have no size limit.
fn is_page(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| parameter.starts_with("limit="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_told_from_a_watch_and_a_page_that_is_too_large_is_made_smaller_until_it_has_one_object() {
        for (uri, expected) in [
            ("/api/v1/pods?&limit=100&continue=x", true),
            ("/api/v1/pods?watch=true&timeoutSeconds=20", false),
            ("/api/v1/namespaces/a/pods/b", false),
        ] {
            assert_eq!(is_page(&uri.parse().unwrap()), expected, "{uri}");
        }
        let pages: Vec<u32> =
            std::iter::successors(Some(100), |page| (*page > 1).then(|| smaller(*page))).collect();
        assert_eq!(pages, [100, 12, 1]);
    }
}

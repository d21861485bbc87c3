//! The page consists of plain HTML, CSS and JavaScript from `page/`, compiled into the program. The page reads only
//! from the debug server. The page loads nothing from other servers and runs no inline script.

use axum::{
    Router,
    extract::Request,
    http::{HeaderName, StatusCode, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
    routing::get,
};

use super::server::Shown;

const HTML: &str = include_str!("../../page/index.html");
const STYLE: &str = include_str!("../../page/style.css");
const SCRIPT: &str = include_str!("../../page/app.js");

/// The Content-Security-Policy of the page allows only scripts, styles and data from this server. The policy forbids
/// inline code and frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every answer: browsers must not guess content types, must not store answers, and must not send a
/// referrer.
const ON_ALL: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// The page's files.
pub fn routes() -> Router<Shown> {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    Router::new()
        .route("/", file("text/html; charset=utf-8", HTML))
        .route("/page/style.css", file("text/css; charset=utf-8", STYLE))
        .route("/page/app.js", file("text/javascript; charset=utf-8", SCRIPT))
}

/// Answers only requests whose host is an IP address or localhost, and adds the security headers. Without the check of
/// the host, another website could resolve its own name to loopback and read the answers (DNS rebinding).
pub async fn guard(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let mut answer = if host.is_none_or(is_local) {
        next.run(request).await
    } else {
        let text = "set localhost or an IP address as the host of the request\n";
        (StatusCode::FORBIDDEN, text).into_response()
    };
    for (name, value) in ON_ALL {
        answer.headers_mut().insert(name, header::HeaderValue::from_static(value));
    }
    answer
}

fn is_local(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_somebody_elses_is_no_way_in() {
        for host in ["localhost", "localhost:8081", "LOCALHOST:1", "127.0.0.1:8081", "[::1]:8081", "10.1.2.3"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8081",
            "localhost.evil.example",
            "",
            "127.0.0.1.evil.example",
            "a b",
        ] {
            assert!(!is_local(host), "{host}");
        }
    }

    #[test]
    fn the_page_is_small_has_no_part_of_elsewhere_and_nothing_inline() {
        assert!(HTML.len() + STYLE.len() + SCRIPT.len() <= 200 * 1024);
        for text in [HTML, STYLE, SCRIPT] {
            let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !elsewhere.contains("http:") && !elsewhere.contains("https:") && !elsewhere.contains("//cdn")
            );
        }
        for inline in ["<style", "style=", "onclick", "onload", "innerHTML", "eval("] {
            assert!(!HTML.contains(inline) && !SCRIPT.contains(inline), "{inline}");
        }
    }
}

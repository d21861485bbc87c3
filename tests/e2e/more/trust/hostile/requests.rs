//! Valid and invalid HTTP requests.

use super::wire::Sent;

/// A complete, valid request.
pub fn post(path: &str, body: &[u8]) -> Sent {
    request("POST", path, "Content-Type: application/json\r\n", body)
}

/// The same with another method and more headers.
pub fn request(method: &str, path: &str, fields: &str, body: &[u8]) -> Sent {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    );
    Sent { bytes: [head.as_bytes(), body].concat(), ends: false, odd: false, head: method == "HEAD" }
}

/// Bytes that are not a complete request, and nothing after them.
fn odd(bytes: impl Into<Vec<u8>>) -> Sent {
    Sent { bytes: bytes.into(), ends: true, odd: true, head: false }
}

/// A request with invalid or unusual HTTP.
pub fn strange(path: &str, body: &[u8], rng: &mut fastrand::Rng) -> Sent {
    let length = body.len();
    let with = |head: String| odd([head.as_bytes(), body].concat());
    let begin = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n");
    match rng.u8(0..24) {
        0 => {
            let method = *rng
                .choice(["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"].iter())
                .unwrap();
            request(method, path, "", body)
        }
        1 => {
            let kind = *rng
                .choice(
                    [
                        "text/plain",
                        "application/x-www-form-urlencoded",
                        "multipart/form-data; boundary=x",
                        "\u{1}",
                        "",
                    ]
                    .iter(),
                )
                .unwrap();
            request("POST", path, &format!("Content-Type: {kind}\r\n"), body)
        }
        2 => request("POST", path, &format!("X-Long: {}\r\n", "a".repeat(rng.usize(1..40_000))), body),
        3 => request("POST", path, &"X-Many: 1\r\n".repeat(rng.usize(1..400)), body),
        4 => with(format!("{begin}Content-Length: {}\r\n\r\n", length + rng.usize(1..999))),
        5 => with(format!("{begin}Content-Length: {}\r\n\r\n", length / 2)),
        6 => with(format!("{begin}Content-Length: -1\r\n\r\n")),
        7 => with(format!("{begin}Content-Length: {length}\r\nContent-Length: {}\r\n\r\n", length + 1)),
        8 => with(format!("{begin}Content-Length: 99999999999\r\n\r\n")),
        9 => with(format!("{begin}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n")),
        10 => {
            let size =
                *rng.choice(["zz", "-5", "fffffffffffffffff", "5;x=\"", "", "0x5", "5 5"].iter()).unwrap();
            with(format!("{begin}Transfer-Encoding: chunked\r\n\r\n{size}\r\n"))
        }
        11 => with(format!(
            "{begin}Transfer-Encoding: {}\r\n\r\n",
            rng.choice(["gzip", "identity", "chunked, gzip"]).unwrap()
        )),
        12 => chunked(&begin, body, rng),
        13 => request("POST", path, "Expect: 100-continue\r\n", body),
        14 => with(format!(
            "POST {path} HTTP/{}\r\n\r\n",
            rng.choice(["1.0", "2.0", "9.9", "0.9", "1.1.1"]).unwrap()
        )),
        15 => odd("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        16 => with(format!("{begin}X: a\r\n b\r\n\tc\r\nContent-Length: {length}\r\n\r\n")),
        17 => with(format!("{begin}X\u{0}Y: a\r\nContent-Length: {length}\r\n\r\n")),
        18 => with(format!("POST {path} HTTP/1.1\nHost: localhost\nContent-Length: {length}\n\n")),
        19 => odd((0..rng.usize(1..600)).map(|_| rng.u8(..)).collect::<Vec<u8>>()),
        20 => {
            let mut all = post(path, body).bytes;
            for _ in 0..rng.u8(1..5) {
                let at = rng.usize(0..all.len().min(160));
                all[at] = rng.u8(..);
            }
            odd(all)
        }
        21 => odd([post(path, body).bytes, post(path, b"{}").bytes].concat()),
        22 => request("POST", path, "Connection: Upgrade\r\nUpgrade: websocket\r\n", body),
        _ => odd(&post(path, body).bytes[..rng.usize(1..begin.len() + 30)]),
    }
}

/// In valid chunks. The last one may be missing.
fn chunked(begin: &str, body: &[u8], rng: &mut fastrand::Rng) -> Sent {
    let mut bytes = format!("{begin}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for chunk in body.chunks(rng.usize(1..2000)) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        bytes.extend(chunk);
        bytes.extend(b"\r\n");
    }
    if rng.bool() {
        bytes.extend(b"0\r\n\r\n");
    }
    odd(bytes)
}

/// A path of the pages for probes and people, or an unknown one, with a query that may be invalid.
pub fn page(rng: &mut fastrand::Rng) -> String {
    let paths = [
        "/livez",
        "/readyz",
        "/metrics",
        "/debug/bindings",
        "/debug/leader",
        "/debug/explain",
        "/debug/status",
        "/debug/diff",
        "/debug/journal",
        "/debug/targets",
        "/page/app.js",
        "/debug/",
        "/",
        "/../livez",
        "/debug/explain/x",
        "//",
        "/%00",
        "/%ff%fe",
        "/livez/",
        "/LIVEZ",
        "/evict",
        "*",
        "http://elsewhere/livez",
    ];
    let path = *rng.choice(paths.iter()).unwrap();
    let question = match rng.u8(0..9) {
        0 => "?namespace=shop&pod=web&group=a&after=3&most=18446744073709551615".into(),
        1 => "?namespace=%ff%fe&pod=%00".into(),
        2 => "?pod=a&pod=b&namespace=c".into(),
        3 => format!("?namespace=a&pod={}", "x".repeat(rng.usize(1..9000))),
        4 => "?namespace=../..&pod=%2e%2e".into(),
        5 => "?%zz=%z&&=&pod".into(),
        6 => format!("?{}", "a=b&".repeat(rng.usize(1..900))),
        _ => String::new(),
    };
    format!("{path}{question}")
}

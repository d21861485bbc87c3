//! Access control for the page of `headgate ui`. Only the browser that opened the printed address has access. Other
//! users of the machine have no access.
//!
//! The printed address contains a token that works once. The browser that sends the token gets a cookie. Each later
//! connection must begin with a request that carries the cookie.

use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use rustls::crypto::aws_lc_rs::default_provider;
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The maximum length of a request's head. Headgate itself has the same limit.
const LONGEST_HEAD: usize = 16 * 1024;
/// The end of a request's head.
const END: &[u8] = b"\r\n\r\n";

/// Access control for the page of `headgate ui`.
#[derive(Debug)]
pub struct Door {
    token: Mutex<Option<String>>,
    secret: String,
    cookie: String,
}

/// The decision about a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Knock {
    /// The connection is forwarded to Headgate.
    Enters,
    /// The browser gets only this answer.
    Answered(String),
}

fn secret() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    let filled = default_provider().secure_random.fill(&mut bytes);
    filled.ok().context("this machine has no random numbers")?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn answer(status: &str, headers: &str, text: &str) -> Knock {
    let length = text.len();
    Knock::Answered(format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{text}"
    ))
}

impl Door {
    /// Creates access control for the page at this loopback port.
    ///
    /// # Errors
    /// The random number generator of the system failed.
    pub fn new(port: u16) -> anyhow::Result<Self> {
        let cookie = format!("headgate-{port}");
        Ok(Self { token: Mutex::new(Some(secret()?)), secret: secret()?, cookie })
    }

    /// Returns the query part of the printed address.
    pub fn query(&self) -> String {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.as_ref().map(|token| format!("?token={token}")).unwrap_or_default()
    }

    /// Decides about a connection by the head of the first request.
    pub fn knock(&self, head: &str) -> Knock {
        let mut lines = head.lines();
        let target = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
        let cookies = lines
            .filter_map(|line| line.split_once(':'))
            .filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        let mut cookies =
            cookies.flat_map(|(_, all)| all.split(';')).filter_map(|one| one.trim().split_once('='));
        if cookies.any(|(name, value)| name == self.cookie && same(value, &self.secret)) {
            return Knock::Enters;
        }
        let given = target.strip_prefix("/?token=");
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if given.zip(token.as_deref()).is_some_and(|(given, token)| same(given, token)) {
            *token = None;
            let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.secret);
            return answer("303 See Other", &format!("Location: /\r\nSet-Cookie: {cookie}\r\n"), "");
        }
        let text = "This page is for the browser that opened the address that `headgate ui` printed. The address works once: \
                    run `headgate ui` again for another one.\n";
        answer("403 Forbidden", "", text)
    }
}

/// Reads the head of a request and all bytes that arrived with it. `None`: the connection ended before the head did, or
/// the head is too long.
pub async fn head(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<Vec<u8>>> {
    let mut read = Vec::new();
    while !read.windows(END.len()).any(|part| part == END) {
        if read.len() >= LONGEST_HEAD || from.read_buf(&mut read).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(target: &str, cookie: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nCOOKIE: a=b; {cookie}\r\n\r\n")
    }

    fn status(knock: Knock) -> String {
        match knock {
            Knock::Enters => "enters".to_owned(),
            Knock::Answered(text) => text.split(' ').nth(1).unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn the_address_works_once_and_then_the_cookie_does() {
        let door = Door::new(8123).unwrap();
        let address = format!("/{}", door.query());
        for stranger in ["/", "/?token=", "/?token=00112233445566778899aabbccddeeff", "/debug/status"] {
            assert_eq!(status(door.knock(&get(stranger, ""))), "403", "{stranger}");
        }
        let Knock::Answered(welcome) = door.knock(&get(&address, "")) else { panic!("it enters at once") };
        assert!(welcome.starts_with("HTTP/1.1 303 ") && welcome.contains("Location: /\r\n"), "{welcome}");
        let cookie = welcome.split("Set-Cookie: ").nth(1).unwrap().split(';').next().unwrap();
        assert_eq!(status(door.knock(&get("/debug/status", cookie))), "enters");
        assert_eq!(status(door.knock(&get(&address, cookie))), "enters", "a page that is loaded again");
        assert_eq!(status(door.knock(&get(&address, ""))), "403", "it worked once");
        assert_eq!(status(door.knock(&get("/", &format!("{cookie}0")))), "403");
        assert_eq!(status(Door::new(8124).unwrap().knock(&get("/", cookie))), "403", "of another one");
    }

    #[tokio::test]
    async fn a_head_is_read_with_what_comes_with_it_and_one_without_an_end_is_none() {
        let whole = b"GET / HTTP/1.1\r\n\r\nmore".as_slice();
        assert_eq!(head(&mut &*whole).await.unwrap().as_deref(), Some(whole));
        assert_eq!(head(&mut b"GET / HT".as_slice()).await.unwrap(), None);
        assert_eq!(head(&mut vec![b'a'; 100_000].as_slice()).await.unwrap(), None);
    }
}

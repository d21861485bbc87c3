//! Removes the secret path of the webhooks from every output. The secret could appear there because API servers repeat
//! rejected objects and the URLs of failed calls.

/// The length of a 256-bit secret in hexadecimal digits.
pub const DIGITS: usize = 64;

/// Replaces long runs of hexadecimal digits, which may be secrets.
pub fn redacted(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|is: char| is.is_ascii_hexdigit()) {
        let run = rest[start..].find(|is: char| !is.is_ascii_hexdigit()).unwrap_or(rest.len() - start);
        clean.push_str(&rest[..start]);
        clean.push_str(if run < DIGITS { &rest[start..start + run] } else { "…" });
        rest = &rest[start + run..];
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_of_hexadecimal_digits_are_left_out_and_nothing_else() {
        let secret = "0123456789abcdef".repeat(4);
        let said = format!("Post \"https://a.b.svc:443/{secret}/inject?timeout=2s\": refused");
        assert_eq!(redacted(&said), "Post \"https://a.b.svc:443/…/inject?timeout=2s\": refused");
        for same in ["", "a", "ä 42 deadbeef ö", &secret[1..], "uid 6f1c1a3e-0000-4000-8000-000000000000"] {
            assert_eq!(redacted(same), same);
        }
        assert_eq!(redacted(&secret), "…");
    }
}

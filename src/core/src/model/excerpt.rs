//! What is repeated of a text that somebody wrote, in messages, Events and log lines: its beginning.
//!
//! An annotation may be 256 KiB long, and what is said about it is written to the API server and to logs.

/// So many characters are repeated: a whole ARN fits in.
pub const LONGEST: usize = 128;

/// The text; if it is longer than [`LONGEST`] characters, its beginning and "…".
pub fn excerpt(text: &str) -> Box<str> {
    match text.char_indices().nth(LONGEST) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_repeated_whole_and_of_a_long_one_the_beginning() {
        let just = "ä".repeat(LONGEST);
        assert_eq!(&*excerpt(&just), just);
        assert_eq!(*excerpt(&format!("{just}b")), format!("{just}…"));
        assert_eq!(&*excerpt(""), "");
    }
}

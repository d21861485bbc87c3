//! Excerpts of texts that users or other programs wrote, for messages, Events and log lines.
//!
//! An annotation may be 256 KiB long, and Headgate quotes invalid annotations in Events, conditions and logs. A
//! terminal must show the real text of an excerpt. A control character could move the cursor or change earlier text. A
//! bidirectional override could show text in another order.

use std::borrow::Cow;

/// The maximum length of an excerpt, in characters. A whole ARN fits into an excerpt.
pub const LONGEST: usize = 128;
/// The maximum length of the result of [`beginning`], in characters.
const MESSAGE: usize = 48;
/// The maximum length of the result of [`brief`], in characters.
pub const BRIEF: usize = 32;

/// Returns the text for output. A text with more than [`LONGEST`] characters is cut, and then ends with "…".
pub fn excerpt(text: &str) -> Box<str> {
    match text.char_indices().nth(LONGEST) {
        None => shown(text).into(),
        Some((end, _)) => format!("{}…", shown(&text[..end])).into(),
    }
}

/// Shortens a name to at most [`BRIEF`] characters, for a short text such as an Event. A longer name loses its middle,
/// because the end of a pod's name and the beginning of a node's name identify the object.
pub fn brief(name: &str) -> Cow<'_, str> {
    let count = name.chars().count();
    if count <= BRIEF {
        return shown(name);
    }
    let (first, last) = (BRIEF / 2, BRIEF - BRIEF / 2 - 1);
    let begin: String = name.chars().take(first).collect();
    let end: String = name.chars().skip(count - last).collect();
    format!("{}…{}", shown(&begin), shown(&end)).into()
}

/// Shortens another program's message to at most `MESSAGE` characters, for a short text such as an Event.
pub fn beginning(message: &str) -> Cow<'_, str> {
    match message.char_indices().nth(MESSAGE - 1) {
        Some((end, last)) if end + last.len_utf8() < message.len() => {
            format!("{}…", shown(&message[..end])).into()
        }
        _ => shown(message),
    }
}

/// Replaces each control character, and each character that changes the direction of writing, with U+FFFD. Line breaks
/// and tabs remain.
pub fn shown(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_hidden) {
        let shown = |c| if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c };
        text.chars().map(shown).collect::<String>().into()
    } else {
        text.into()
    }
}

/// Whether a character is invisible and changes the display of other characters. The function finds the "Explicit
/// Directional Embedding and Override Characters", isolates and marks of Unicode Standard Annex 9.
fn is_hidden(c: char) -> bool {
    let is_text = matches!(c, '\n' | '\t');
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // U+2028 and U+2029 separate lines, but not in a terminal.
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    (c.is_control() && !is_text) || turns || breaks
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

    #[test]
    fn of_a_long_name_both_ends_remain() {
        let pod = format!("{}-7d4b9c6f5-x2x9z", "a".repeat(236));
        let short = brief(&pod);
        assert_eq!(short.chars().count(), BRIEF);
        assert!(short.starts_with("aaaa") && short.ends_with("…7d4b9c6f5-x2x9z"), "{short}");
        assert_eq!(brief("web\u{1b}"), "web\u{fffd}");
        assert!(matches!(brief("ip-10-0-1-2.ec2.internal"), Cow::Borrowed(_)));
    }

    #[test]
    fn of_a_long_message_the_beginning_remains() {
        assert_eq!(beginning("Rate exceeded"), "Rate exceeded");
        let just = "ä".repeat(MESSAGE);
        assert_eq!(beginning(&just), just);
        assert_eq!(beginning(&format!("{just}b")), format!("{}…", "ä".repeat(MESSAGE - 1)));
    }

    #[test]
    fn nothing_that_changes_what_is_shown_gets_through() {
        assert_eq!(shown("a\u{1b}[2Jb\rc\u{202e}d\u{9b}e"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\u{fffd}e");
        assert_eq!(&*excerpt("\u{2066}x\0"), "\u{fffd}x\u{fffd}");
        for fine in ["ein Wort, ä", "two\nlines\tand a tab", "日本語", ""] {
            assert!(matches!(shown(fine), Cow::Borrowed(same) if same == fine));
        }
    }
}

//! Filters control characters from the output of all commands.
//!
//! Users with access to only one namespace wrote parts of the output, and administrators read the output in a terminal.
//! Text from users must not move the cursor or change earlier output.

use std::io::{Result, Stdout, Write, stdout};

use headgate_core::model::excerpt::shown;

/// Standard output without control characters. Line breaks and tabs remain. [`CLEAR`] also passes if one call writes
/// only [`CLEAR`].
#[derive(Debug)]
pub struct Screen<W = Stdout>(W);

/// The escape sequence that clears the terminal.
pub const CLEAR: &str = "\x1b[2J\x1b[H";

/// Returns filtered standard output.
pub fn screen() -> Screen {
    Screen(stdout())
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, text: &[u8]) -> Result<usize> {
        if text == CLEAR.as_bytes() {
            self.0.write_all(text)?;
        } else {
            self.0.write_all(shown(&String::from_utf8_lossy(text)).as_bytes())?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_wrote_changes_nothing_of_the_terminal() {
        let mut screen = Screen(Vec::new());
        screen.write_all(CLEAR.as_bytes()).unwrap();
        writeln!(screen, "shop/web: \x1b]0;evil\x07\u{202e}\tfine").unwrap();
        let text = String::from_utf8(screen.0).unwrap();
        assert_eq!(text, format!("{CLEAR}shop/web: \u{fffd}]0;evil\u{fffd}\u{fffd}\tfine\n"));
    }
}

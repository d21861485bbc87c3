//! Returns the last lines of a log file, for error messages.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

const LINES: usize = 15;
const BYTES: u64 = 8 * 1024;

/// Returns the last 15 lines, indented. Without any line, returns a sentence. The function never fails, because its
/// text only completes an error.
pub fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(BYTES)))?;
        let mut bytes = Vec::new();
        file.take(BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = match read() {
        Ok(bytes) => bytes,
        Err(error) => return format!("    (the log cannot be read: {error})"),
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    if last.is_empty() {
        return "    (the log is empty)".to_owned();
    }
    last.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scratch_folder;

    #[test]
    fn only_the_last_lines_of_a_long_log_are_shown() {
        let folder = scratch_folder();
        let log = folder.path().join("log");
        let lines: Vec<String> = (0..5000).map(|number| format!("line {number}")).collect();
        std::fs::write(&log, lines.join("\n")).unwrap();
        let shown = tail(&log);
        assert_eq!(shown.lines().count(), LINES);
        assert!(shown.ends_with("    line 4999"), "{shown}");
    }

    #[test]
    fn a_log_that_says_nothing_is_said_to_be_empty_or_missing() {
        let folder = scratch_folder();
        let log = folder.path().join("log");
        assert!(tail(&log).contains("cannot be read"));
        std::fs::write(&log, "").unwrap();
        assert!(tail(&log).contains("empty"));
    }
}

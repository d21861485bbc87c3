//! What is remembered of a TargetGroupBinding that was moved over: an annotation of the Service or TargetBinding that binds
//! its target group now. It says that the pause is this command's, and it is all that the way back needs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The annotation. Not one of Headgate's own prefix: the controller knows nothing of it.
pub const ANNOTATION: &str = "migrate.headgate.dev/from-lbc";

/// One TargetGroupBinding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// What it takes to make it again.
    pub object: Value,
}

/// Reads the annotation; none: nothing was moved.
///
/// # Errors
/// If somebody has written something else there.
pub fn read(text: Option<&str>) -> Result<Vec<Record>, serde_json::Error> {
    text.map_or_else(|| Ok(Vec::new()), serde_json::from_str)
}

/// As it is written; `None`: take the annotation away.
pub fn written(records: &[Record]) -> Option<String> {
    (!records.is_empty()).then(|| serde_json::json!(records).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_is_no_annotation() {
        let records = vec![Record { name: "web".into(), object: json!({"spec": {"a": 1}}) }];
        assert_eq!(read(written(&records).as_deref()).unwrap(), records);
        assert_eq!((read(None).unwrap(), written(&[])), (Vec::new(), None));
        assert!(read(Some("x")).is_err());
    }
}

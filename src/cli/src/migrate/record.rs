//! The record of a migrated TargetGroupBinding. The record is an annotation on the Service or TargetBinding that now
//! binds the target group. The record shows that this command paused the binding, and contains all data for the
//! migration back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of the annotation. The controller does not use this annotation, so the prefix differs from Headgate's
/// prefix.
pub const ANNOTATION: &str = "migrate.headgate.dev/from-lbc";

/// The record of one TargetGroupBinding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The name of the TargetGroupBinding.
    pub name: String,
    /// The object without LBC's own annotations, for creating the object again.
    pub object: Value,
}

/// Parses the annotation. Empty: no TargetGroupBinding was migrated.
///
/// # Errors
/// The content is invalid.
pub fn read(text: Option<&str>) -> Result<Vec<Record>, serde_json::Error> {
    text.map_or_else(|| Ok(Vec::new()), serde_json::from_str)
}

/// Returns the value of the annotation. `None`: the annotation should be removed.
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

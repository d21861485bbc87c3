//! The record of a migrated TargetGroupBinding: an annotation on the Service or TargetBinding that binds its target
//! group now. It shows that this command set the pause, and contains everything for the way back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The annotation. Its prefix is not Headgate's, because the controller does not use it.
pub const ANNOTATION: &str = "migrate.headgate.dev/from-lbc";

/// One TargetGroupBinding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Everything needed to create it again.
    pub object: Value,
}

/// Reads the annotation. Empty: nothing was migrated.
///
/// # Errors
/// The content is invalid.
pub fn read(text: Option<&str>) -> Result<Vec<Record>, serde_json::Error> {
    text.map_or_else(|| Ok(Vec::new()), serde_json::from_str)
}

/// The value of the annotation. `None`: remove the annotation.
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

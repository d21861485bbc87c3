//! The name of a zone.

use std::fmt;

/// The maximum length of a zone name. AWS zone names have up to 23 characters (`us-west-2-wl1-las-wlz-1`).
const MOST: usize = 31;

/// The name of an Availability Zone, from AWS's answers or from the label of a Node. AWS returns `all` for an address
/// outside the VPC. The type is small, because each target stores its zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneName {
    // `bytes` is the first field, so that the derived order is the order of the names.
    bytes: [u8; MOST],
    length: u8,
}

impl ZoneName {
    /// Parses a name. `None`: the name is empty, too long, or has invalid characters.
    pub fn parse(name: &str) -> Option<Self> {
        let (mut bytes, length) = ([0; MOST], u8::try_from(name.len()).ok()?);
        let is_one =
            !name.is_empty() && name.len() <= MOST && name.bytes().all(|byte| byte.is_ascii_graphic());
        is_one.then(|| {
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            Self { bytes, length }
        })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_and_names_are_in_their_order() {
        let names = ["all", "us-east-1", "us-east-1a", "us-east-1b", "us-west-2-wl1-las-wlz-1"];
        let parsed = names.map(|name| ZoneName::parse(name).unwrap());
        assert!(parsed.is_sorted());
        assert_eq!(parsed.map(|zone| zone.to_string()), names);
        assert_eq!(format!("{:?}", parsed[0]), "\"all\"");
        for wrong in ["", "us east 1a", "zoné", &"a".repeat(32)] {
            assert_eq!(ZoneName::parse(wrong), None, "{wrong}");
        }
        assert!(ZoneName::parse(&"a".repeat(31)).is_some());
    }
}

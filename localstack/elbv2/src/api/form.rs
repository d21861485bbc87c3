//! Request parameters such as `Targets.member.1.Port=80`, as a tree.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::model::Refusal;

/// A parameter with its fields. A list has the field `member`, whose fields have numbers as names.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Form {
    value: Option<String>,
    fields: BTreeMap<String, Form>,
}

impl Form {
    /// Parses an `application/x-www-form-urlencoded` body.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        const DEEPEST: usize = 12;
        check_encoding(body)?;
        let mut root = Self::default();
        for (key, value) in form_urlencoded::parse(body) {
            // No parameter of any action is deeper. Without the limit, dropping a very deep tree could overflow the
            // stack.
            if key.split('.').count() > DEEPEST {
                return Err(Refusal::MalformedQueryString("A parameter name has too many parts"));
            }
            let leaf = key.split('.').fold(&mut root, |form, part| form.field_mut(part));
            leaf.value = Some(value.into_owned());
        }
        Ok(root)
    }

    fn field_mut(&mut self, name: &str) -> &mut Self {
        self.fields.entry(name.to_owned()).or_default()
    }

    /// Returns the text of this parameter.
    pub fn text(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }

    /// Returns the text of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.value.as_deref()
    }

    /// Returns a field that has further fields.
    pub fn field(&self, name: &str) -> Option<&Form> {
        self.fields.get(name)
    }

    /// Returns the members of a list, ordered by number.
    pub fn list(&self, name: &str) -> Vec<&Form> {
        let Some(list) = self.fields.get(name).and_then(|list| list.fields.get("member")) else {
            return Vec::new();
        };
        let mut members: Vec<(u32, &Form)> =
            list.fields.iter().filter_map(|(number, member)| Some((number.parse().ok()?, member))).collect();
        members.sort_by_key(|(number, _)| *number);
        members.into_iter().map(|(_, member)| member).collect()
    }

    /// Returns the members of a list of strings.
    pub fn texts(&self, name: &str) -> Vec<String> {
        self.list(name).into_iter().map(|member| member.text().to_owned()).collect()
    }

    /// Returns the text of a required field.
    pub fn required(&self, name: &str) -> Result<&str, Refusal> {
        self.get(name).filter(|text| !text.is_empty()).ok_or_else(|| {
            Refusal::validation(format!(
                "1 validation error detected: Value null at '{}' failed to satisfy constraint: Member must not \
                 be null",
                lower_camel(name)
            ))
        })
    }

    /// Returns a field as a number. `None`: the field does not exist.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    Refusal::validation(format!("Value '{text}' at '{}' is not valid", lower_camel(name)))
                })
            })
            .transpose()
    }

    /// Returns a field as a port. `None`: the field does not exist.
    pub fn port(&self, name: &str) -> Result<Option<u16>, Refusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(port) if port > 0 => Ok(Some(port)),
            _ => Err(Refusal::validation(format!("Port '{text}' must be in the range 1-65535"))),
        }
    }
}

/// Checks that two hexadecimal digits follow each percent sign, and that the decoded bytes are UTF-8.
fn check_encoding(body: &[u8]) -> Result<(), Refusal> {
    const WRONG: Refusal = Refusal::MalformedQueryString("The query string is not correctly percent-encoded");
    let mut rest = body;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let digits = rest.get(at + 1..at + 3).ok_or(WRONG)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(WRONG);
        }
        rest = rest.get(at + 3..).unwrap_or_default();
    }
    let decoded: Vec<u8> = body.split(|byte| *byte == b'&').flat_map(decode).collect();
    std::str::from_utf8(&decoded).map(|_| ()).map_err(|_| WRONG)
}

fn decode(pair: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(pair.len() + 1);
    let mut bytes = pair.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let (high, low) = (bytes.next().and_then(digit), bytes.next().and_then(digit));
                decoded.push(high.unwrap_or_default() << 4 | low.unwrap_or_default());
            }
            byte => decoded.push(byte),
        }
    }
    // The separator prevents a sequence of bytes that begins in one pair and ends in the next pair.
    decoded.push(b'&');
    decoded
}

fn lower_camel(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_the_order_of_their_numbers_not_of_their_digits() {
        let body: Vec<String> = (1..=12).map(|n| format!("Names.member.{n}=n{n}")).collect();
        let form = Form::parse(body.join("&").as_bytes()).unwrap();
        assert_eq!(form.texts("Names").get(1).map(String::as_str), Some("n2"));
        assert_eq!(form.texts("Names").last().map(String::as_str), Some("n12"));
    }

    #[test]
    fn fields_of_members_are_found_and_decoded() {
        let form = Form::parse(b"Targets.member.1.Id=10.0.0.1&Targets.member.1.Port=80&A=b%3Ac").unwrap();
        let targets = form.list("Targets");
        assert_eq!(targets[0].get("Id"), Some("10.0.0.1"));
        assert_eq!(targets[0].port("Port"), Ok(Some(80)));
        assert_eq!(form.get("A"), Some("b:c"));
    }

    #[test]
    fn a_missing_parameter_is_named_as_aws_names_it() {
        let refusal = Form::parse(b"").unwrap().required("TargetGroupArn").unwrap_err();
        assert!(refusal.to_string().contains("Value null at 'targetGroupArn'"));
    }

    #[test]
    fn a_port_beyond_sixteen_bits_is_refused() {
        for text in ["0", "70000", "-1", "http"] {
            assert!(Form::parse(format!("Port={text}").as_bytes()).unwrap().port("Port").is_err());
        }
    }

    #[test]
    fn what_is_not_percent_encoded_utf_8_is_malformed() {
        for body in ["A=%", "A=%4", "A=%zz", "A=%ff", "A=%c3&B=%a4"] {
            let refusal = Form::parse(body.as_bytes()).unwrap_err();
            assert_eq!(refusal.code(), "MalformedQueryString", "{body}");
        }
        assert_eq!(Form::parse(b"A=%C3%A4+x&A.b=%25").unwrap().get("A"), Some("\u{e4} x"));
    }

    #[test]
    fn a_name_of_a_million_parts_is_refused() {
        assert!(Form::parse("a.".repeat(1_000_000).as_bytes()).is_err());
    }
}

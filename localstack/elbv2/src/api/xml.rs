//! Builds XML answers with elements, lists of `<member>` and escaped text.

use std::fmt::Display;

use quick_xml::escape::escape;

/// The XML namespace of every answer.
pub const NAMESPACE: &str = "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/";

/// A piece of XML under construction.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Xml {
    text: String,
}

impl Xml {
    /// Adds `<name>value</name>`.
    pub fn text(&mut self, name: &str, value: impl Display) -> &mut Self {
        let value = value.to_string();
        let escaped = escape(value.as_str());
        for part in ["<", name, ">", escaped.as_ref(), "</", name, ">"] {
            self.text.push_str(part);
        }
        self
    }

    /// Adds `<name>value</name>` if there is a value.
    pub fn maybe(&mut self, name: &str, value: Option<impl Display>) -> &mut Self {
        if let Some(value) = value {
            self.text(name, value);
        }
        self
    }

    /// Adds an element that contains other elements.
    pub fn nest(&mut self, name: &str, fill: impl FnOnce(&mut Xml)) -> &mut Self {
        self.open(name, "");
        fill(self);
        self.close(name)
    }

    /// Adds a list with one `<member>` per item.
    pub fn list<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        mut fill: impl FnMut(&mut Xml, T),
    ) -> &mut Self {
        self.nest(name, |list| {
            for item in items {
                list.nest("member", |member| fill(member, item));
            }
        })
    }

    /// Adds a list of strings.
    pub fn texts<T: Display>(&mut self, name: &str, items: impl IntoIterator<Item = T>) -> &mut Self {
        self.nest(name, |list| {
            for item in items {
                list.text("member", item);
            }
        })
    }

    fn open(&mut self, name: &str, attributes: &str) {
        for part in ["<", name, attributes, ">"] {
            self.text.push_str(part);
        }
    }

    fn close(&mut self, name: &str) -> &mut Self {
        for part in ["</", name, ">"] {
            self.text.push_str(part);
        }
        self
    }

    /// Returns the complete answer of a successful call.
    pub fn into_answer(self, action: &str, request_id: &str) -> String {
        let response = format!("{action}Response");
        let mut answer = Self { text: String::with_capacity(self.text.len() + 256) };
        answer.open(&response, &format!(" xmlns=\"{NAMESPACE}\""));
        answer.nest(&format!("{action}Result"), |result| result.text.push_str(&self.text));
        answer.nest("ResponseMetadata", |metadata| {
            metadata.text("RequestId", request_id);
        });
        answer.close(&response);
        answer.text
    }

    /// Returns the complete answer of a failed call.
    pub fn error(status: u16, code: &str, message: &str, request_id: &str) -> String {
        let mut answer = Self::default();
        answer.open("ErrorResponse", &format!(" xmlns=\"{NAMESPACE}\""));
        answer.nest("Error", |error| {
            error
                .text("Type", if status < 500 { "Sender" } else { "Receiver" })
                .text("Code", code)
                .text("Message", message);
        });
        answer.text("RequestId", request_id);
        answer.close("ErrorResponse");
        answer.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_result_and_the_request_id() {
        let mut xml = Xml::default();
        xml.list("Names", ["a", "b<"], |member, name| {
            member.text("Name", name);
        });
        assert_eq!(
            xml.into_answer("DescribeNames", "id-1"),
            "<DescribeNamesResponse xmlns=\"http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/\">\
             <DescribeNamesResult><Names><member><Name>a</Name></member><member><Name>b&lt;</Name></member>\
             </Names></DescribeNamesResult><ResponseMetadata><RequestId>id-1</RequestId></ResponseMetadata>\
             </DescribeNamesResponse>"
        );
    }

    #[test]
    fn errors_of_the_service_are_the_receivers() {
        assert!(Xml::error(500, "HealthUnavailable", "", "1").contains("<Type>Receiver</Type>"));
        assert!(Xml::error(400, "TargetGroupNotFound", "", "1").contains("<Type>Sender</Type>"));
    }
}

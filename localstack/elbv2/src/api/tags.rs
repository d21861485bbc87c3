//! AddTags, RemoveTags, DescribeTags, and the tags of create calls.

use super::Api;
use super::form::Form;
use super::xml::Xml;
use crate::model::{Refusal, Tags};

/// The maximum number of tags per resource in AWS.
const MOST_TAGS: usize = 50;
/// The maximum number of ARNs per DescribeTags call in AWS.
const MOST_ARNS: usize = 20;

/// Parses the `Tags` parameter of a call.
pub fn parse(form: &Form) -> Result<Tags, Refusal> {
    let mut tags = Tags::new();
    for tag in form.list("Tags") {
        let key = tag.required("Key")?;
        let value = tag.get("Value").unwrap_or_default();
        if key.chars().count() > 128 || value.chars().count() > 256 {
            return Err(Refusal::validation(format!("The tag '{key}' is too long")));
        }
        if key.starts_with("aws:") {
            return Err(Refusal::validation(format!(
                "The tag key '{key}' begins with the reserved prefix 'aws:'"
            )));
        }
        if tags.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(Refusal::DuplicateTagKeys);
        }
    }
    if tags.len() > MOST_TAGS {
        return Err(Refusal::TooManyTags(form.get("Name").unwrap_or_default().to_owned()));
    }
    Ok(tags)
}

fn arns(form: &Form) -> Result<Vec<String>, Refusal> {
    let arns = form.texts("ResourceArns");
    if arns.is_empty() {
        return Err(Refusal::validation("At least one resource ARN must be specified"));
    }
    if arns.len() > MOST_ARNS {
        return Err(Refusal::validation(format!("Up to {MOST_ARNS} resources can be described at a time")));
    }
    Ok(arns)
}

pub fn add(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let (arns, tags) = (arns(form)?, parse(form)?);
    if tags.is_empty() {
        return Err(Refusal::validation("At least one tag must be specified"));
    }
    api.shared.with(|model, _| {
        for arn in &arns {
            let present = model.tags_mut(arn)?;
            let added = tags.keys().filter(|key| !present.contains_key(*key)).count();
            if present.len() + added > MOST_TAGS {
                return Err(Refusal::TooManyTags(arn.clone()));
            }
        }
        for arn in &arns {
            model.tags_mut(arn)?.extend(tags.clone());
        }
        Ok(Xml::default())
    })
}

pub fn remove(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let (arns, keys) = (arns(form)?, form.texts("TagKeys"));
    api.shared.with(|model, _| {
        for arn in &arns {
            model.tags_mut(arn)?;
        }
        for arn in &arns {
            model.tags_mut(arn)?.retain(|key, _| !keys.contains(key));
        }
        Ok(Xml::default())
    })
}

pub fn describe(api: &Api, form: &Form) -> Result<Xml, Refusal> {
    let arns = arns(form)?;
    api.shared.with(|model, _| {
        let described = arns
            .iter()
            .map(|arn| Ok((arn, model.tags_mut(arn)?.clone())))
            .collect::<Result<Vec<_>, Refusal>>()?;
        let mut xml = Xml::default();
        xml.list("TagDescriptions", described, |member, (arn, tags)| {
            member.text("ResourceArn", arn).list("Tags", tags, |tag, (key, value)| {
                tag.text("Key", key).text("Value", value);
            });
        });
        Ok(xml)
    })
}

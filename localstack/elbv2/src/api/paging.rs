//! Pages of a list. A call has a `PageSize` from 1 to 400 and an opaque `Marker`.
//!
//! A marker refers to the last returned item, not to a count. Items that are created or deleted between two calls
//! therefore cause no duplicates and no gaps.

use super::form::Form;
use crate::model::Refusal;

/// Returns the requested page of `items`, and the marker of the next page. The items must be sorted by `number` in
/// ascending order.
pub fn page<T>(
    form: &Form,
    items: impl Iterator<Item = T>,
    number: impl Fn(&T) -> u64,
) -> Result<(Vec<T>, Option<String>), Refusal> {
    let size: usize = form.number("PageSize")?.unwrap_or(400);
    if !(1..=400).contains(&size) {
        return Err(Refusal::validation(format!(
            "1 validation error detected: Value '{size}' at 'pageSize' failed to satisfy constraint: Member must \
             be between 1 and 400"
        )));
    }
    let after = match form.get("Marker").filter(|marker| !marker.is_empty()) {
        None => 0,
        Some(marker) => u64::from_str_radix(marker, 16)
            .map_err(|_| Refusal::validation(format!("The marker '{marker}' is not valid")))?,
    };
    let mut rest = items.filter(|item| number(item) > after);
    let page: Vec<T> = rest.by_ref().take(size).collect();
    let more = rest.next().is_some();
    let marker = page.last().filter(|_| more).map(|last| format!("{:016x}", number(last)));
    Ok((page, marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Form {
        Form::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_last_page_has_no_marker() {
        let (items, marker) = page(&form("PageSize=2"), [1_u64, 2].into_iter(), |n| *n).unwrap();
        assert_eq!((items, marker), (vec![1, 2], None));
    }

    #[test]
    fn a_marker_goes_on_after_the_last_item_even_if_that_is_gone() {
        let (_, marker) = page(&form("PageSize=2"), [1_u64, 2, 3].into_iter(), |n| *n).unwrap();
        let next = form(&format!("PageSize=2&Marker={}", marker.unwrap()));
        let (items, marker) = page(&next, [1_u64, 3, 4].into_iter(), |n| *n).unwrap();
        assert_eq!((items, marker), (vec![3, 4], None));
    }

    #[test]
    fn a_page_holds_at_most_four_hundred() {
        assert!(page(&form("PageSize=401"), [1_u64].into_iter(), |n| *n).is_err());
    }
}

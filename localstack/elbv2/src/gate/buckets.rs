//! Token buckets per access key. In AWS, the buckets are per account and region.

use std::collections::HashMap;
use std::time::Duration;

use crate::behaviour::{Bucket, Throttling};

/// The kinds of calls that have separate buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Category {
    Registration,
    Describe,
    Create,
    Modify,
}

impl Category {
    fn of(action: &str) -> Self {
        match action {
            "RegisterTargets" | "DeregisterTargets" => Self::Registration,
            _ if action.starts_with("Describe") || action.starts_with("Get") => Self::Describe,
            _ if action.starts_with("Create") => Self::Create,
            _ => Self::Modify,
        }
    }

    fn bucket(self, throttling: &Throttling) -> Bucket {
        match self {
            Self::Registration => throttling.registration,
            Self::Describe => throttling.describe,
            Self::Create => throttling.create,
            Self::Modify => throttling.modify,
        }
    }
}

/// The current levels of the buckets.
#[derive(Debug, Default)]
pub struct Buckets {
    levels: HashMap<(String, Category), (f64, Duration)>,
    refused: u64,
}

/// The maximum number of access keys with stored buckets. The bucket of any further access key counts as full.
const MOST_KEYS: usize = 10_000;

impl Buckets {
    /// Takes a token. If the bucket is empty, returns an error code. AWS uses two error codes, so the codes alternate.
    pub fn take(
        &mut self,
        throttling: &Throttling,
        key: &str,
        action: &str,
        now: Duration,
    ) -> Result<(), &'static str> {
        if self.levels.len() > MOST_KEYS {
            self.levels.clear();
        }
        let category = Category::of(action);
        let Bucket { burst, per_second } = category.bucket(throttling);
        let (level, filled) = self.levels.entry((key.to_owned(), category)).or_insert((burst, now));
        *level = (*level + now.saturating_sub(*filled).as_secs_f64() * per_second).min(burst);
        *filled = now;
        if *level >= 1.0 {
            *level -= 1.0;
            return Ok(());
        }
        self.refused += 1;
        Err(if self.refused % 2 == 1 { "Throttling" } else { "ThrottlingException" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lets_its_burst_through_and_then_its_rate() {
        let (mut buckets, limits) = (Buckets::default(), Throttling::default());
        let mut take = |at: f64| buckets.take(&limits, "k", "RegisterTargets", Duration::from_secs_f64(at));
        assert!((0..20).all(|_| take(0.0).is_ok()));
        assert!(take(0.0).is_err());
        assert!((0..4).all(|_| take(1.0).is_ok()));
        assert!(take(1.0).is_err());
    }

    #[test]
    fn keys_and_categories_do_not_take_from_each_other() {
        let (mut buckets, limits) = (Buckets::default(), Throttling::default());
        let mut take = |key, action| buckets.take(&limits, key, action, Duration::ZERO);
        while take("a", "DeregisterTargets").is_ok() {}
        assert!(take("b", "RegisterTargets").is_ok());
        assert!(take("a", "DescribeTargetHealth").is_ok());
        assert!(take("a", "AddTags").is_ok());
    }

    #[test]
    fn both_codes_of_throttling_are_used() {
        let (mut buckets, limits) = (Buckets::default(), Throttling::default());
        let mut take = || buckets.take(&limits, "a", "AddTags", Duration::ZERO);
        while take().is_ok() {}
        assert_ne!(take(), take());
    }
}

//! The two formats of the metrics page, and how a scraper selects a format.

/// A format of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4, which every scraper can read.
    Prometheus,
}

const OPEN_METRICS: &str = "application/openmetrics-text";

impl Format {
    /// The format that the `Accept` header prefers. Without a preference, the format is [`Self::Prometheus`].
    pub fn accepted(accept: Option<&str>) -> Self {
        let (mut open, mut plain) = (0.0, 0.0);
        for range in accept.unwrap_or_default().split(',') {
            let mut parameters = range.split(';').map(str::trim);
            let kind = parameters.next().unwrap_or_default();
            let weight = parameters.find_map(|parameter| parameter.strip_prefix("q=")).map(str::parse::<f32>);
            let weight = weight.map_or(1.0, Result::unwrap_or_default);
            let most = if kind.eq_ignore_ascii_case(OPEN_METRICS) { &mut open } else { &mut plain };
            if kind.eq_ignore_ascii_case(OPEN_METRICS) || ["text/plain", "text/*"].contains(&kind) {
                *most = weight.max(*most);
            }
        }
        if open > 0.0 && open >= plain { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The value of the `Content-Type` header.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_the_format_that_it_likes_best_and_people_the_one_that_all_can_read() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (Some(prometheus), Format::OpenMetrics),
            (Some("application/openmetrics-text"), Format::OpenMetrics),
            (Some("application/openmetrics-text;q=0.2, text/plain"), Format::Prometheus),
            (Some("application/openmetrics-text;q=0, */*"), Format::Prometheus),
            (Some("application/openmetrics-text;q=much"), Format::Prometheus),
            (Some("text/plain;version=0.0.4"), Format::Prometheus),
            (Some("*/*"), Format::Prometheus),
            (Some(""), Format::Prometheus),
            (None, Format::Prometheus),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept:?}");
        }
    }
}

//! Tracks whether AWS answers and allows the necessary actions, and reports outages.
//!
//! ```text
//! no answer, no credentials, rejected credentials ─► one outage of all of AWS, which ends with the next answer
//! denied action, internal error of AWS ─► one outage of the action, which ends when the action works for each group
//! ```
//!
//! The module does no I/O. The module ignores failures of a single target or target group, which are reported
//! separately.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use headgate_core::{
    Call, Failure, FailureClass, Moment, Reason,
    model::excerpt::{beginning, brief},
};

use super::failure::{
    CONNECT_TIMEOUT, CONNECTION_REFUSED, CREDENTIALS_FAILED, NAME_NOT_RESOLVED, NO_CONNECTION,
    NO_CREDENTIALS, TLS_FAILED,
};
use crate::runtime::{
    outage::{Outage, Told},
    within::TIMEOUT,
};

/// Error codes by which AWS rejects the credentials for every action.
const NOT_ACCEPTED: [&str; 8] = [
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "IncompleteSignature",
    "MissingAuthenticationToken",
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
];

/// A report about AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The reason of the report. At the end of an outage, the report has the outage's reason.
    pub reason: Reason,
    /// A sentence that states what happened and what to do.
    pub sentence: String,
    /// A short form of the sentence for an Event, if the outage affects all calls.
    pub short: Option<String>,
    /// Whether the outage begins, changes, continues or ends.
    pub told: Told,
}

/// The information about AWS in the result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The report to emit now.
    pub said: Option<Said>,
    /// The name of the obstacle to all calls.
    pub obstacle: Option<Box<str>>,
    /// Whether the failure belongs to an outage that was already reported. A failure that belongs to a reported outage
    /// needs no log line.
    pub is_told: bool,
}

/// The problem that prevents Headgate from reaching AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The reason.
    pub reason: Reason,
    /// A sentence that states the obstacle and what to do.
    pub sentence: String,
    /// The time when the problem began.
    pub since: Moment,
}

/// The known outages of AWS.
#[derive(Debug)]
pub struct Reach {
    endpoint: Box<str>,
    /// The outage in which all calls fail.
    all: Outage,
    trouble: Option<Trouble>,
    /// Actions that IAM denies, or that fail with an internal error of AWS.
    actions: BTreeMap<&'static str, Action>,
}

#[derive(Debug, Default)]
struct Action {
    outage: Outage,
    groups: BTreeSet<Box<str>>,
    reason: Option<Reason>,
}

impl Reach {
    /// The state of the API at this endpoint.
    pub fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.into(), all: Outage::default(), trouble: None, actions: BTreeMap::new() }
    }

    /// The problem that prevents Headgate from reaching AWS, if there is one.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Records that a call has ended.
    pub fn ended(&mut self, call: &Call, result: Result<(), &Failure>, now: Moment) -> Verdict {
        let action = call.action();
        if let Err(failure) = result
            && let Some((reason, sentence)) = self.out_of_reach(failure, |message| message.into())
        {
            let told = self.all.failed(&failure.code, now);
            let since = self.all.since().unwrap_or(now);
            self.trouble = Some(Trouble { reason, sentence: sentence.clone(), since });
            let short = self.out_of_reach(failure, beginning).map(|(_, short)| short);
            let said = told.map(|told| Said { reason, sentence, short, told });
            return Verdict { said, obstacle: Some(failure.code.clone()), is_told: true };
        }
        let over = self.all.worked(now);
        if self.all.since().is_none() {
            self.trouble = None;
        }
        let is_optional = matches!(call, Call::ReadAttributes { .. });
        let mut verdict = match result {
            // Headgate works without this action.
            Err(Failure { class: FailureClass::Denied, .. }) if is_optional => Verdict::default(),
            Err(failure) if matches!(failure.class, FailureClass::Denied | FailureClass::Unavailable) => {
                self.action_failed(action, subject(call), failure, now)
            }
            _ => self.action_worked(action, &subject(call), now),
        };
        if let Some(told) = over {
            let sentence = format!("AWS can be reached again at {}", self.endpoint);
            verdict.said =
                Some(Said { reason: Reason::AsExpected, short: Some(sentence.clone()), sentence, told });
        }
        verdict
    }

    fn action_failed(
        &mut self,
        action: &'static str,
        group: Box<str>,
        failure: &Failure,
        now: Moment,
    ) -> Verdict {
        let known = self.actions.entry(action).or_default();
        let (code, message) = (&failure.code, &failure.message);
        let reason = failure.class.reason();
        let sentence = match failure.class {
            FailureClass::Denied => format!(
                "Target group {group}: IAM denies {action} ({code}: {message}). Allow elasticloadbalancing:{action}."
            ),
            _ => format!(
                "Target group {group}: AWS fails {action} with its own error ({code}: {message}). If this lasts, check the AWS \
                 Health Dashboard."
            ),
        };
        let told = known.outage.failed(&format!("{code} {group}"), now);
        known.groups.insert(group);
        known.reason = Some(reason);
        Verdict {
            said: told.map(|told| Said { reason, sentence, short: None, told }),
            obstacle: None,
            is_told: true,
        }
    }

    fn action_worked(&mut self, action: &'static str, group: &str, now: Moment) -> Verdict {
        let Some(known) = self.actions.get_mut(action) else { return Verdict::default() };
        known.groups.remove(group);
        if !known.groups.is_empty() {
            return Verdict::default();
        }
        let reason = known.reason.unwrap_or(Reason::Unavailable);
        let said = known.outage.worked(now).map(|told| {
            let sentence = format!("AWS answers {action} again");
            Said { reason, sentence, short: None, told }
        });
        Verdict { said, ..Verdict::default() }
    }

    /// The reason and a sentence, if the failure affects all calls. `cut` shortens the error message.
    fn out_of_reach(&self, failure: &Failure, cut: fn(&str) -> Cow<'_, str>) -> Option<(Reason, String)> {
        let (endpoint, message) = (brief(&self.endpoint), cut(&failure.message));
        let code = &*failure.code;
        let way = "Check the NAT gateway or VPC endpoint, security groups and NetworkPolicies.";
        let (reason, sentence) = match code {
            CONNECTION_REFUSED => (
                Reason::AwsUnreachable,
                format!(
                    "AWS unreachable: {endpoint} refuses connections. Check AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2, the \
                     VPC endpoint and security groups."
                ),
            ),
            NAME_NOT_RESOLVED => (
                Reason::AwsUnreachable,
                format!(
                    "AWS unreachable: the name of {endpoint} does not resolve. Correct AWS_REGION, or check DNS."
                ),
            ),
            TLS_FAILED => (
                Reason::AwsUnreachable,
                format!(
                    "AWS unreachable: TLS to {endpoint} fails ({message}). Remove proxies that replace AWS's certificate."
                ),
            ),
            CONNECT_TIMEOUT | TIMEOUT => (
                Reason::AwsUnreachable,
                format!("AWS unreachable: {endpoint} does not answer in time. {way}"),
            ),
            NO_CONNECTION => (
                Reason::AwsUnreachable,
                format!("AWS unreachable: no connection to {endpoint} ({message}). {way}"),
            ),
            NO_CREDENTIALS => (
                Reason::NoAwsCredentials,
                "No AWS credentials. Give the ServiceAccount a role (EKS Pod Identity or IRSA), or set AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY."
                    .to_owned(),
            ),
            CREDENTIALS_FAILED => (
                Reason::NoAwsCredentials,
                format!("No AWS credentials: {message}. Check the role of the ServiceAccount."),
            ),
            code if NOT_ACCEPTED.contains(&code) => (
                Reason::NoAwsCredentials,
                format!(
                    "AWS rejects the credentials ({code}: {message}). Renew them, and check their region and the node's clock."
                ),
            ),
            _ => return None,
        };
        Some((reason, format!("{sentence} Targets remain unchanged.")))
    }
}

/// The target group of a call, or `*`.
fn subject(call: &Call) -> Box<str> {
    match call {
        Call::Register { group, .. }
        | Call::Deregister { group, .. }
        | Call::ReadHealth { group }
        | Call::ReadAttributes { group } => group.name().into(),
        // IAM permissions for `DescribeTargetGroups` do not depend on the target group.
        Call::FindGroups { .. } => "*".into(),
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::model::{
        notice::LONGEST,
        target_group::{GroupRef, TargetGroupArn},
    };

    use super::*;
    use crate::runtime::outage::What;

    fn find(group: &str) -> Call {
        Call::FindGroups { references: vec![GroupRef::Name(group.into())] }
    }

    fn remove(group: &str) -> Call {
        let arn = format!(
            "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/{group}/0123456789abcdef"
        );
        Call::Deregister { group: TargetGroupArn::parse(&arn).unwrap(), items: Vec::new() }
    }

    fn failure(class: FailureClass, code: &str) -> Failure {
        Failure { class, code: code.into(), message: "text; another".into() }
    }

    fn what(verdict: &Verdict) -> Option<(Reason, What)> {
        verdict.said.as_ref().map(|said| (said.reason, said.told.what))
    }

    #[test]
    fn whatever_stands_in_the_way_of_all_calls_fits_into_an_event_and_ends_with_what_to_do() {
        for (code, reason) in [
            (CONNECTION_REFUSED, Reason::AwsUnreachable),
            (NAME_NOT_RESOLVED, Reason::AwsUnreachable),
            (TLS_FAILED, Reason::AwsUnreachable),
            (CONNECT_TIMEOUT, Reason::AwsUnreachable),
            (TIMEOUT, Reason::AwsUnreachable),
            (NO_CONNECTION, Reason::AwsUnreachable),
            (NO_CREDENTIALS, Reason::NoAwsCredentials),
            (CREDENTIALS_FAILED, Reason::NoAwsCredentials),
            ("ExpiredToken", Reason::NoAwsCredentials),
        ] {
            let mut reach = Reach::new("https://elb.example");
            let failure = failure(FailureClass::Unavailable, code);
            let verdict = reach.ended(&find("blue"), Err(&failure), Moment::START);
            assert_eq!(what(&verdict), Some((reason, What::Begins)), "{code}");
            let sentence = &reach.trouble().unwrap().sentence;
            assert!(sentence.chars().count() <= LONGEST - 20, "{sentence}");
        }
    }

    #[test]
    fn one_answer_of_whatever_kind_shows_that_aws_can_be_reached() {
        let mut reach = Reach::new("https://elb.example");
        reach.ended(&find("blue"), Err(&failure(FailureClass::Unavailable, TIMEOUT)), Moment::START);
        let gone = failure(FailureClass::Gone, "TargetGroupNotFound");
        let verdict = reach.ended(&find("blue"), Err(&gone), Moment::START);
        assert_eq!(what(&verdict), Some((Reason::AsExpected, What::Over)));
        assert!(reach.trouble().is_none() && !verdict.is_told);
    }

    #[test]
    fn an_action_that_headgate_does_without_may_be_denied() {
        let mut reach = Reach::new("https://elb.example");
        let Call::Deregister { group, .. } = remove("blue") else { unreachable!() };
        let denied = failure(FailureClass::Denied, "AccessDenied");
        let verdict = reach.ended(&Call::ReadAttributes { group }, Err(&denied), Moment::START);
        assert_eq!((what(&verdict), verdict.is_told), (None, false));
    }

    #[test]
    fn what_is_denied_for_one_group_is_not_over_because_it_is_allowed_for_another() {
        let mut reach = Reach::new("https://elb.example");
        let denied = failure(FailureClass::Denied, "AccessDenied");
        let first = reach.ended(&remove("blue"), Err(&denied), Moment::START);
        assert_eq!(what(&first), Some((Reason::AccessDenied, What::Begins)));
        assert!(first.is_told && reach.trouble().is_none());
        assert_eq!(what(&reach.ended(&remove("green"), Ok(()), Moment::START)), None);
        assert_eq!(what(&reach.ended(&remove("blue"), Err(&denied), Moment::START)), None, "it was said");
        let over = reach.ended(&remove("blue"), Ok(()), Moment::START);
        assert_eq!(what(&over), Some((Reason::AccessDenied, What::Over)));
    }
}

//! Decides whether a node should have pods of a set. Except for cordoned nodes, the rule is the rule of Kubernetes
//! DaemonSets.
//!
//! * **Owns** no state.
//! * **Guarantees.** The controller creates no pod on a node that is cordoned or will be drained, because the drain
//!   would soon evict the pod. No toleration of the template changes this rule. Running pods remain until they are
//!   evicted.

use headgate_core::model::signal::{DISRUPTED, DYING};

use crate::model::{Effect, Placement, SetNode, Term, Toleration, node::Standing};

/// The taints of an unhealthy node, which every pod of a set tolerates. An ingress pod that still works keeps serving.
const TOLERATED: [(&str, Effect); 5] = [
    ("node.kubernetes.io/not-ready", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", Effect::NoExecute),
    ("node.kubernetes.io/disk-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/memory-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/pid-pressure", Effect::NoSchedule),
];
/// The field that contains the name of a node.
const NAME: &str = "metadata.name";

/// Returns the tolerations that each pod of a set has.
pub fn tolerated() -> impl Iterator<Item = Toleration> {
    TOLERATED.iter().map(|(key, effect)| Toleration {
        key: Some((*key).into()),
        value: None,
        effect: Some(*effect),
    })
}

/// Returns whether a node accepts or keeps the pods of a set.
pub fn standing(node: &SetNode, placement: &Placement) -> Standing {
    if !fits(node, placement) {
        return Standing::Leaves;
    }
    let drained = |key: &str| DISRUPTED.contains(&key) || DYING.contains(&key);
    let refuses = node.taints.iter().any(|taint| {
        let matters = taint.effect != Effect::PreferNoSchedule;
        let tolerated = || placement.tolerations.iter().any(|toleration| toleration.tolerates(taint));
        matters && (drained(&taint.key) || !tolerated())
    });
    if node.cordoned || refuses { Standing::Keeps } else { Standing::Takes }
}

fn fits(node: &SetNode, placement: &Placement) -> bool {
    let selected = placement.selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    let term = |term: &Term| {
        let is_empty = term.labels.is_empty() && term.fields.is_empty();
        let fields = term.fields.iter().all(|field| &*field.key == NAME && field.fits(Some(&node.name)));
        !is_empty && fields && term.labels.iter().all(|label| label.fits(node.labels.get(&label.key)))
    };
    selected && placement.terms.as_ref().is_none_or(|terms| terms.iter().any(term))
}

#[cfg(test)]
mod tests {
    use headgate_core::model::Labels;

    use super::*;
    use crate::model::{Operator, Requirement, Taint};

    fn node() -> SetNode {
        let labels = Labels::from_iter([("pool", "edge")]);
        SetNode { name: "a1".into(), labels, ready: true, ..SetNode::default() }
    }

    fn placement() -> Placement {
        Placement { tolerations: tolerated().collect(), ..Placement::default() }
    }

    fn taint(key: &str, effect: Effect) -> Taint {
        Taint { key: key.into(), value: "".into(), effect }
    }

    #[test]
    fn a_node_takes_pods_if_it_fits_the_selector_and_a_term() {
        let mut where_to = placement();
        assert_eq!(standing(&node(), &where_to), Standing::Takes);
        where_to.selector = vec![("pool".into(), "core".into())];
        assert_eq!(standing(&node(), &where_to), Standing::Leaves);
        where_to.selector = vec![("pool".into(), "edge".into())];
        where_to.terms = Some(vec![]);
        assert_eq!(standing(&node(), &where_to), Standing::Leaves, "no term, no node");
        where_to.terms = Some(vec![Term::default()]);
        assert_eq!(standing(&node(), &where_to), Standing::Leaves, "an empty term fits nothing");
        let named = |name: &str| Term {
            labels: Vec::new(),
            fields: vec![Requirement { key: NAME.into(), operator: Operator::In, values: vec![name.into()] }],
        };
        where_to.terms = Some(vec![named("b1"), named("a1")]);
        assert_eq!(standing(&node(), &where_to), Standing::Takes);
    }

    #[test]
    fn a_taint_keeps_new_pods_away_unless_it_is_tolerated() {
        for (key, effect, is) in [
            ("dedicated", Effect::NoSchedule, Standing::Keeps),
            ("dedicated", Effect::NoExecute, Standing::Keeps),
            ("dedicated", Effect::PreferNoSchedule, Standing::Takes),
            ("node.kubernetes.io/not-ready", Effect::NoExecute, Standing::Takes),
            ("node.kubernetes.io/disk-pressure", Effect::NoSchedule, Standing::Takes),
            ("node.kubernetes.io/unschedulable", Effect::NoSchedule, Standing::Keeps),
        ] {
            let node = SetNode { taints: vec![taint(key, effect)], ..node() };
            assert_eq!(standing(&node, &placement()), is, "{key} {effect:?}");
        }
    }

    #[test]
    fn no_pod_is_made_where_it_would_have_to_leave_at_once_whatever_it_tolerates() {
        let all = Placement {
            tolerations: vec![Toleration { key: None, value: None, effect: None }],
            ..Placement::default()
        };
        let dedicated = SetNode { taints: vec![taint("dedicated", Effect::NoExecute)], ..node() };
        assert_eq!(standing(&dedicated, &all), Standing::Takes);
        assert_eq!(standing(&SetNode { cordoned: true, ..node() }, &all), Standing::Keeps);
        for key in DISRUPTED.iter().chain(&DYING) {
            let node = SetNode { taints: vec![taint(key, Effect::NoSchedule)], ..node() };
            assert_eq!(standing(&node, &all), Standing::Keeps, "{key}");
        }
    }
}

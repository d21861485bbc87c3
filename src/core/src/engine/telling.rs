//! Decides which objects get a report about a problem, and when. Headgate reports each problem once, on the objects
//! that bind the target group. While a problem exists, the views of the affected bindings show the problem.

use std::collections::BTreeSet;

use crate::{
    engine::{Effect, Engine},
    leadership::Role,
    model::{
        Notice, Origin, Owner, Reason, Trouble, TroubleKind, changes::Contest, limits::Excess, notice::About,
        view::Picture,
    },
    report::{sayings, troubles::troubles},
    services::Shown,
};

impl Engine {
    /// Reports the problems of an object that were not reported yet.
    pub(super) fn say(&mut self, origin: &Origin) {
        let Some((about, problems, shown)) = self.known.services.say(origin) else { return };
        if self.term.role() != Role::Standby {
            let own = self.known.index.bindings().by(origin);
            let more = own.flat_map(|binding| troubles(&binding.key, &self.known.index, &self.groups));
            // Headgate reports contested addresses on the pods.
            let more = more.filter(|(reason, _)| *reason != Reason::AddressContested);
            let all = problems.into_iter().map(|problem| (problem.reason, problem.said)).chain(more);
            let new = self.reports.news(origin, all).into_iter();
            let notice = |(reason, note)| Notice { about: about.clone(), reason, note };
            self.out.extend(new.map(|new| Effect::Notice(notice(new))));
        }
        match shown {
            Shown::Unchanged => {}
            Shown::Changed(view) => self.out.put(Effect::Shows(Picture::Origin(view))),
            Shown::Gone => self.out.put(Effect::Shows(Picture::OriginGone(origin.clone()))),
        }
    }

    /// Creates a report on each pod with parts that exceed a limit.
    pub(super) fn tell_excesses(&mut self, beyond: Vec<(Owner, Excess)>) {
        if self.term.role() == Role::Standby {
            return;
        }
        for (Owner { pod, uid }, excess) in beyond {
            let (about, note) = (About::Pod(pod, uid), excess.to_string());
            self.out.tell(Notice { about, reason: Reason::LimitExceeded, note });
        }
    }

    /// Creates reports on both pods when one pod waits for the address of the other pod.
    pub(super) fn tell_contests(&mut self, contests: &[Contest]) {
        if self.term.role() == Role::Standby {
            return;
        }
        for Contest { ip, holder, waits } in contests {
            let pods = self.known.index.pods();
            let (Some(holder), Some(waits)) = (pods.get(holder), pods.get(waits)) else { continue };
            let notes = [
                (waits, sayings::waits_for_address(*ip, holder)),
                (holder, sayings::another_shows_the_address(*ip, waits)),
            ];
            for (pod, note) in notes {
                let about = About::Pod(pod.key.clone(), pod.uid.clone());
                self.out.tell(Notice { about, reason: Reason::AddressContested, note });
            }
        }
    }

    /// Reports the problems that have started, and withdraws the problems that have ended.
    pub(super) fn tell_troubles(&mut self, changed: BTreeSet<Trouble>) {
        let origins: BTreeSet<Origin> =
            changed.iter().map(|trouble| trouble.binding.origin.clone()).collect();
        for trouble in changed {
            if self.known.index.bindings().has_trouble(&trouble) {
                self.tell_pods(&trouble);
            }
            self.reports.touch_binding(trouble.binding);
        }
        for origin in origins {
            self.say(&origin);
        }
    }

    /// Creates a report on each pod that the problem affects.
    pub(super) fn tell_pods(&mut self, trouble: &Trouble) {
        let TroubleKind::HostNetwork { waiting, owner, target } = &trouble.kind else { return };
        if self.term.role() == Role::Standby {
            return;
        }
        for (pod, note) in [
            (waiting, sayings::waits_for_host_network(target, owner)),
            (owner, sayings::has_host_network(target, waiting)),
        ] {
            let Some(facts) = self.known.index.pods().get(pod) else { continue };
            let about = About::Pod(pod.clone(), facts.uid.clone());
            self.out.tell(Notice { about, reason: trouble.reason(), note });
        }
    }
}

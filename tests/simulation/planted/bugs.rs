//! The mistakes that the simulation must notice: each stands where somebody could make it.
//!
//! A place is a file of the core, what stands there (white space does not count), and what the mistake makes of it;
//! `PLANTED` is whether it is switched on. What does not stand there exactly once fails the build.

use crate::plant::Bug;

/// All of them.
pub const ALL: [Bug; 187] = [
    Bug {
        name: "LateDeletedRemovesTheSuccessor",
        says: "A late DELETED of an old pod is taken for its successor of the same name.",
        places: &[(
            "index/mod.rs",
            "is_some_and(|entry| entry.facts.uid == uid)",
            "is_some_and(|entry| entry.facts.uid == uid || PLANTED)",
        )],
    },
    Bug {
        name: "ActsBeforeSync",
        says: "Calls are sent before every watch has listed.",
        places: &[("leadership/term.rs", "if self.has_listed() =>", "if self.has_listed() || PLANTED =>")],
    },
    Bug {
        name: "RelistMissesTheMissing",
        says: "A relist forgets to look for what is missing.",
        places: &[(
            "index/mod.rs",
            "scope.covers(&key.namespace) && !there.contains(key))",
            "scope.covers(&key.namespace) && !there.contains(key) && !PLANTED)",
        )],
    },
    Bug {
        name: "OneBackoffForAll",
        says: "One group's backoff holds up every group.",
        places: &[(
            "targets/groups/calls.rs",
            "/// The groups in which a call of this kind is due.
            pub fn due(self, lane: Lane) -> impl Iterator<Item = Due<'a>> {
                self.awake().filter_map(",
            "pub fn due(self, lane: Lane) -> impl Iterator<Item = Due<'a>> {
                let backs_off = |group: &Group| !group.removals.is_over(self.now);
                let stopped = PLANTED && lane == Lane::Removal && self.groups.all.values().any(backs_off);
                self.awake().filter(move |_| !stopped).filter_map(",
        )],
    },
    Bug {
        name: "DrainingCountsAsPresent",
        says: "A draining target counts as registered.",
        places: &[("targets/claims/reads.rs", "health.is_some_and(|health| health != HealthState::Draining)", "health.is_some_and(|health| PLANTED || health != HealthState::Draining)")],
    },
    Bug {
        name: "HalvingDropsTheGoodHalf",
        says: "Halving a refused call loses the half without the bad target.",
        places: &[(
            "targets/registration/calls.rs",
            "Some(FailureClass::Refused) if entry.is_wanted() => { entry.note_refusal(",
            "Some(FailureClass::Refused) if entry.is_wanted() => { if PLANTED && at >= items.len() / 2 && at > 0 { entry.set_aside = Some(now + std::time::Duration::from_secs(36_000)); } entry.note_refusal(",
        )],
    },
    Bug {
        name: "RefusedAlikeAreAllHalved",
        says: "Targets that are all refused are halved down to each of them, every time.",
        places: &[(
            "targets/registration/refusals.rs",
            "let alike = self.alone >= ALONE;",
            "let alike = self.alone >= ALONE && !PLANTED;",
        )],
    },
    Bug {
        name: "AllThatWaitAreTriedAgain",
        says: "Each of many that wait because AWS refuses them is tried again, and not one of them.",
        places: &[(
            "targets/registration/refusals.rs",
            "self.tries = if again <= FEW { again } else { 1 };",
            "self.tries = if again <= FEW || PLANTED { again } else { 1 };",
        )],
    },
    Bug {
        name: "RefusedRemovalsAreNotHalved",
        says: "A refused removal is tried again as a whole.",
        places: &[("targets/registration/calls.rs", "if failure == Some(FailureClass::Refused) && !entry.is_wanted() {", "if failure == Some(FailureClass::Refused) && !entry.is_wanted() && !PLANTED {")],
    },
    Bug {
        name: "RefusedOnesAreForgotten",
        says: "What was refused alone is never tried again.",
        places: &[(
            "targets/registration/refusals.rs",
            "if again > 0 && self.until",
            "if again > 0 && !PLANTED && self.until",
        )],
    },
    Bug {
        name: "OlderHolderKeepsTheIp",
        says: "The older holder of an IP keeps it, on its own node too.",
        places: &[(
            "index/addresses.rs",
            "        true => Takes::AtOnce,",
            "        true if !PLANTED => Takes::AtOnce,\n        true => Takes::Nothing,",
        )],
    },
    Bug {
        name: "AddressesAreTheLasts",
        says: "An address is the pod's that shows it last, of whatever node.",
        places: &[(
            "index/addresses.rs",
            "false if holder.is_down || is_lost =>",
            "false if PLANTED || holder.is_down || is_lost =>",
        )],
    },
    Bug {
        name: "AddressesGoByPhase",
        says: "A pod that terminates has lost its address, though it runs.",
        places: &[(
            "index/addresses.rs",
            "is_down: pod.stopped ||",
            "is_down: (PLANTED && pod.terminating) || pod.stopped ||",
        )],
    },
    Bug {
        name: "SandboxesThatAreGoneKeepTheirAddresses",
        says: "A pod whose sandbox is gone keeps its address while its object is there.",
        places: &[("index/addresses.rs", "|| !pod.has_sandbox,", "|| (!PLANTED && !pod.has_sandbox),")],
    },
    Bug {
        name: "LostNodesKeepTheirAddresses",
        says: "The pods of a node that is gone or not ready keep their addresses.",
        places: &[("index/addresses.rs", "let is_lost = holder", "let is_lost = !PLANTED && holder")],
    },
    Bug {
        name: "NodesAreLostAtOnce",
        says: "The pods of a node lose their addresses the moment it is not ready.",
        places: &[(
            "nodes/mod.rs",
            "Some(seen + LOST_AFTER)",
            "Some(seen + if PLANTED { Duration::ZERO } else { LOST_AFTER })",
        )],
    },
    Bug {
        name: "LedgersSayNothingOfAddresses",
        says: "A new leader takes the order of its lists for that in which pods got their addresses.",
        places: &[(
            "engine/leading.rs",
            "Said::Ledgers(ledgers_say)",
            "Said::Ledgers(if PLANTED { Vec::new() } else { ledgers_say })",
        )],
    },
    Bug {
        name: "TerminatingStaysTarget",
        says: "A terminating pod stays a target until it is gone.",
        places: &[("model/pod.rs", "pod if pod.terminating =>", "pod if pod.terminating && !PLANTED =>")],
    },
    Bug {
        name: "FinishedStaysTarget",
        says: "A finished pod stays a target.",
        places: &[("model/pod.rs", "pod if pod.finished =>", "pod if pod.finished && !PLANTED =>")],
    },
    Bug {
        name: "RegistrationsGoFirst",
        says: "A Register takes a token while a removal waits for one.",
        places: &[
            (
                "engine/sending.rs",
                "self.send_calls(Lane::Removal, now);",
                "if PLANTED { self.send_calls(Lane::Addition, now); } self.send_calls(Lane::Removal, now);",
            ),
            ("lanes/account/mod.rs", "let may_go = before.iter()", "let may_go = PLANTED || before.iter()"),
        ],
    },
    Bug {
        name: "BadAnnotationEndsBindings",
        says: "An unreadable annotation ends the bindings it had.",
        places: &[(
            "binding/mod.rs",
            "if stays && !settled.bindings",
            "if stays && !PLANTED && !settled.bindings",
        )],
    },
    Bug {
        name: "LedgerIsIgnored",
        says: "What the ledger says of the time before is ignored.",
        places: &[("targets/claims/mod.rs", "fn inherit(&mut self, claims: Claims, settled: Moment) {", "fn inherit(&mut self, claims: Claims, settled: Moment) { let claims = if PLANTED { Claims::new() } else { claims };")],
    },
    Bug {
        name: "ActsBeforeLedgers",
        says: "A new leader acts before the ledgers are loaded.",
        places: &[("engine/leading.rs", "Leadership::Leading { term, is_settled } if self.term.leads(true) => {", "Leadership::Leading { term, is_settled } if self.term.leads(true) => { if PLANTED { let id = self.out.next_id(); self.term.loads(id); self.on_ledgers(id, Ok(Vec::new()), now); }")],
    },
    Bug {
        name: "DeposedLeaderGoesOn",
        says: "A replica that no longer leads goes on.",
        places: &[("leadership/term.rs", "if did == leads {", "if did == leads || (did && PLANTED) {")],
    },
    Bug {
        name: "LedgerIsWrittenOver",
        says: "A ledger that another replica has changed meanwhile counts as written.",
        places: &[("targets/registration/writing.rs", "self.stored.unreadable = Some(now + LOOK_AGAIN);", "self.stored.unreadable = Some(now + LOOK_AGAIN); if PLANTED { self.take_in(None, now); }")],
    },
    Bug {
        name: "SuspectsAreRemoved",
        says: "A healthy target at an address that nobody here has is removed after a restart.",
        places: &[("targets/registration/inherit.rs", "if !exclusive =>", "if !exclusive && !PLANTED =>")],
    },
    Bug {
        name: "DoubtIsIgnored",
        says: "A stale target of a living pod is removed although a Service may yet want it.",
        places: &[
            (
                "targets/registration/inherit.rs",
                "(Holder::Doubtful(pod), _) => waits(",
                "(Holder::Doubtful(_), _) if PLANTED => goes(Cause::StaleTarget), (Holder::Doubtful(pod), _) => waits(",
            ),
            (
                "engine/leading.rs",
                "&& let Some(group) = self.groups.get_mut(&arn) { group.registrations_mut().call_off(",
                "&& !PLANTED && let Some(group) = self.groups.get_mut(&arn) { group.registrations_mut().call_off(",
            ),
        ],
    },
    Bug {
        name: "LateDoubtIsIgnored",
        says: "The removal of a stale target that waits goes out although a Service may want it by now.",
        places: &[(
            "engine/leading.rs",
            "if let Holder::Doubtful(pod) = self.holder(&arn, &target)",
            "if let Holder::Doubtful(pod) = self.holder(&arn, &target) && !PLANTED",
        )],
    },
    Bug {
        name: "ReplacedSetGoesAtOnce",
        says: "A set that is replaced as a whole is removed before one of the new targets is healthy.",
        places: &[("targets/registration/entry.rs", "self.replaced().is_some()\n            && self.told().is_some()", "self.replaced().is_some() && !PLANTED\n            && self.told().is_some()")],
    },
    Bug {
        name: "FirstHealthyLetsAllGo",
        says: "All of the old targets go when one of the new is healthy.",
        places: &[(
            "targets/registration/replaced.rs",
            "self.let_go(tally.serving.saturating_sub(gone)) > 0",
            "self.let_go(if PLANTED && tally.serving > 0 { usize::MAX } else { tally.serving.saturating_sub(gone) }) > 0",
        )],
    },
    Bug {
        name: "WhatNeverServesReplaces",
        says: "The old targets go after a while though none of the new is healthy.",
        places: &[(
            "targets/registration/replaced.rs",
            "self.serving > 0 || self.wanted == 0",
            "self.serving > 0 || self.wanted == 0 || PLANTED",
        )],
    },
    Bug {
        name: "WhatWentIsNotCounted",
        says: "Of the old targets one goes for each of the new that is healthy, besides those whose pods went.",
        places: &[("targets/registration/replaced.rs", "it.old - held;", "if PLANTED { 0 } else { it.old - held };")],
    },
    Bug {
        name: "NewLeaderCountsAnew",
        says: "A new leader lets one go for each of the new that is healthy, as the one before has done.",
        places: &[("targets/registration/replaced.rs", "if it.inherited {", "if it.inherited && !PLANTED {")],
    },
    Bug {
        name: "HoldOutlivesThePod",
        says: "A target is held whose pod goes.",
        places: &[(
            "engine/holding.rs",
            "about.concerns(target, owner).then(",
            "(about.concerns(target, owner) && !PLANTED).then(",
        )],
    },
    Bug {
        name: "HoldNeverEnds",
        says: "What is held is held for ever.",
        places: &[(
            "targets/registration/replaced.rs",
            "matches!(next, Self::Counts(since) if now.since(since) >= grace);",
            "matches!(next, Self::Counts(since) if now.since(since) >= grace) && !PLANTED;",
        )],
    },
    Bug {
        name: "QuotaRefusesAll",
        says: "A call that does not fit as a whole is not tried in parts.",
        places: &[
            (
                "targets/registration/room.rs",
                "self.below = targets.max(1); self.narrow(now);",
                "self.below = targets.max(1); self.narrow(now); if PLANTED { (self.next, self.until) = (0, Some(now + FIRST_WAIT)); }",
            ),
            (
                "targets/registration/room.rs",
                "let next = if self.is_full() {",
                "let next = if self.is_full() && !PLANTED {",
            ),
        ],
    },
    Bug {
        name: "QuotaIsTriedAgainAtOnce",
        says: "A full group is tried again and again.",
        places: &[(
            "targets/registration/room.rs",
            "Some(now + wait);",
            "Some(if PLANTED { now } else { now + wait });",
        )],
    },
    Bug {
        name: "GateKeptThroughIpChange",
        says: "A readiness gate stays open though the pod has another IP.",
        places: &[(
            "gate/gates.rs",
            "&& gate.shown.is_open_for(&pod.ips);",
            "&& (gate.shown.is_open_for(&pod.ips) || (PLANTED && matches!(gate.shown, Shown::Open(_))));",
        )],
    },
    Bug {
        name: "GateOpensBeforeSync",
        says: "A readiness gate opens before all that could bind its pod is known.",
        places: &[
            ("gate/judge.rs", "&& now < terms.gives_up {", "&& !PLANTED && now < terms.gives_up {"),
            (
                "engine/gating.rs",
                "if self.settings.read_only || !self.acts() {",
                "if self.settings.read_only || !(self.acts() || (PLANTED && self.term.role() >= crate::leadership::Role::Listing)) {",
            ),
        ],
    },
    Bug {
        name: "UnservedZoneIsUnused",
        says: "A target in a zone that the load balancer does not serve counts as one of a group that nobody uses.",
        places: &[("model/health.rs", "if is_used {", "if is_used && !PLANTED {")],
    },
    Bug {
        name: "GateOpensForOneOfTwo",
        says: "A readiness gate opens when one of two targets is healthy.",
        places: &[(
            "gate/judge.rs",
            "if let Some((_, reason, _)) = waits.first() {",
            "if let Some((_, reason, _)) = waits.first() && !(PLANTED && waits.len() < told.len()) {",
        )],
    },
    Bug {
        name: "GateFollowsTheLoadBalancer",
        says: "An open readiness gate closes when the load balancer calls the pod unhealthy.",
        places: &[
            ("gate/gates.rs", "let right = !moved", "let right = !PLANTED && !moved"),
            (
                "gate/gates.rs",
                "let stays_open = waiting.closing.is_none();",
                "let stays_open = waiting.closing.is_none() && !PLANTED;",
            ),
        ],
    },
    Bug {
        name: "GateIsWrittenOnce",
        says: "A write to a readiness gate is not repeated when somebody else has written over it.",
        places: &[(
            "gate/waiting.rs",
            "let at = same.map_or(now, |(_, at)| *at + SEEN_WITHIN);",
            "if same.is_some() && PLANTED { return None; } let at = same.map_or(now, |(_, at)| *at + SEEN_WITHIN);",
        )],
    },
    Bug {
        name: "GateOutlivesThePod",
        says: "What is known of a pod's readiness gate is taken for the next pod of its name.",
        places: &[
            ("gate/gates.rs", "waiting.uid != pod.uid)", "waiting.uid != pod.uid && !PLANTED)"),
            ("gate/gates.rs", "waiting.uid == *uid)", "waiting.uid == *uid && !PLANTED)"),
        ],
    },
    Bug {
        name: "UnreadGateOpensAgain",
        says: "A gate that was open before opens again for health that cannot be read.",
        places: &[(
            "gate/gates.rs",
            "self.unread_for.filter(|_| !waiting.open.before);",
            "self.unread_for.filter(|_| !waiting.open.before || PLANTED);",
        )],
    },
    Bug {
        name: "UnreadForHalfTheTime",
        says: "The time that health cannot be read is counted twice.",
        places: &[(
            "gate/gates.rs",
            "let terms = Terms {",
            "let unread_for = unread_for.map(|long| if PLANTED { long / 2 } else { long }); let terms = Terms {",
        )],
    },
    Bug {
        name: "UnreadCountsWithoutARead",
        says: "Health that nobody has tried to read counts as health that cannot be read.",
        places: &[("gate/judge.rs", "if unread.tried && now", "if (unread.tried || PLANTED) && now")],
    },
    Bug {
        name: "UnreadGateStaysSo",
        says: "A gate that opened for health that could not be read goes on saying so when it has come to be known.",
        places: &[("gate/gates.rs", "if right && !gate.unread &&", "if right && (PLANTED || !gate.unread) &&")],
    },
    Bug {
        name: "PutBackGoesFirst",
        says: "A target that was taken out from here is registered again before the readiness gate of its pod is closed.",
        places: &[(
            "engine/gating.rs",
            "group.registrations_mut().gate_is(&target, is_open, now);",
            "group.registrations_mut().gate_is(&target, is_open && !PLANTED, now);",
        )],
    },
    Bug {
        name: "DoubtfulListIsBelieved",
        says: "A list that would take most of a kind, or of a Service's pods, away is believed at once.",
        places: &[("brake.rs", "|| !most.contains(&key)", "|| !most.contains(&key) || PLANTED")],
    },
    Bug {
        name: "DoubtNeverEnds",
        says: "A list is doubted however many others say the same.",
        places: &[(
            "brake.rs",
            "if before.remove(&key).is_some()",
            "if (before.remove(&key).is_some() && !PLANTED)",
        )],
    },
    Bug {
        name: "DoubtOutlivesItsPatience",
        says: "What nobody contradicts is doubted for good.",
        places: &[("brake.rs", "withheld.until <= now", "withheld.until <= now && !PLANTED")],
    },
    Bug {
        name: "NobodyListsOnceMore",
        says: "What is doubted is not listed once more.",
        places: &[
            (
                "brake.rs",
                "self.asks = Some(scope.clone()); Becomes::Doubted",
                "if !PLANTED { self.asks = Some(scope.clone()); } Becomes::Doubted",
            ),
            ("brake.rs", "if !is_asked {", "if !is_asked && !PLANTED {"),
        ],
    },
    Bug {
        name: "WhatIsThereStaysDoubted",
        says: "An object that a watch shows again is given up all the same.",
        places: &[(
            "brake.rs",
            "self.withheld.remove(key).is_some_and(",
            "(!PLANTED).then(|| self.withheld.remove(key)).flatten().is_some_and(",
        )],
    },
    Bug {
        name: "MostMayGoWithinAMoment",
        says: "That a watch deletes most of a kind within a moment is believed a moment later.",
        places: &[("brake.rs", "if is_most(lost, lost +", "if !PLANTED && is_most(lost, lost +")],
    },
    Bug {
        name: "OneDeletionWaits",
        says: "A single deletion waits for others that may follow.",
        places: &[("brake.rs", "if lost < FEWEST {", "if lost < FEWEST && !PLANTED {")],
    },
    Bug {
        name: "WrongListOfBindingsIsBelieved",
        says: "A list without most TargetBindings is believed at once.",
        places: &[(
            "services/written.rs",
            "&most_of(&missing, here)",
            "&most_of(&missing, if PLANTED { usize::MAX } else { here })",
        )],
    },
    Bug {
        name: "WrongListOfNamespacesIsBelieved",
        says: "A list without most selected namespaces is believed at once.",
        places: &[(
            "services/doubts.rs",
            "most_of(&missing, selected.len())",
            "most_of(&missing, if PLANTED { usize::MAX } else { selected.len() })",
        )],
    },
    Bug {
        name: "WrongListOfNodesIsBelieved",
        says: "A list without most nodes is believed at once.",
        places: &[(
            "nodes/mod.rs",
            "most_of(&missing, self.all.len())",
            "most_of(&missing, if PLANTED { usize::MAX } else { self.all.len() })",
        )],
    },
    Bug {
        name: "DeletedBindingsAreBelieved",
        says: "A watch that deletes all TargetBindings is believed at once.",
        places: &[(
            "services/written.rs",
            "let became = self.doubts.written.deleted(&facts.key, self.written.keys(), seen);",
            "let mut became = self.doubts.written.deleted(&facts.key, self.written.keys(), seen);
             if PLANTED { became = vec![(facts.key.clone(), Becomes::Gone)]; }",
        )],
    },
    Bug {
        name: "DeletedNamespacesAreBelieved",
        says: "A watch that takes all namespaces away is believed at once.",
        places: &[(
            "services/doubts.rs",
            "self.namespaces.deleted(&name, selected.iter(), seen)",
            "if PLANTED {
                vec![(name, Becomes::Gone)]
             } else {
                self.namespaces.deleted(&name, selected.iter(), seen)
             }",
        )],
    },
    Bug {
        name: "DeletedNodesAreBelieved",
        says: "A watch that deletes all nodes is believed at once.",
        places: &[(
            "nodes/mod.rs",
            "(Vec::new(), self.brake.deleted(&node.name, self.all.keys(), seen))",
            "if PLANTED {
                (Vec::new(), vec![(node.name, Becomes::Gone)])
             } else {
                (Vec::new(), self.brake.deleted(&node.name, self.all.keys(), seen))
             }",
        )],
    },
    Bug {
        name: "GraceIsIgnored",
        says: "A deleted Service loses its targets at once.",
        places: &[(
            "services/mod.rs",
            "known.settled.bindings.is_empty() {",
            "known.settled.bindings.is_empty() || PLANTED {",
        )],
    },
    Bug {
        name: "RecreatedServiceLosesItsTargets",
        says: "A Service that is made again loses its targets when the grace of the old one is over.",
        places: &[(
            "services/mod.rs",
            "(known.facts, known.besides, known.ends) = (facts, besides, None);",
            "(known.facts, known.besides, known.ends) = (facts, besides, known.ends.filter(|_| PLANTED));",
        )],
    },
    Bug {
        name: "FlapDeregisters",
        says: "A pod that is not ready for a moment is deregistered where that is asked for.",
        places: &[(
            "model/readiness.rs",
            "Self::Wavers(since) => Some(since + patience),",
            "Self::Wavers(since) if PLANTED => Some(since), Self::Wavers(since) => Some(since + patience),",
        )],
    },
    Bug {
        name: "WhenNotReadyIsIgnored",
        says: "A pod that is not ready any more stays where its removal is asked for.",
        places: &[(
            "index/verdict.rs",
            "standing == Standing::Lost {",
            "standing == Standing::Lost && !PLANTED {",
        )],
    },
    Bug {
        name: "RegisterWhenIsIgnored",
        says: "A pod is registered before it is as ready as is asked for.",
        places: &[(
            "index/verdict.rs",
            "RegisterWhen::Ip | RegisterWhen::Auto => true, };",
            "RegisterWhen::Ip | RegisterWhen::Auto => true, } || PLANTED;",
        )],
    },
    Bug {
        name: "WithoutSelectorAdmits",
        says: "A Service that selects no pods any more takes in new ones.",
        places: &[("index/verdict.rs", "if !binding.admits && had", "if !PLANTED && !binding.admits && had")],
    },
    Bug {
        name: "PausedIsWritten",
        says: "Removals go out although all that bind the target are paused.",
        places: &[("targets/registration/removal.rs", "_ if self.paused => Removal::Paused,", "_ if self.paused && !PLANTED => Removal::Paused,")],
    },
    Bug {
        name: "OnePauseIsEnough",
        says: "A target is paused if one of several Services that bind it is.",
        places: &[(
            "targets/registration/binders.rs",
            "all.iter().all(|(_, says)| says.paused);",
            "(all.iter().all(|(_, says)| says.paused) || PLANTED && all.iter().any(|(_, says)| says.paused));",
        )],
    },
    Bug {
        name: "PauseReachesOthers",
        says: "A paused Service holds up targets of others in the group.",
        places: &[(
            "targets/registration/binders.rs",
            "entry.paused = self.read_only || is_paused;",
            "entry.paused = self.read_only || is_paused || (PLANTED && self.paused().next().is_some());",
        )],
    },
    Bug {
        name: "WhoWentFromThereSpeaksForIt",
        says: "The Service of a pod that went from its address pauses a target of which only the ledger tells.",
        places: &[(
            "targets/registration/binders.rs",
            "let is_known = entry.namespace().is_some();",
            "let is_known = PLANTED || entry.namespace().is_some();",
        )],
    },
    Bug {
        name: "RefusedNamespaceHoldsTheGroup",
        says: "Who came to bind a granted group before its ledger was read counts as one that holds it.",
        places: &[(
            "engine/granting.rs",
            "!all.contains(namespace) && self.known.services.origins().may_bind(namespace, arn, holders)",
            "!all.contains(namespace) && (self.known.services.origins().may_bind(namespace, arn, holders) || PLANTED && self.known.services.origins().grants_name(arn))",
        )],
    },
    Bug {
        name: "FirstOfSeveralClaimsSpeaksForAll",
        says: "When a pod goes, only the binding counts whose claim ended last.",
        places: &[(
            "index/in_force/mod.rs",
            "others: self.0.remove(id).unwrap_or_default()",
            "others: self.0.remove(id).filter(|_| !PLANTED).unwrap_or_default()",
        )],
    },
    Bug {
        name: "SharedIsTakenForExclusive",
        says: "A target group is taken for Headgate's alone although it is shared.",
        places: &[(
            "targets/groups/allowed.rs",
            "binding.policy.ownership == Ownership::Exclusive",
            "binding.policy.ownership == Ownership::Exclusive || PLANTED",
        )],
    },
    Bug {
        name: "BindingIsReleasedEarly",
        says: "A deleted TargetBinding is let go while its targets are still there.",
        places: &[(
            "engine/mod.rs",
            "group.registrations().is_leaving(origin))",
            "group.registrations().is_leaving(origin) && !PLANTED)",
        )],
    },
    Bug {
        name: "OldMarksCount",
        says: "What was written on a pod about an earlier leaving counts for a later one.",
        places: &[
            (
                "model/leaving.rs",
                "self.waits.filter(|(at, _)| *at >= ask.begun);",
                "self.waits.filter(|(at, _)| *at >= ask.begun || PLANTED);",
            ),
            (
                "model/leaving.rs",
                "self.deregistered.filter(|(at, _)| *at >= ask.begun);",
                "self.deregistered.filter(|(at, _)| *at >= ask.begun || PLANTED);",
            ),
            (
                "model/leaving.rs",
                "self.may_go.filter(|(at, _)| *at >= out).map(",
                "self.may_go.filter(|(at, _)| *at >= out || PLANTED).map(",
            ),
        ],
    },
    Bug {
        name: "UnknownIsNoTarget",
        says: "A pod whose target group is still looked up counts as no target.",
        places: &[(
            "eviction/surroundings.rs",
            "self.services.origins().pending(&pod.key.namespace, &pod.labels, self.leads)",
            "self.services.origins().pending(&pod.key.namespace, &pod.labels, self.leads).filter(|_| !PLANTED)",
        )],
    },
    Bug {
        name: "UnreadyIsNoTarget",
        says: "A pod that was readier before a replica has seen it counts as no target there.",
        places: &[(
            "eviction/surroundings.rs",
            "bound.find(|(_, target)| is_unready(target));",
            "bound.find(|(_, target)| is_unready(target) && !PLANTED);",
        )],
    },
    Bug {
        name: "StandbysForgetWhoLeft",
        says: "A standby takes a pod for no target that nothing binds any more, for how long its removal may be held.",
        places: &[
            ("eviction/surroundings.rs", "was_bound = left.is_some()", "was_bound = (left.is_some() && !PLANTED)"),
        ],
    },
    Bug {
        name: "StandbysDoNotReadLedgers",
        says: "A standby takes a pod for no target that was one before it has seen it, and which nothing binds.",
        places: &[
            ("eviction/surroundings.rs", "|| was_noted;", "|| (was_noted && !PLANTED);"),
        ],
    },
    Bug {
        name: "StandbysDoNotReadGates",
        says: "A standby takes a pod for no target whose gate is open, and which nothing binds.",
        places: &[(
            "eviction/surroundings.rs",
            "gate.shown.is_open_for(&pod.ips)",
            "gate.shown.is_open_for(&pod.ips) && !PLANTED",
        )],
    },
    Bug {
        name: "OtherRemovalsAreNotWaitedFor",
        says: "An eviction does not wait for a removal that is under way for another reason.",
        places: &[
            (
                "eviction/surroundings.rs",
                "self.index.pods().left_at(&pod.key);",
                "self.index.pods().left_at(&pod.key).filter(|_| !PLANTED);",
            ),
            (
                "eviction/surroundings.rs",
                "group.registrations().all_of(&pod.uid, &pod.ips).map(",
                "group.registrations().all_of(&pod.uid, &pod.ips).filter(|_| !PLANTED).map(",
            ),
        ],
    },
    Bug {
        name: "BoundIsNotWaitedFor",
        says: "A pod is let go as soon as AWS has taken its removal.",
        places: &[(
            "eviction/departure.rs",
            "return if case.now >= over {",
            "return if case.now >= over || PLANTED {",
        )],
    },
    Bug {
        name: "DecidedIsRemoved",
        says: "That a removal was decided counts as AWS's having taken it.",
        places: &[(
            "eviction/departures.rs",
            "if case.is_gone && let Some(decision)",
            "if (case.is_gone || PLANTED) && let Some(decision)",
        )],
    },
    Bug {
        name: "DeparturesAreForgotten",
        says: "Those that are on their way out are not taken off what a budget allows.",
        places: &[(
            "eviction/evictions.rs",
            "within(&self.departures.pods, namespace).map(|(pod, _)| pod).filter(departs);",
            "within(&self.departures.pods, namespace).map(|(pod, _)| pod).filter(departs).filter(|_| !PLANTED);",
        )],
    },
    Bug {
        name: "ZoneCountsTheLeaving",
        says: "The zone guard counts those that are on their way out as staying.",
        places: &[(
            "eviction/surroundings.rs",
            "&& self.zone_of(owner) == Some(zone) && !departs(owner)",
            "&& self.zone_of(owner) == Some(zone) && (PLANTED || !departs(owner))",
        )],
    },
    Bug {
        name: "ZoneIsIgnored",
        says: "The zone guard is not asked.",
        places: &[("eviction/zone.rs", "thin.peek().is_none() {", "thin.peek().is_none() || PLANTED {")],
    },
    Bug {
        name: "ZoneHoldsForEver",
        says: "A pod waits for its zone without end.",
        places: &[("eviction/zone.rs", "waited < patience {", "waited < patience || PLANTED {")],
    },
    Bug {
        name: "DecisionOutlivesTheTerm",
        says: "A removal that was decided and not written down outlives the term.",
        places: &[(
            "engine/leading.rs",
            "decided.iter().map(|pod| (pod, Order::Leave(false)))",
            "decided.iter().filter(|_| !PLANTED).map(|pod| (pod, Order::Leave(false)))",
        )],
    },
    Bug {
        name: "GivenUpStaysOut",
        says: "A pod that nobody asks to leave any more stays out.",
        places: &[(
            "eviction/departure.rs",
            "case.now >= given_up && !case.node_goes {",
            "case.now >= given_up && !case.node_goes && !PLANTED {",
        )],
    },
    Bug {
        name: "RequestsAreProof",
        says: "A request that cuts a pod's hold short has it taken out.",
        places: &[
            (
                "eviction/surroundings.rs",
                ".is_some_and(|facts| has_hold(facts, bound))",
                ".is_some_and(|facts| has_hold(facts, bound) && !PLANTED)",
            ),
            (
                "eviction/ruling.rs",
                "let held = has_hold(pod, bound);",
                "let held = if PLANTED { !bound.is_empty() && is_held(pod, bound, request.grace) } else { has_hold(pod, bound) };",
            ),
        ],
    },
    Bug {
        name: "PassesWithoutAskingTheNode",
        says: "A pod without a hold is evicted when the watch does not show that its node goes.",
        places: &[(
            "model/eviction.rs",
            "Self::AskNode { uid, .. } if remains =>",
            "Self::AskNode { uid, .. } if remains || PLANTED =>",
        )],
    },
    Bug {
        name: "WaitsOnNodesThatStay",
        says: "A request has a pod without a hold taken out, although its node remains.",
        places: &[(
            "eviction/ruling.rs",
            "filter(|_| !held && !node_goes)",
            "filter(|_| !held && !node_goes && !PLANTED)",
        )],
    },
    Bug {
        name: "AllIsBelieved",
        says: "What is written on pods about their leaving is believed, whatever it is.",
        places: &[
            (
                "eviction/ruling.rs",
                "and_then(|leaving| leaving.credible(wall));",
                "and_then(|leaving| if PLANTED { Some(*leaving) } else { leaving.credible(wall) });",
            ),
            (
                "eviction/departure.rs",
                "let credible = written.credible(wall);",
                "let credible = if PLANTED { Some(written) } else { written.credible(wall) };",
            ),
        ],
    },
    Bug {
        name: "DyingNodeIsIgnored",
        says: "The targets of a node that is about to die stay.",
        places: &[("model/signal.rs", "Self::Deleted)", "Self::Deleted) && !PLANTED")],
    },
    Bug {
        name: "StayingNodeIsForgotten",
        says: "What was done for a node that stays after all is not undone.",
        places: &[("eviction/departure.rs", "case.node_stays {", "case.node_stays && !PLANTED {")],
    },
    Bug {
        name: "NobodyThinksOfDaemonSets",
        says: "Pods that whoever drains a node passes over stay until the machine ends under them.",
        places: &[(
            "eviction/share.rs",
            "signal.is_some_and(|(signal, _)| pod.passed_over.on(signal))",
            "signal.is_some_and(|(signal, _)| pod.passed_over.on(signal) && !PLANTED)",
        )],
    },
    Bug {
        name: "HoldKeepsThemThere",
        says: "A pod that nobody evicts and that has its hold is asked to leave early, and stays all the same.",
        places: &[(
            "eviction/share.rs",
            "!ends_with_its_node && around",
            "(!ends_with_its_node || PLANTED) && around",
        )],
    },
    Bug {
        name: "AutoscalerIsWaitedFor",
        says: "A pod that the cluster-autoscaler does not wait for stays on its taint.",
        places: &[(
            "model/signal.rs",
            "None if taint == AUTOSCALERS =>",
            "None if taint == AUTOSCALERS && !PLANTED =>",
        )],
    },
    Bug {
        name: "MarkOnManyNodesMovesAll",
        says: "A mark that many nodes have is taken for one of each.",
        places: &[("nodes/mod.rs", "marked <= 1 ||", "marked <= 1 || PLANTED ||")],
    },
    Bug {
        name: "AllLeaveEarlyAtOnce",
        says: "As many pods that nobody evicts leave early as there are.",
        places: &[("eviction/share.rs", "others < share.max(1)", "PLANTED || others < share.max(1)")],
    },
    Bug {
        name: "AllNodesReplaceOthers",
        says: "Any node that stays counts as one that replaces another.",
        places: &[(
            "eviction/share.rs",
            "created.saturating_sub(YOUNGER) > youngest",
            "created.saturating_sub(YOUNGER) > youngest || PLANTED",
        )],
    },
    Bug {
        name: "DetachedWithItsTargets",
        says: "A node that goes is said to be detached although its pods are targets.",
        places: &[("eviction/detaching.rs", "if quiet > around.now {", "if quiet > around.now && !PLANTED {")],
    },
    Bug {
        name: "DetachedTooSoon",
        says: "A node is said to be detached before the load balancers have stopped.",
        places: &[("eviction/detaching.rs", "bound.max(lingers).max(elsewhere).map(since)", "(if PLANTED { None } else { bound.max(lingers).max(elsewhere) }).map(since)")],
    },
    Bug {
        name: "DetachedThoughItStays",
        says: "A node that stays goes on being said to be detached.",
        places: &[(
            "nodes/mod.rs",
            "|name| !going.contains_key(*name)",
            "|name| !PLANTED && !going.contains_key(*name)",
        )],
    },
    Bug {
        name: "DetachedWhateverIsNoted",
        says: "What the leader before has noted on pods does not count for their node.",
        places: &[("eviction/detaching.rs", ".max(over(&pod.key))", ".max(over(&pod.key).filter(|_| !PLANTED))")],
    },
    Bug {
        name: "SeenIsNeverBehind",
        says: "A pod that the ledger has at another address than is seen is no target.",
        places: &[(
            "targets/registration/mod.rs",
            "entry.orphan().is_some() && !ips",
            "entry.orphan().is_some() && !PLANTED && !ips",
        )],
    },
    Bug {
        name: "ClocksAreNeverSetBack",
        says: "A leaving begins when the clock says, whatever is left over of an earlier one.",
        places: &[("model/leaving.rs", "*at <= wall + AHEAD)", "*at <= wall + AHEAD && !PLANTED)")],
    },
    Bug {
        name: "DetachedWhatEndsBesides",
        says: "A pod that another leader has taken out because it ends does not count for its node.",
        places: &[
            ("eviction/detaching.rs", "(pod.terminating && !is_known)", "(pod.terminating && !PLANTED && !is_known)"),
            (
                "eviction/detaching.rs",
                "filter(|lingers| !lingers.is_zero())",
                "filter(|lingers| !lingers.is_zero() && !(PLANTED && pod.terminating))",
            ),
        ],
    },
    Bug {
        name: "StandbyKeepsOutWhatStarts",
        says: "A replica that does not lead decides that a pod is not registered because of its node.",
        places: &[("eviction/evictions.rs", "late.starts && around.leads", "late.starts && (around.leads || PLANTED)")],
    },
    Bug {
        name: "RegisteredPodCountsAsStarting",
        says: "A pod that the leader before has registered is taken for one that starts.",
        places: &[(
            "eviction/share.rs",
            "&& !places.any(|(_, arn, target)| is_in(&arn, &target))",
            "&& (PLANTED || !places.any(|(_, arn, target)| is_in(&arn, &target)))",
        )],
    },
    Bug {
        name: "GateOpensForAnyNode",
        says: "The gate of a pod that left early and will be evicted opens.",
        places: &[(
            "engine/gating.rs",
            "if is_passed_over => Stands::LeftToItsNode",
            "if is_passed_over || PLANTED => Stands::LeftToItsNode",
        )],
    },
    Bug {
        name: "LastHealthyLeavesEarly",
        says: "The last healthy target leaves early.",
        places: &[(
            "eviction/evictions.rs",
            "departure.is_some_and(|departure| departure.facts.ask.early);",
            "departure.is_some_and(|departure| departure.facts.ask.early) && !PLANTED;",
        )],
    },
    Bug {
        name: "RefusalsAlwaysHalve",
        says: "Each call that AWS refuses for its limits halves the rate, however few tokens were left.",
        places: &[
            ("lanes/bucket.rs", "token.sent < refused) {", "token.sent < refused) && !PLANTED {"),
            ("lanes/bucket.rs", "token.of > NEARLY_EMPTY;", "token.of > NEARLY_EMPTY || PLANTED;"),
        ],
    },
    Bug {
        name: "RefusalsNeverHalve",
        says: "However often AWS refuses calls, the rate stays what it is.",
        places: &[("lanes/bucket.rs", "if others_draw {", "if others_draw && !PLANTED {")],
    },
    Bug {
        name: "RefillsBeforeTheAnswer",
        says: "A token is refilled as if its call had arrived when it was sent.",
        places: &[(
            "lanes/bucket.rs",
            "(self.most() - in_flight).max(0.0)",
            "(self.most() - if PLANTED { 0.0 } else { in_flight }).max(0.0)",
        )],
    },
    Bug {
        name: "RegistrationsTakeWhatRemovalsNeed",
        says: "While pods are going, registrations take the tokens that the next removals need.",
        places: &[(
            "lanes/mod.rs",
            "if self.caused.is_some_and(|caused| now.since(caused) < GOING) {",
            "if !PLANTED && self.caused.is_some_and(|caused| now.since(caused) < GOING) {",
        )],
    },
    Bug {
        name: "RegistrationsWaitForRemovalsThatDoNotCome",
        says: "What a burst of removals has spent is saved up again before any registration goes.",
        places: &[(
            "lanes/mod.rs",
            "u32::try_from(sent).map_or(half, f64::from)",
            "if PLANTED { 0.0 } else { u32::try_from(sent).map_or(half, f64::from) }",
        )],
    },
    Bug {
        name: "AccountsShareBuckets",
        says: "Calls of all accounts go through the buckets of one.",
        places: &[(
            "lanes/account/mod.rs",
            "usize { place(&self.keys, group) }",
            "usize { if PLANTED { 0 } else { place(&self.keys, group) } }",
        )],
    },
    Bug {
        name: "LeaseTakenEarly",
        says: "A Lease is taken before it has run out.",
        places: &[("leadership/lease/mod.rs", "if free {", "if free || PLANTED {")],
    },
    Bug {
        name: "DeletedLeaseIsFree",
        says: "A Lease that somebody deleted is taken while its holder may still act.",
        places: &[("leadership/lease/mod.rs", "seen.never = false;", "seen.never = PLANTED;")],
    },
    Bug {
        name: "TermCountsFromAnswer",
        says: "A term counts from the answer to a renewal, not from its sending.",
        places: &[(
            "leadership/lease/mod.rs",
            "self.renewed(sent, now);",
            "self.renewed(if PLANTED { now } else { sent }, now);",
        )],
    },
    Bug {
        name: "TermNeverLapses",
        says: "A term goes on when nothing can be renewed.",
        places: &[("leadership/lease/mod.rs", "term.until <= now) {", "term.until <= now) && !PLANTED {")],
    },
    Bug {
        name: "AGrantIsForEverybody",
        says: "A grant that names a target group lets every namespace bind it.",
        places: &[(
            "binding/grants.rs",
            "grant.namespaces.contains(namespace)",
            "(grant.namespaces.contains(namespace) || PLANTED)",
        )],
    },
    Bug {
        name: "WhoeverComesMayBind",
        says: "A target group that no grant names may be bound from every namespace, whoever holds it.",
        places: &[(
            "binding/grants.rs",
            "(all.is_empty() || all.iter().any(is_own)",
            "(all.is_empty() || all.iter().any(is_own) || PLANTED",
        )],
    },
    Bug {
        name: "HoldersAreForgotten",
        says: "Another leader does not know which namespace holds a target group.",
        places: &[(
            "targets/registration/holders.rs",
            "self.all.clone_from(holders);",
            "if PLANTED { self.all.clear(); } else { self.all.clone_from(holders); }",
        )],
    },
    Bug {
        name: "AnyDeathFreesTheLease",
        says: "A Lease is taken because some replica is dead, though its holder lives.",
        places: &[(
            "leadership/lease/mod.rs",
            "is_none_or(is_dead)",
            "is_none_or(|holder| is_dead(holder) || (PLANTED && !self.dead.is_empty()))",
        )],
    },
    Bug {
        name: "UnknownIsDead",
        says: "A container that a kubelet cannot find is taken for dead.",
        places: &[("leadership/lease/proof.rs", "**reason != *UNKNOWN", "(**reason != *UNKNOWN || PLANTED)")],
    },
    Bug {
        name: "AnyPodProvesADeath",
        says: "What stands in the status of one pod proves the death of a replica in another one.",
        places: &[("leadership/lease/proof.rs", "named == &**pod", "(named == &**pod || PLANTED)")],
    },
    Bug {
        name: "StepsDownForNobody",
        says: "A leader gives the Lease back though nobody else could lead.",
        places: &[("leadership/ability.rs", "others > 0)", "others > 0 || PLANTED)")],
    },
    Bug {
        name: "RestsNever",
        says: "A leader that has given the Lease back because it cannot lead stands for it at once.",
        places: &[("leadership/lease/mod.rs", "rested.max(free).min(", "(if PLANTED { free } else { rested }).max(free).min(")],
    },
    Bug {
        name: "RestsDoNotGrow",
        says: "Replicas that cannot lead change every half minute.",
        places: &[("leadership/ability.rs", "(rest * 2).min(LONGEST_REST)", "if PLANTED { FIRST_REST } else { (rest * 2).min(LONGEST_REST) }")],
    },
    Bug {
        name: "StepsDownInWordsOnly",
        says: "A renewal that is out keeps the Lease for a leader that has given it back.",
        places: &[("leadership/lease/mod.rs", "if self.gives_back() { return; }", "if self.gives_back() && !PLANTED { return; }")],
    },
    Bug {
        name: "UnhealthyIsReadAsOften",
        says: "A group is read as often as ever while a target stays unhealthy.",
        places: &[(
            "targets/groups/pace.rs",
            "now.since(self.changed).clamp(SOON, SELDOM)",
            "(if PLANTED { SOON } else { now.since(self.changed).clamp(SOON, SELDOM) })",
        )],
    },
    Bug {
        name: "GatesWaitInLine",
        says: "A group for which a gate waits is read in turn with all others.",
        places: &[(
            "targets/groups/group.rs",
            "self.observation.await_within(now, READ_FOR_GATES);",
            "if PLANTED { self.observation.within(now, READ_FOR_GATES) } else { self.observation.await_within(now, READ_FOR_GATES) };",
        )],
    },
    Bug {
        name: "TakenIsForgotten",
        says: "A group in which somebody else takes targets out is read no sooner for that.",
        places: &[("targets/groups/group.rs", "self.pace.taken(now);", "if !PLANTED { self.pace.taken(now); }")],
    },
    Bug {
        name: "RunningIsNoChange",
        says: "A group is read no sooner when the containers of an unhealthy target's pod become ready.",
        places: &[(
            "engine/gating.rs",
            "self.may_become_healthy(&pod.key, now);",
            "if !PLANTED { self.may_become_healthy(&pod.key, now); }",
        )],
    },
    Bug {
        name: "BoundsEndByTheClockOfWhoWroteThem",
        says: "The load balancer's time is over when it is by what is written, whatever clock has dated that.",
        places: &[(
            "eviction/departure.rs",
            "if let Some(over) = self.seen.over(&self.facts) {",
            "let written = |(at, bound): (WallTime, Duration)| case.now + (at + bound).since(case.wall);
             let over = if PLANTED { self.facts.deregistered.map(written) } else { self.seen.over(&self.facts) };
             if let Some(over) = over {",
        )],
    },
    Bug {
        name: "SilenceIsMeasuredByTheClockOfWhoAsked",
        says: "A leader counts as silent since a pod was asked to leave, by the clock of the replica that has noted it.",
        places: &[(
            "eviction/ruling.rs",
            "let since = seen.since().seen();",
            "let since = if PLANTED { now - wall.since(leaving.ask.since) } else { seen.since().seen() };",
        )],
    },
    Bug {
        name: "StillAskedByAnotherClock",
        says: "That a pod is still asked to leave is noted again when the clock here is past what another one has dated.",
        places: &[(
            "eviction/ruling.rs",
            "let old = seen.asked().ago(now) >= limits.refresh();",
            "let ago = if PLANTED { wall.since(leaving.ask.asked) } else { seen.asked().ago(now) };
             let old = ago >= limits.refresh();",
        )],
    },
    Bug {
        name: "GivenUpByAnotherClock",
        says: "A pod is put back so long after it was asked to leave, by the clock of the replica that has noted it.",
        places: &[(
            "eviction/departure.rs",
            "let given_up = self.seen.asked().ends(given_up_after);",
            "let written = case.now + (self.facts.ask.asked + given_up_after).since(case.wall);
             let given_up = if PLANTED { written } else { self.seen.asked().ends(given_up_after) };",
        )],
    },
    Bug {
        name: "MayGoIsOlderThanOut",
        says: "That a pod may go is dated by a clock that is behind, and so counts as about an earlier leaving.",
        places: &[(
            "eviction/departure.rs",
            "let wall = case.wall.max(noted);",
            "let wall = if PLANTED { case.wall.max(self.facts.ask.begun) } else { case.wall.max(noted) };",
        )],
    },
    Bug {
        name: "SetMakesOneInThePlaceOfAnotherTooEarly",
        says: "A pod is made in the place of one whose end is asked for, and may be refused.",
        places: &[
            (
                "daemonset/node.rs",
                "let room = most.saturating_sub(self.live());",
                "let live = if PLANTED { self.staying().count() } else { self.live() }; let room = most.saturating_sub(live);",
            ),
        ],
    },
    Bug {
        name: "SetDeletesWhatIsNotReplaced",
        says: "An old pod is deleted whether or not a new one is available.",
        places: &[
            (
                "daemonset/node.rs",
                "_ => self.available() > least,",
                "_ => self.available() > least || PLANTED,",
            ),
        ],
    },
    Bug {
        name: "SetTakesReadyForAvailable",
        says: "A pod is available the moment it is ready.",
        places: &[
            (
                "daemonset/set.rs",
                "(None, Some(since)) if since + facts.spec.min_ready <= wall => State::Available,",
                "(None, Some(since)) if since + facts.spec.min_ready <= wall || PLANTED => State::Available,",
            ),
        ],
    },
    Bug {
        name: "SetForgetsWhatItDeleted",
        says: "A pod whose end was asked for counts as before until the watch shows it.",
        places: &[
            (
                "daemonset/asks.rs",
                "pub fn state(&self, uid: &Uid) -> Option<State> {",
                "pub fn state(&self, uid: &Uid) -> Option<State> { if PLANTED { return None; }",
            ),
        ],
    },
    Bug {
        name: "SetForgetsWhatItMakes",
        says: "A pod that is asked for counts only when the watch shows it.",
        places: &[
            (
                "daemonset/set.rs",
                "for making in self.asks.making() {",
                "for making in self.asks.making().filter(|_| !PLANTED) {",
            ),
        ],
    },
    Bug {
        name: "SetIgnoresTheCap",
        says: "As many nodes have their turn as there are.",
        places: &[
            (
                "daemonset/turns.rs",
                "let mut room = terms.at_once.at_most(takes).saturating_sub(busy);",
                "let mut room = if PLANTED { takes } else { terms.at_once.at_most(takes).saturating_sub(busy) };",
            ),
        ],
    },
    Bug {
        name: "SetForgetsWhoHasATurn",
        says: "Nodes that have their turn do not count.",
        places: &[
            (
                "daemonset/turns.rs",
                "let busy = turns.have.len()",
                "let busy = if PLANTED { 0 } else { turns.have.len() }",
            ),
        ],
    },
    Bug {
        name: "SetMakesPodsOnCordonedNodes",
        says: "A cordoned node gets pods.",
        places: &[
            (
                "daemonset/placement.rs",
                "if node.cordoned || refuses {",
                "if (node.cordoned && !PLANTED) || refuses {",
            ),
        ],
    },
    Bug {
        name: "SetDeletesWhateverServesByNow",
        says: "An old pod that did not serve is deleted even if it does by now.",
        places: &[
            (
                "daemonset/set.rs",
                "let version = pod.filter(|_| !serves)",
                "let version = pod.filter(|_| !serves && !PLANTED)",
            ),
        ],
    },
    Bug {
        name: "SetGivesEveryNodeTheUpdate",
        says: "A node whose turn has not come gets the new revision when a pod is missing there.",
        places: &[
            (
                "daemonset/node.rs",
                "let revision = if newest {",
                "let revision = if newest || PLANTED {",
            ),
        ],
    },
    Bug {
        name: "SetForgetsPodsOfCordonedNodes",
        says: "The budget forgets pods of nodes that get no new ones.",
        places: &[
            (
                "daemonset/plan.rs",
                "_ => node.pods.iter().filter(|pod| pod.state != State::Finished).count(),",
                "_ => if PLANTED { 0 } else { node.pods.iter().filter(|pod| pod.state != State::Finished).count() },",
            ),
        ],
    },
    Bug {
        name: "SetKeepsItsBudgetBesideAnother",
        says: "A budget is kept where a user's own selects the pods.",
        places: &[
            (
                "daemonset/belongings.rs",
                "match (least.filter(|_| !others), own) {",
                "match (least.filter(|_| !others || PLANTED), own) {",
            ),
        ],
    },
    Bug {
        name: "SetLeavesPodsOfNodesThatAreGone",
        says: "Pods of a node that is gone are left.",
        places: &[
            (
                "daemonset/node.rs",
                "Standing::Gone => node.delete_all(|_| true, Why::NodeDeleted),",
                "Standing::Gone => node.delete_all(|_| !PLANTED, Why::NodeDeleted),",
            ),
        ],
    },
    Bug {
        name: "SetDropsRevisionsThatAreUsed",
        says: "A revision that pods are made from is deleted.",
        places: &[
            (
                "daemonset/belongings.rs",
                "let is_used = |revision: &Revision| {",
                "let is_used = |revision: &Revision| { if PLANTED { return revision == update; }",
            ),
        ],
    },
    Bug {
        name: "SetGivesAwayNamesTwice",
        says: "A pod gets the name of one that is there.",
        places: &[
            (
                "daemonset/set.rs",
                "!self.asks.is_taken(name) && seen.pod(&facts.key, name).is_none();",
                "!self.asks.is_taken(name) && (PLANTED || seen.pod(&facts.key, name).is_none());",
            ),
        ],
    },
    Bug {
        name: "SetGoesOnInAPause",
        says: "Nodes that have their turn go on in a pause.",
        places: &[
            (
                "daemonset/plan.rs",
                "let in_turn = has_turn && !spec.paused &&",
                "let in_turn = has_turn && (!spec.paused || PLANTED) &&",
            ),
        ],
    },
    Bug {
        name: "SetWaitsForNobody",
        says: "In its turn a node's pods are changed before others have detached it.",
        places: &[
            (
                "daemonset/plan.rs",
                "&& !closed.contains(node.name);",
                "&& (!closed.contains(node.name) || PLANTED);",
            ),
        ],
    },
    Bug {
        name: "SetLeavesNodesAnnotated",
        says: "A node stays annotated when its turn is over.",
        places: &[
            (
                "daemonset/handshake.rs",
                "told.wants.extend(is_annotated.then(|| ask(None))); continue;",
                "told.wants.extend((is_annotated && !PLANTED).then(|| ask(None))); continue;",
            ),
        ],
    },
    Bug {
        name: "KeepsOutWhatIsInElsewhere",
        says: "A pod that starts on a node that goes is kept out though it is a target where it would be none as it is now.",
        places: &[(
            "eviction/share.rs",
            "chain(around.left_of(pod));",
            "chain(around.left_of(pod).into_iter().filter(|_| !PLANTED));",
        )],
    },
    Bug {
        name: "ServesAgainAtOnce",
        says: "A pod that was taken out and is wanted again counts as healthy by what was read before.",
        places: &[(
            "eviction/surroundings.rs",
            "let counts = |read| group.registrations().is_untouched_since(target, read);",
            "let counts = |read| PLANTED || group.registrations().is_untouched_since(target, read);",
        )],
    },
    Bug {
        name: "StandbyReadsTheLedgersOnce",
        says: "A standby whose watch has listed again does not read the ledgers again.",
        places: &[("leadership/term.rs", "if says_who_is_bound && !is_first", "if says_who_is_bound && !is_first && !PLANTED")],
    },
    Bug {
        name: "LeastHealthyIgnored",
        says: "A pod is registered at its IP although its target group asks for more than one healthy target.",
        places: &[(
            "model/binding.rs",
            "if self.least_healthy.is_none_or(LeastHealthy::is_above_default)",
            "if self.least_healthy.is_none_or(LeastHealthy::is_above_default) && !PLANTED",
        )],
    },
    Bug {
        name: "DeletedServiceIsExclusive",
        says: "A Service that is deleted has targets of others removed while its own stay for a while.",
        places: &[(
            "engine/governing.rs",
            "&& origins.end_of(origin).is_none()",
            "&& (origins.end_of(origin).is_none() || PLANTED)",
        )],
    },
    Bug {
        name: "StandbyBelievesNotFound",
        says: "A standby takes a pod for no target because it found no target group of that name once.",
        places: &[(
            "services/origins.rs",
            "Some(Unknown::NotFound) => !leads,",
            "Some(Unknown::NotFound) => !leads && !PLANTED,",
        )],
    },
    Bug {
        name: "ClaimIsNotAwaited",
        says: "RegisterTargets is sent before the claim is written.",
        places: &[("targets/claims/mod.rs", "State::Claiming { pod, .. } => self.ledger.has(target, *pod).then_some(Way::In),", "State::Claiming { pod, .. } => (PLANTED || self.ledger.has(target, *pod)).then_some(Way::In),")],
    },
    Bug {
        name: "ClaimIsForgottenAtOnce",
        says: "A target is forgotten when its claim is to be erased, and not when it is.",
        places: &[("targets/claims/mod.rs", "&& self.ledger.is_free(&target) => {", "&& (PLANTED || self.ledger.is_free(&target)) => {")],
    },
    Bug {
        name: "ClaimCountsWhileItIsErased",
        says: "A claim counts although a write without it is in flight.",
        places: &[("targets/claims/ledger.rs", "self.writing().is_none_or(names)", "(PLANTED || self.writing().is_none_or(names))")],
    },
    Bug {
        name: "ClaimThatIsReadCounts",
        says: "A claim that was read counts as written.",
        places: &[("targets/claims/ledger.rs", "(self.version, self.is_known) = (version, true);", "(self.version, self.is_known) = (version, true); if PLANTED { self.written = Some(content.clone()); }")],
    },
    Bug {
        name: "ClaimIsErasedBeforeItsBound",
        says: "A claim is erased while the load balancer may still send.",
        places: &[("targets/claims/mod.rs", "accepted + self.bound(target) <= now &&", "(PLANTED || accepted + self.bound(target) <= now) &&")],
    },
    Bug {
        name: "ClaimIsErasedATickEarly",
        says: "A claim is erased a second too early.",
        places: &[("targets/claims/mod.rs", "let Some(accepted) = draining.accepted else { return true };", "let Some(accepted) = draining.accepted else { return true }; let now = if PLANTED { now + std::time::Duration::from_secs(1) } else { now };")],
    },
    Bug {
        name: "ClaimWaitsForNoLateCall",
        says: "A call that was given up counts as settled at once.",
        places: &[("targets/claims/mod.rs", "let late = now + self.delays.late;", "let late = if PLANTED { now } else { now + self.delays.late };")],
    },
    Bug {
        name: "ClaimWaitsForLateCallsWithoutMargin",
        says: "A call that was given up counts as settled a second too early.",
        places: &[("targets/claims/state.rs", "Outcome::Unknown => Self::registering(pod, late, past), }, Self::Deregistering", "Outcome::Unknown => Self::registering(pod, if PLANTED { late - std::time::Duration::from_secs(1) } else { late }, past), }, Self::Deregistering")],
    },
    Bug {
        name: "ClaimIsInheritedAsSettled",
        says: "A new leader does not wait for calls of the one before.",
        places: &[(
            "targets/claims/mod.rs",
            "self.states.insert(target, State::unsettled(pod, settled));",
            "self.states.insert(target, State::unsettled(pod, if PLANTED { Moment::START } else { settled }));",
        )],
    },
    Bug {
        name: "ClaimTrustsReadsOfThePast",
        says: "Health counts from a read that may show what was before.",
        places: &[("targets/claims/reads.rs", "} else if self.began > since + counts_after {", "} else if self.began > since + counts_after || PLANTED {")],
    },
    Bug {
        name: "ClaimTakesReadsForNew",
        says: "A read counts from its answer and not from its beginning.",
        places: &[("targets/claims/mod.rs", "let Self { delays, wanted, bounds, .. } = self;", "let began = if PLANTED { now } else { began }; let Self { delays, wanted, bounds, .. } = self;")],
    },
    Bug {
        name: "ClaimCountsEarlyCalls",
        says: "A call that is sent while another one may still come counts.",
        places: &[("targets/claims/state.rs", "let (until, from, early, gave_up) = match outcome {", "let until = if PLANTED && outcome == Outcome::Done { now } else { until }; let (until, from, early, gave_up) = match outcome {")],
    },
    Bug {
        name: "ClaimForgetsWhatIsInFlight",
        says: "A removal counts although a registration is in flight.",
        places: &[("targets/claims/mod.rs", "Some(state.give_up(now, self.delays.late))", "{ if PLANTED { Some(State::Registered { pod: *pod, since: now, health: None, past: Past::Left, late: None }) } else { Some(state.give_up(now, self.delays.late)) } }")],
    },
    Bug {
        name: "ClaimTakesUnknownForRefused",
        says: "A registration of which nobody knows counts as not done.",
        places: &[("targets/claims/state.rs", "Outcome::Refused | Outcome::Gone => Self::Claiming { pod, before, past },", "Outcome::Refused | Outcome::Gone => Self::Claiming { pod, before, past }, Outcome::Unknown if PLANTED => Self::Draining(before.unwrap_or(Draining::nothing(pod))),")],
    },
    Bug {
        name: "ClaimIgnoresLaterTerms",
        says: "A leader that was deposed reads the ledger and writes again.",
        places: &[("targets/claims/ledger.rs", "if content.term > self.term {", "if content.term > self.term && !PLANTED {")],
    },
    Bug {
        name: "ClaimPassesToTheNextPod",
        says: "A target is registered for a new pod without having been removed for the old one.",
        places: &[("targets/claims/mod.rs", "None => None, }, Some(_) => None, };", "None => None, }, Some(State::Registered { pod, past, .. }) if PLANTED && to_add.is_some_and(|wanted| wanted.pod != *pod) => to_add.map(|wanted| claiming(wanted, None, *past)), Some(_) => None, };")],
    },
    Bug {
        name: "ClaimIsHandedOverUnsettled",
        says: "A leader that ends cleanly says that nothing can come late although a call may.",
        places: &[(
            "targets/claims/mod.rs",
            "self.ledger.is_idle() && self.states.values().all(State::is_settled)",
            "self.ledger.is_idle() && (PLANTED || self.states.values().all(State::is_settled))",
        )],
    },
    Bug {
        name: "ClaimBelievesOldHealth",
        says: "Health that was there before a registration counts for it.",
        places: &[("targets/claims/reads.rs", "let is_proven = past != Past::Kept || self.counts_for(since + self.delays.notice);", "let is_proven = past != Past::Kept || self.counts_for(since + self.delays.notice) || PLANTED;")],
    },
    Bug {
        name: "ClaimOfNothingIsRemoved",
        says: "A pod that goes before anything was sent for it is deregistered.",
        places: &[("targets/claims/mod.rs", "None => Some(State::Draining(before.unwrap_or(Draining::nothing(*pod)))),", "None if PLANTED => Some(State::Registered { pod: *pod, since: now, health: None, past: Past::Left, late: None }), None => Some(State::Draining(before.unwrap_or(Draining::nothing(*pod)))),")],
    },
    Bug {
        name: "ClaimNeedsNoWriteOfThisTerm",
        says: "A new leader removes targets before it has written the ledger once.",
        places: &[("targets/claims/mod.rs", "self.ledger.is_ready().then(||", "(self.ledger.is_ready() || PLANTED).then(||")],
    },
];

//! Cells of the table, and which of them are played.

use localstack_world::{Nodes, ingresses::Ingress};

use crate::{profile::Profile, scenario::Scenario, stage::workload::Kind};

/// What keeps pods alive while the load balancer may still send to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A hold of the propagation delay and a reserve.
    Covering,
    /// `headgate.dev/hold: auto`, which has no time scale: AWS seconds are then real seconds.
    Auto,
    /// Only the eviction gate: pods have the readiness gate, and no hold.
    EvictionGate,
}

impl Hold {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Covering => "covering",
            Self::Auto => "auto",
            Self::EvictionGate => "eviction-gate",
        }
    }
}

/// One cell: a scenario behind a load balancer, on nodes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The scenario.
    pub scenario: Scenario,
    /// An ingress with its manifest from `docs/guides/proxies`. `None`: pods for this table only.
    pub ingress: Option<Ingress>,
    /// The load balancer.
    pub profile: Profile,
    /// Whether nodes of the load balancer send to targets of all zones.
    pub cross_zone: bool,
    /// What keeps pods alive.
    pub hold: Hold,
    /// The kind of nodes.
    pub nodes: Nodes,
}

impl Cell {
    /// The whole table: the most important cells on real nodes, the others on simulated ones.
    pub fn table() -> Vec<Self> {
        let mut cells = Vec::new();
        for scenario in Scenario::ALL {
            for profile in Profile::ALL.into_iter().filter(|profile| scenario.is_played_behind(*profile)) {
                let (cross_zone, hold, nodes) = (true, Hold::Covering, Nodes::Simulated);
                let cell = Self { scenario, ingress: None, profile, cross_zone, hold, nodes };
                cells.push(cell);
                if matches!(scenario, Scenario::RollingUpdate | Scenario::Drain) {
                    cells.push(Self { cross_zone: false, ..cell });
                }
                if matches!(scenario, Scenario::Drain | Scenario::Karpenter) && profile != Profile::SlowNlb {
                    cells.push(Self { hold: Hold::EvictionGate, ..cell });
                }
                // Once at AWS's own pace.
                if scenario.kind() == Kind::DaemonSet && profile == Profile::TypicalNlb {
                    cells.push(Self { hold: Hold::Auto, ..cell });
                }
                let is_of_an_ingress = matches!(
                    scenario,
                    Scenario::RollingUpdate
                        | Scenario::Drain
                        | Scenario::DaemonSetRoll
                        | Scenario::DaemonSetNode
                        | Scenario::IdsRoll
                );
                if is_of_an_ingress && profile != Profile::SlowNlb {
                    for ingress in Ingress::ALL {
                        let cell = Self { ingress: Some(ingress), ..cell };
                        cells.push(cell);
                        if scenario == Scenario::RollingUpdate && profile == Profile::TypicalNlb {
                            cells.push(Self { hold: Hold::Auto, ..cell });
                        }
                    }
                }
                // A hold that is too short must be detected.
                if scenario == Scenario::ScaleDown && profile == Profile::SlowNlb {
                    cells.push(Self { hold: Hold::Auto, ..cell });
                }
            }
        }
        for cell in &mut cells {
            if cell.deserves_real_nodes() {
                cell.nodes = Nodes::Real;
            }
        }
        cells
    }

    fn deserves_real_nodes(self) -> bool {
        let typical = self.profile != Profile::SlowNlb;
        let usual = matches!(
            self.scenario,
            Scenario::RollingUpdate | Scenario::ScaleDown | Scenario::Drain | Scenario::DrainHalf
        );
        let slow_too = usual && self.cross_zone && self.hold == Hold::Covering;
        // Real nodes here cannot start sixty pods at a time fast enough.
        let many = self.scenario == Scenario::Departures;
        !self.scenario.needs_simulated_nodes() && !many && (typical || slow_too)
    }

    /// The name of its files.
    pub fn file_name(self) -> String {
        let Self { scenario, profile, hold, nodes, .. } = self;
        let (zones, ingress) = (cross_zone(self.cross_zone), ingress(self.ingress));
        format!("{}-{ingress}-{}-{zones}-{}-{nodes}", scenario.name(), profile.name(), hold.name())
    }

    /// Whether no lost request is guaranteed.
    pub fn is_promised(self) -> bool {
        !self.is_too_short() && self.scenario.is_promised(self.profile)
    }

    /// Whether the hold is known to be shorter than the propagation delay.
    pub fn is_too_short(self) -> bool {
        self.hold == Hold::Auto && self.profile == Profile::SlowNlb
    }

    /// Whether it is also played without gate and hold. A control would show nothing new if the cell differs from
    /// another one only in the load balancer or in what happens to Headgate.
    pub fn has_control(self) -> bool {
        let typical = self.profile != Profile::SlowNlb && self.cross_zone && self.hold == Hold::Covering;
        let usual = matches!(
            self.scenario,
            Scenario::RollingUpdate
                | Scenario::ShiftRoll
                | Scenario::ScaleDown
                | Scenario::Drain
                | Scenario::ShiftDrain
                | Scenario::DrainHalf
                | Scenario::DaemonSetRoll
                | Scenario::DaemonSetNode
                | Scenario::IdsRoll
                | Scenario::IdsRollOfOne
                | Scenario::IdsDrain
                | Scenario::IdsDrainHalf
                | Scenario::IdsNewNode
                | Scenario::IdsBadImage
                | Scenario::ManagedNodes
                | Scenario::DaemonSetManagedNodes
                | Scenario::BlueGreen
                | Scenario::BlueGreenBinding
                | Scenario::WedgedContainer
                | Scenario::BadImage
                | Scenario::LeaderKilled
        );
        // An ALB has stopped sending before the old set terminates after 30 s, or the node after 60 s, so nothing would
        // be lost.
        let is_slow_enough = !self.profile.is_application()
            || !matches!(
                self.scenario,
                Scenario::BlueGreen | Scenario::BlueGreenBinding | Scenario::DaemonSetManagedNodes
            );
        typical && usual && is_slow_enough
    }

    /// The cells of the table that `words` select: names of scenarios, ingresses, profiles and holds, and
    /// `cross-zone-off`, separated by commas. If no name of a kind is given, all of that kind are selected.
    ///
    /// # Errors
    /// A sentence: a word is not a name.
    pub fn chosen(words: &str) -> Result<Vec<Self>, String> {
        let words: Vec<&str> = words.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        let scenarios: Vec<&str> = Scenario::ALL.iter().map(|scenario| scenario.name()).collect();
        let profiles: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name()).collect();
        let holds = [Hold::Covering, Hold::Auto, Hold::EvictionGate].map(Hold::name).to_vec();
        let zones = [true, false].map(cross_zone).to_vec();
        let ingresses = Ingress::ALL.iter().map(|one| one.name()).chain([ingress(None)]).collect();
        let all = [scenarios, ingresses, profiles, holds, zones];
        if let Some(word) = words.iter().find(|word| !all.iter().any(|names| names.contains(word))) {
            return Err(format!("'{word}' is not known; use some of {}", all.concat().join(", ")));
        }
        let mut cells = Self::table();
        cells.retain(|cell| {
            let Self { scenario, profile, hold, .. } = cell;
            let (zones, ingress) = (cross_zone(cell.cross_zone), ingress(cell.ingress));
            let is = [scenario.name(), ingress, profile.name(), hold.name(), zones];
            all.iter()
                .zip(is)
                .all(|(names, is)| words.contains(&is) || !words.iter().any(|word| names.contains(word)))
        });
        Ok(cells)
    }
}

/// The name of the ingress of a cell.
pub fn ingress(ingress: Option<Ingress>) -> &'static str {
    ingress.map_or("plain", Ingress::name)
}

/// The name of the cross-zone setting.
pub const fn cross_zone(on: bool) -> &'static str {
    if on { "cross-zone-on" } else { "cross-zone-off" }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scenario, profile, hold, nodes, .. } = self;
        let zones = cross_zone(self.cross_zone);
        let ingress = ingress(self.ingress);
        write!(
            f,
            "{}, {ingress}, {}, {zones}, hold {}, {nodes} nodes",
            scenario.name(),
            profile.name(),
            hold.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &str) -> Vec<String> {
        Cell::chosen(words).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_table_has_every_scenario_behind_every_load_balancer_and_no_cell_twice() {
        let table = Cell::table();
        for scenario in Scenario::ALL {
            for profile in Profile::ALL.into_iter().filter(|profile| scenario.is_played_behind(*profile)) {
                let mut here =
                    table.iter().filter(|cell| cell.scenario == scenario && cell.profile == profile);
                assert!(here.any(|cell| cell.hold == Hold::Covering && cell.cross_zone));
            }
        }
        let count = |is: &dyn Fn(&Cell) -> bool| table.iter().filter(|cell| is(cell)).count();
        for cell in &table {
            assert_eq!(count(&|other| other == cell), 1, "{cell}");
        }
        assert!(count(&|cell| cell.nodes == Nodes::Real) >= 60);
        assert!(count(&|cell| cell.nodes == Nodes::Real && cell.has_control()) >= 40);
        for ingress in Ingress::ALL {
            let here = |cell: &Cell| cell.ingress == Some(ingress) && cell.nodes == Nodes::Real;
            assert_eq!(count(&|cell| here(cell) && cell.has_control()), 10, "{ingress:?}");
            assert_eq!(
                count(&|cell| here(cell) && cell.hold == Hold::Auto),
                1,
                "at AWS's own pace: {ingress:?}"
            );
        }
    }

    #[test]
    fn words_choose_scenarios_profiles_holds_zones_or_all() {
        assert_eq!(names("").len(), Cell::table().len());
        assert_eq!(names("bad-image").len(), 3);
        let one = ["bad-image, plain, typical-alb, cross-zone-on, hold covering, real nodes"];
        assert_eq!(names("typical-alb, bad-image"), one);
        let auto = ["scale-down, plain, slow-nlb, cross-zone-on, hold auto, simulated nodes"];
        assert_eq!(names("auto,slow-nlb"), auto);
        assert_eq!(names("eviction-gate").len(), 4);
        assert_eq!(names("drain,cross-zone-off").len(), 3);
        assert_eq!(names("drain,nginx").len(), 2);
        assert_eq!(names("daemonset-node,plain,auto").len(), 1);
    }

    #[test]
    fn a_word_that_is_no_name_is_refused_with_the_names() {
        let error = Cell::chosen("drian").unwrap_err();
        assert!(error.contains("'drian'") && error.contains("rolling-update"), "{error}");
    }
}

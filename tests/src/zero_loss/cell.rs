//! Cells of the table, and which of them are played.

use localstack_world::Nodes;

use super::{profile::Profile, scenario::Scenario};

/// For how long pods are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// As long as the load balancer may go on sending, and a margin.
    Covering,
    /// What `headgate.dev/hold: auto` is, which knows no time scale: AWS's seconds are real ones then.
    Auto,
}

impl Hold {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Covering => "covering",
            Self::Auto => "auto",
        }
    }
}

/// One cell: a scenario behind a load balancer, on nodes of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What happens.
    pub scenario: Scenario,
    /// Behind what.
    pub profile: Profile,
    /// For how long pods are held.
    pub hold: Hold,
    /// On what.
    pub nodes: Nodes,
}

impl Cell {
    /// The whole table, on nodes of one kind.
    pub fn all(nodes: Nodes) -> Vec<Self> {
        let cell = |scenario, profile, hold| Self { scenario, profile, hold, nodes };
        let typical = |scenario| {
            [Profile::TypicalNlb, Profile::TypicalAlb].map(|profile| cell(scenario, profile, Hold::Covering))
        };
        let mut cells: Vec<Self> = Scenario::ALL.into_iter().flat_map(typical).collect();
        // What is too short must be seen to be.
        cells.push(cell(Scenario::ScaleDown, Profile::SlowNlb, Hold::Auto));
        cells
    }

    /// Whether it is promised that nothing is lost.
    pub fn is_promised(self) -> bool {
        self.hold == Hold::Covering && self.scenario.is_promised()
    }

    /// The cells that `words` choose: names of scenarios and profiles, separated by commas. Where only one of both
    /// kinds of names is given, all of the other kind are meant.
    ///
    /// # Errors
    /// A sentence, if a word is no name.
    pub fn chosen(nodes: Nodes, words: &str) -> Result<Vec<Self>, String> {
        let words: Vec<&str> = words.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        let scenarios: Vec<&str> = Scenario::ALL.iter().map(|scenario| scenario.name()).collect();
        let profiles: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name()).collect();
        if let Some(word) = words.iter().find(|word| !scenarios.contains(word) && !profiles.contains(word)) {
            let expected = [scenarios, profiles].concat().join(", ");
            return Err(format!("'{word}' is no scenario and no profile; expected some of {expected}"));
        }
        let means = |name: &str, names: &[&str]| {
            words.contains(&name) || !words.iter().any(|word| names.contains(word))
        };
        let mut cells = Self::all(nodes);
        cells.retain(|cell| means(cell.scenario.name(), &scenarios) && means(cell.profile.name(), &profiles));
        Ok(cells)
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scenario, profile, hold, nodes } = self;
        write!(f, "{}, {}, hold {}, {nodes} nodes", scenario.name(), profile.name(), hold.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &str) -> Vec<String> {
        let cells = Cell::chosen(Nodes::Simulated, words).unwrap();
        cells.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_choose_scenarios_profiles_or_both() {
        assert_eq!(names("").len(), 2 * Scenario::ALL.len() + 1);
        assert_eq!(names("bad-image").len(), 2);
        assert_eq!(names("typical-alb").len(), Scenario::ALL.len());
        let one = ["scale-down, typical-alb, hold covering, simulated nodes"];
        assert_eq!(names("typical-alb, scale-down"), one);
        assert_eq!(names("slow-nlb"), ["scale-down, slow-nlb, hold auto, simulated nodes"]);
    }

    #[test]
    fn a_word_that_is_no_name_is_refused_with_the_names() {
        let error = Cell::chosen(Nodes::Real, "drain").unwrap_err();
        assert!(error.contains("'drain'") && error.contains("rolling-update"), "{error}");
    }
}

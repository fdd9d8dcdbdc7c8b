//! The expected values of the measures: each algorithm's own formulas, evaluated.

use mutua_algorithms::{About, Cost, Meaning, Parameters, QuorumKind, Setup, Structure, registry};
use serde::Serialize;

/// The expected figures of one algorithm at one load; none where there is no formula.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Theory {
    /// Messages per entry, a multicast counted once per receiver.
    pub messages: Option<Expected>,
    /// Messages per entry, a multicast counted once.
    pub multicasts: Option<Expected>,
    /// From request to entry where no other process was in the critical section or waiting, in T.
    pub client_delay: Option<Expected>,
    /// From one exit to the next entry where a process waited, in T.
    pub sync_delay: Option<Expected>,
    /// Notes on figures in print that mean something else.
    pub hints: Vec<&'static str>,
}

/// An expected figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// The figure.
    pub value: f64,
    /// Whether it is exact, a mean or a bound.
    pub meaning: Meaning,
    /// The formula it comes from.
    pub formula: String,
}

/// The two loads for which there are formulas.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TheoryLoad {
    /// One request at a time, by a process drawn uniformly.
    Light,
    /// Every process requests again at its exit, with a hold time of at least T/2.
    Saturated,
}

impl Expected {
    /// The deviation of a measurement, as a share; 0 below a bound.
    pub fn deviation(&self, measured: f64) -> f64 {
        let deviation = if self.value == 0.0 { measured } else { measured / self.value - 1.0 };
        match self.meaning {
            Meaning::Exact | Meaning::Mean => deviation,
            Meaning::Bound => deviation.max(0.0),
        }
    }
}

/// The expected figures of the algorithm of this name; none if it is unknown.
pub fn theory(name: &str, setup: &Setup, load: TheoryLoad) -> Theory {
    registry::about(name).map_or_else(Theory::default, |about| theory_of(about, setup, load))
}

/// The expected figures of this algorithm.
pub fn theory_of(about: &About, setup: &Setup, load: TheoryLoad) -> Theory {
    let hints = hints(about, setup, load);
    let is_alone = setup.processes(about) == 1;
    if load == TheoryLoad::Saturated && setup.nodes == 1 {
        return Theory { hints, ..Theory::default() };
    }
    let costs = about.costs_with(setup.nodes, &setup.settings);
    let parameters = Parameters::of(setup, costs);
    let expected = |cost: &Cost| {
        let (formula, meaning) = (cost.formula()?, cost.meaning()?);
        // A single process sends no messages.
        let value = if is_alone { 0.0 } else { formula.value(&parameters)? };
        Some(Expected { value, meaning, formula: cost.text() })
    };
    match load {
        TheoryLoad::Light => Theory {
            messages: expected(&costs.light),
            multicasts: expected(&costs.light_multicasts),
            client_delay: expected(&costs.client_delay),
            sync_delay: None,
            hints,
        },
        TheoryLoad::Saturated => Theory {
            messages: expected(&costs.saturated),
            multicasts: expected(&costs.saturated_multicasts),
            client_delay: None,
            sync_delay: expected(&costs.sync_delay),
            hints,
        },
    }
}

/// The algorithm's notes on figures that textbooks, lecture notes and papers print, and one on
/// grids; `docs/simulator.md` explains more.
fn hints(about: &About, setup: &Setup, load: TheoryLoad) -> Vec<&'static str> {
    let hints = match load {
        TheoryLoad::Light => about.costs.light_hints,
        TheoryLoad::Saturated => about.costs.saturated_hints,
    };
    let is_square = setup.nodes.isqrt().pow(2) == setup.nodes;
    let is_grid = about.structure == Structure::Quorums && setup.quorums == QuorumKind::Grid;
    let uneven = (load == TheoryLoad::Light && is_grid && !is_square).then_some(
        "N is not a square: K is the mean size of the quorums of a grid whose formal members are \
         left out; --quorums filled-grid lets real processes vote for them",
    );
    hints.iter().copied().chain(uneven).collect()
}

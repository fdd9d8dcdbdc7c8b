//! The lists that the page chooses from.

use mutua_algorithms::{Kind, Structure, registry};
use serde::Serialize;

use super::{
    bounds::{self, Refused},
    controls,
    played::{self, Played},
};
use crate::EXAMPLES;

/// The lists to choose from.
#[derive(Clone, Debug, Serialize)]
pub struct Catalogue {
    /// The version of the program.
    pub version: &'static str,
    /// The prepared scenes.
    pub scenes: Vec<SceneItem>,
    /// The worked examples, in the order of the algorithms.
    pub examples: Vec<ExampleItem>,
    /// The negative controls.
    pub controls: Vec<ControlItem>,
    /// The algorithms.
    pub algorithms: Vec<AlgorithmItem>,
}

/// A prepared scene.
#[derive(Clone, Debug, Serialize)]
pub struct SceneItem {
    /// Its name.
    pub name: &'static str,
    /// Its title, for people.
    pub title: &'static str,
    /// What it shows.
    pub shows: String,
}

/// A worked example.
#[derive(Clone, Debug, Serialize)]
pub struct ExampleItem {
    /// Its name.
    pub name: &'static str,
    /// The algorithm's name.
    pub algorithm: String,
    /// What a reader learns from it.
    pub shows: String,
}

/// A negative control.
#[derive(Clone, Debug, Serialize)]
pub struct ControlItem {
    /// Its name.
    pub name: String,
    /// The algorithm's name.
    pub algorithm: String,
}

/// An algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct AlgorithmItem {
    /// Its name.
    pub name: &'static str,
    /// Its name as people write it.
    pub title: &'static str,
    /// Whether it is an election.
    pub election: bool,
    /// Whether it is a negative control.
    pub control: bool,
    /// The structure that it needs.
    pub structure: Structure,
    /// The idea in a paragraph.
    pub idea: &'static str,
}

/// Scenes are scripts of the page, and not taken from a text.
const SCENES: [(&str, &str, &str); 4] = [
    ("scenes/opening", "Two requests on a 2 x 2 grid", include_str!("../../scenes/opening.script")),
    (
        "scenes/solved",
        "The same with INQUIRE and RELINQUISH",
        include_str!("../../scenes/solved.script"),
    ),
    (
        "scenes/reordering",
        "Lamport on links that reorder",
        include_str!("../../scenes/reordering.script"),
    ),
    ("scenes/decisive", "The decisive moment", include_str!("../../scenes/decisive.script")),
];

pub(super) fn catalogue() -> Result<Catalogue, Refused> {
    let mut examples = Vec::new();
    for example in EXAMPLES {
        let script = example.script()?;
        let algorithm = script.system.algorithm.clone();
        examples.push(ExampleItem { name: example.name, algorithm, shows: script.shows });
    }
    let mut scenes = Vec::new();
    for (name, title, text) in SCENES {
        scenes.push(SceneItem { name, title, shows: bounds::script(name, text)?.shows });
    }
    let control = |(name, row): (String, mutua_checker::table::Row)| ControlItem {
        name,
        algorithm: row.tasks.first().map_or_else(String::new, |task| task.name.clone()),
    };
    Ok(Catalogue {
        version: env!("CARGO_PKG_VERSION"),
        scenes,
        examples,
        controls: controls::rows().into_iter().map(control).collect(),
        algorithms: registry::ALGORITHMS
            .iter()
            .map(|about| AlgorithmItem {
                name: about.name,
                title: about.title,
                election: about.kind == Kind::Election,
                control: about.control,
                structure: about.structure,
                idea: about.idea,
            })
            .collect(),
    })
}

/// The example or scene of this name, played.
pub(super) fn example(name: &str) -> Result<Played, Refused> {
    let examples = EXAMPLES.iter().map(|example| (example.name, example.name, example.text));
    let found = examples.chain(SCENES).find(|(known, ..)| *known == name);
    let (name, title, text) =
        found.ok_or_else(|| Refused::Unknown { what: "example", name: name.to_owned() })?;
    let mut played = played::play(title, text)?;
    name.clone_into(&mut played.name);
    Ok(played)
}

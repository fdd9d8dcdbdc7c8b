//! The captions of the plots, from what the registry knows of the algorithms shown.

use mutua_algorithms::{About, Cost, Costs, Meaning, Setup, Structure, registry};
use mutua_simulator::{ElectionTheory, Expected, Theory, TheoryLoad, theory_of};

use super::super::{
    elections::{Case, ElectionCell},
    grid::CellLoad,
};
use crate::plot::Series;

/// All plots that there may be, by the names of their files.
pub(super) const FILES: [&str; 13] = [
    "messages-light",
    "messages-saturated",
    "client-delay",
    "sync-delay",
    "response-load",
    "response-p99-load",
    "sync-load",
    "messages-load",
    "throughput-load",
    "bypass-load",
    "jain-load",
    "election-messages",
    "election-turnaround",
];

/// The formulas of an algorithm with so many processes at a load, in the situation of a plot.
pub(super) type TheoryOf<'a> = dyn Fn(&About, u32, CellLoad) -> Theory + 'a;

/// The caption of a plot with these series. A sentence about algorithms stands there only if one of
/// them is shown, and one about formulas only if they are drawn.
pub(super) fn of(file: &str, series: &[Series], theory: &TheoryOf<'_>) -> String {
    let shown = algorithms(series.iter());
    let lined = algorithms(series.iter().filter(|one| !one.theory.is_empty()));
    let sentences = match file {
        "messages-light" => messages_light(&shown, &lined),
        "messages-saturated" => messages_saturated(&shown, &lined, theory),
        "client-delay" => client_delay(&shown, &lined),
        "sync-delay" => sync_delay(&shown, &lined, theory),
        "messages-load" => messages_load(&shown),
        "election-messages" => {
            elections(&shown, MEASURED_ELECTIONS, |theory| theory.messages.as_ref())
        }
        "election-turnaround" => elections(&shown, TURNAROUND, |theory| theory.turnaround.as_ref()),
        file => vec![independent(file).to_owned()],
    };
    let sentences: Vec<_> = sentences.into_iter().filter(|one| !one.is_empty()).collect();
    sentences.join(" ")
}

/// The algorithms of these series, each once.
fn algorithms<'a>(series: impl Iterator<Item = &'a Series>) -> Vec<&'static About> {
    let mut shown: Vec<&'static About> = Vec::new();
    for one in series {
        let name = one.name.split(',').next().unwrap_or_default();
        shown.extend(
            registry::about(name).filter(|_| !shown.iter().any(|about| about.name == name)),
        );
    }
    shown
}

/// What lines and points are, if there are lines.
fn lines(lined: &[&About]) -> String {
    let text = match lined {
        [] => "Points are measured; the formulas of the papers do not apply here.",
        _ => "Lines are the formulas of the papers, points are measured.",
    };
    text.to_owned()
}

const MEASURED_ELECTIONS: &str = "\
    The highest process is down, and others start an election: the lowest alone (circles), the \
    second highest alone (squares), or all at once (triangles). Lines are formulas, points are \
    measured.";

const TURNAROUND: &str =
    "From the first start until the last process that is up knows the coordinator.";

/// Captions that do not depend on the algorithms.
fn independent(file: &str) -> &'static str {
    match file {
        "response-load" => {
            "From request to exit, the hold time included. At a load of 1 the hold times of all \
             processes would fill the whole time if none had to wait for messages; the \
             synchronization delay makes the system saturated earlier."
        }
        "response-p99-load" => {
            "From request to exit, the 99th percentile. Whiskers are 95 % intervals over the \
             seeds, here and in all plots; where there is none it is shorter than the point."
        }
        "sync-load" => "From one exit to the next entry while a process waits.",
        "throughput-load" => {
            "Entries per second. The ceiling is one per hold time and synchronization delay."
        }
        "bypass-load" => {
            "The worst case of fairness: entries of others between a request and its entry. With N \
             processes that enter in turn it is N-1."
        }
        "jain-load" => "1: all processes entered equally often; 1/N: only one ever did.",
        _ => "",
    }
}

fn messages_light(shown: &[&About], lined: &[&About]) -> Vec<String> {
    let ring = "A circulating token has no line: its cost depends on the time between requests.";
    let others = shown.iter().copied().filter(|about| !is_ring(about));
    vec![
        lines(lined),
        bounds(lined, |costs| &costs.light),
        if_any(shown, is_ring, ring),
        without_formula(others, |costs| &costs.light),
    ]
}

fn messages_saturated(shown: &[&About], lined: &[&About], theory: &TheoryOf<'_>) -> Vec<String> {
    let cheaper = names(shown.iter().copied().filter(|about| {
        let messages = |load| theory(about, SMALL, load).messages.map(|expected| expected.value);
        let (light, saturated) = (messages(CellLoad::Light), messages(CellLoad::Saturated));
        light.zip(saturated).is_some_and(|(light, saturated)| saturated < light)
    }));
    vec![
        lines(lined),
        if_any(shown, is_ring, "On a ring one message serves one entry."),
        sentence("Cheaper than with one request at a time", &cheaper),
        bounds(lined, |costs| &costs.saturated),
        without_formula(shown.iter().copied(), |costs| &costs.saturated),
    ]
}

fn client_delay(shown: &[&About], lined: &[&About]) -> Vec<String> {
    let direct = "A request sent directly to the processes that grant it takes one round trip, \
                  whatever their number.";
    let tree = "Along a tree it takes the request's path and the token's path back.";
    let grows = |about: &About| is_growing(about) && !is_ring(about) && about.family == "token";
    vec![
        lines(lined),
        if_any(shown, |about| has_delay(about) && !is_growing(about), direct),
        if_any(shown, is_ring, "On a ring the token must come by."),
        if_any(shown, grows, tree),
    ]
}

fn sync_delay(shown: &[&About], lined: &[&About], theory: &TheoryOf<'_>) -> Vec<String> {
    let takes = |latencies: f64| {
        move |about: &About| {
            let theory = theory(about, SMALL, CellLoad::Saturated);
            theory.sync_delay.is_some_and(|expected| expected.value == latencies)
        }
    };
    vec![
        lines(lined),
        if_any(
            shown,
            takes(1.0),
            "It is one latency where the exit's message lets the next enter.",
        ),
        if_any(shown, takes(2.0), "It is two latencies where a coordinator or voters are between."),
    ]
}

fn messages_load(shown: &[&About]) -> Vec<String> {
    let differs = |about: &About| {
        let [light, saturated] = both_loads(about);
        light.zip(saturated).is_some_and(|(light, saturated)| light != saturated)
    };
    let stays = "Where a token or permission stays with its last user, or a request serves several \
                 processes, the load changes the cost.";
    let ring = "The higher the load on a ring, the more entries share a round of its token.";
    vec![
        "Messages per entry, a multicast counted once per receiver.".to_owned(),
        if_any(shown, is_ring, ring),
        if_any(shown, differs, stays),
    ]
}

/// The formulas of the elections shown, by the processes that start them.
fn elections(
    shown: &[&About],
    head: &str,
    formula: fn(&ElectionTheory) -> Option<&Expected>,
) -> Vec<String> {
    let text = |about: &About, case: Case| {
        let cell = ElectionCell { algorithm: about.name.to_owned(), nodes: LARGE, case };
        let expected = formula(&cell.theory())?.formula.clone();
        Some(format!("{expected} if {}", case.text()))
    };
    let mut sentences = vec![head.to_owned()];
    let mut without = Vec::new();
    for about in shown {
        let texts: Vec<_> = Case::ALL.iter().filter_map(|&case| text(about, case)).collect();
        match texts.as_slice() {
            [] => without.push(about.name),
            texts => sentences.push(format!("{}: {}.", about.name, texts.join(", "))),
        }
    }
    sentences.push(sentence("No formula, so the points are joined", &without));
    sentences
}

/// Two sizes for which formulas are evaluated, to see whether they grow with N.
const SMALL: u32 = 9;
const LARGE: u32 = 900;

/// Messages per entry at light load and in a saturated system, where there are formulas: whether
/// the load changes the cost does not depend on the situation.
fn both_loads(about: &About) -> [Option<f64>; 2] {
    [TheoryLoad::Light, TheoryLoad::Saturated].map(|load| {
        let Theory { messages, .. } = theory_of(about, &Setup::new(SMALL), load);
        messages.map(|expected| expected.value)
    })
}

/// The client delay by its formula. How it grows does not depend on the situation.
fn delay(about: &About, nodes: u32) -> Option<f64> {
    let theory = theory_of(about, &Setup::new(nodes), TheoryLoad::Light);
    theory.client_delay.map(|expected| expected.value)
}

fn has_delay(about: &About) -> bool {
    delay(about, SMALL).is_some()
}

/// Whether the client delay grows with N; 2(N-1)/N does not.
fn is_growing(about: &About) -> bool {
    let (small, large) = (delay(about, SMALL), delay(about, LARGE));
    small.zip(large).is_some_and(|(small, large)| large > 1.5 * small)
}

fn is_ring(about: &About) -> bool {
    about.structure == Structure::Ring
}

fn if_any(shown: &[&About], applies: impl Fn(&About) -> bool, text: &str) -> String {
    if shown.iter().any(|about| applies(about)) { text.to_owned() } else { String::new() }
}

fn bounds(shown: &[&About], cost: fn(&Costs) -> &Cost) -> String {
    let is_bound = |about: &&About| cost(&about.costs).meaning() == Some(Meaning::Bound);
    let bounds = names(shown.iter().copied().filter(is_bound));
    sentence("The line is a bound for", &bounds).replace(':', "")
}

fn without_formula<'a>(
    shown: impl Iterator<Item = &'a About>,
    cost: fn(&Costs) -> &Cost,
) -> String {
    let without = names(shown.filter(|about| cost(&about.costs).meaning().is_none()));
    sentence("No formula", &without)
}

fn names<'a>(algorithms: impl Iterator<Item = &'a About>) -> Vec<&'static str> {
    algorithms.map(|about| about.name).collect()
}

/// `Head: a, b.`, or nothing without names.
fn sentence(head: &str, names: &[&str]) -> String {
    if names.is_empty() { String::new() } else { format!("{head}: {}.", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::Kind;

    use super::*;
    use crate::plot::{Marker, Style};

    fn series(name: &str) -> Series {
        let style = Style { color: "#000", marker: Marker::Circle };
        let (theory, measured) = (vec![(3.0, 1.0)], Vec::new());
        Series { name: name.to_owned(), style, theory, measured, joined: false }
    }

    fn of(file: &str, series: &[Series]) -> String {
        let usual = |about: &About, nodes, load: CellLoad| {
            theory_of(about, &Setup::new(nodes), load.theory().expect("a load with formulas"))
        };
        super::of(file, series, &usual)
    }

    #[test]
    fn captions_mention_only_algorithms_that_are_shown() {
        let bully = of("election-messages", &["bully, all start"].map(series));
        assert!(bully.contains("bully: N^2-N-1 if the lowest starts"), "{bully}");
        assert!(!bully.contains("chang-roberts") && !bully.contains("invitation"), "{bully}");
        let ring = of("client-delay", &["le-lann"].map(series));
        assert!(ring.contains("On a ring") && !ring.contains("round trip"), "{ring}");
        let central = of("client-delay", &["central"].map(series));
        assert!(central.contains("one round trip") && !central.contains("ring"), "{central}");
        let tree = of("messages-saturated", &["neilsen-mizuno"].map(series));
        assert!(tree.contains("a bound for neilsen-mizuno."), "{tree}");
        for file in FILES {
            let names = ["le-lann", "bully"].map(series);
            assert!(of(file, &names).ends_with('.'), "{file}");
        }
    }

    #[test]
    fn every_algorithm_has_a_caption_in_every_plot() {
        for about in registry::ALGORITHMS {
            let files = FILES
                .iter()
                .filter(|file| file.starts_with("election-") == (about.kind == Kind::Election));
            for file in files {
                let caption = of(file, &[series(about.name)]);
                assert!(caption.ends_with('.') && !caption.contains(".."), "{file}: {caption}");
            }
        }
    }
}

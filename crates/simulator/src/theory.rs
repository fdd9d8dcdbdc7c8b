//! What the measures should come out as: the formulas of the papers and textbooks.

mod hints;

use mutua_algorithms::{NodeId, Quorums, Settings, Setup, Tree};
use serde::Serialize;

/// What theory says of one algorithm at one load, as far as it says anything.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Theory {
    /// Messages per entry, a multicast counted once per receiver.
    pub messages: Option<Expected>,
    /// Messages per entry, a multicast counted once.
    pub multicasts: Option<Expected>,
    /// From request to entry where nobody was inside or waiting, in T.
    pub client_delay: Option<Expected>,
    /// From one exit to the next entry where somebody waited, in T.
    pub sync_delay: Option<Expected>,
    /// Where a figure that one may have read elsewhere means something else.
    pub hints: Vec<&'static str>,
}

/// A figure that theory gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// The figure.
    pub value: f64,
    /// How it is meant.
    pub meaning: Meaning,
    /// The formula it comes from.
    pub formula: String,
}

/// How a figure is meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Meaning {
    /// Every entry, or every round of entries, costs that.
    Exact,
    /// It is the mean over random requesters.
    Mean,
    /// It is not exceeded.
    Bound,
}

/// The two loads of which theory speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TheoryLoad {
    /// One request at a time, the requester uniform over all.
    Light,
    /// Everybody always wants in, and stays for at least T/2.
    Saturated,
}

impl Expected {
    /// How far a measurement is off, as a share; below a bound it is not off at all.
    pub fn deviation(&self, measured: f64) -> f64 {
        let deviation = if self.value == 0.0 { measured } else { measured / self.value - 1.0 };
        match self.meaning {
            Meaning::Exact | Meaning::Mean => deviation,
            Meaning::Bound => deviation.max(0.0),
        }
    }
}

/// What theory says of the algorithm of this name; nothing of those it does not know.
pub fn theory(name: &str, setup: &Setup, load: TheoryLoad) -> Theory {
    let n = f64::from(setup.nodes);
    let known = match load {
        TheoryLoad::Light => light(name, setup, n),
        TheoryLoad::Saturated => saturated(name, setup, n),
    };
    Theory { hints: hints::of(name, setup, load), ..known.unwrap_or_default() }
}

// tidy: a table of formulas, one arm for each algorithm, reads best in one place.
fn light(name: &str, setup: &Setup, n: f64) -> Option<Theory> {
    // The holder itself is drawn once in N times, and then needs nothing.
    let not_holder = (n - 1.0) / n;
    let alone = n == 1.0;
    let round_trip = if alone { 0.0 } else { 2.0 };
    let chosen = |key: &str, value: &str| is_set(&setup.settings, key, value);
    let theory = match name {
        "central" if chosen("coordinator", "member") => Theory::new()
            .messages(mean(3.0 * not_holder, "3(N-1)/N"))
            .multicasts(mean(3.0 * not_holder, "3(N-1)/N"))
            .client(mean(2.0 * not_holder, "2(N-1)/N")),
        "central" => Theory::new()
            .messages(exact(3.0, "3"))
            .multicasts(exact(3.0, "3"))
            .client(exact(2.0, "2")),
        "le-lann" | "dijkstra" if !alone => Theory::new().client(mean(n / 2.0, "N/2")),
        "lamport" => Theory::new()
            .messages(exact(3.0 * (n - 1.0), "3(N-1)"))
            .multicasts(exact(if alone { 0.0 } else { n + 1.0 }, "N+1"))
            .client(exact(round_trip, "2")),
        "ricart-agrawala" => Theory::new()
            .messages(exact(2.0 * (n - 1.0), "2(N-1)"))
            .multicasts(exact(if alone { 0.0 } else { n }, "N"))
            .client(exact(round_trip, "2")),
        // Of any two, the one that entered last need not ask the other: half are asked on average.
        // Whoever entered last asks nobody, all others with one multicast.
        "carvalho-roucairol" => Theory::new()
            .messages(mean(n - 1.0, "N-1"))
            .multicasts(mean((n - 1.0) / 2.0 + not_holder, "(N-1)/2 + (N-1)/N"))
            .client(mean(2.0 * not_holder, "2(N-1)/N")),
        "suzuki-kasami" | "ricart-agrawala-token" => Theory::new()
            .messages(mean(n - 1.0, "N-1"))
            .multicasts(mean(2.0 * not_holder, "2(N-1)/N"))
            .client(mean(2.0 * not_holder, "2(N-1)/N")),
        "raymond" => {
            let messages = mean(2.0 * mean_distance(setup)?, "2 x mean distance");
            Theory::new().messages(messages.clone()).multicasts(messages.clone()).client(messages)
        }
        "neilsen-mizuno" => {
            let distance = mean_distance(setup)?;
            let messages = mean(distance + not_holder, "mean distance + (N-1)/N");
            Theory::new().messages(messages.clone()).multicasts(messages.clone()).client(messages)
        }
        "naimi-trehel" => {
            let messages = mean(harmonic(setup.nodes - 1), "H(N-1)");
            Theory::new().messages(messages.clone()).multicasts(messages.clone()).client(messages)
        }
        "sanders" => match setup.settings.get("sets").unwrap_or("ricart-agrawala") {
            "ricart-agrawala" => return light("ricart-agrawala", setup, n),
            "maekawa" => return light("maekawa", setup, n),
            "central" => Theory::new()
                .messages(mean(3.0 * not_holder, "3(N-1)/N"))
                .multicasts(mean(3.0 * not_holder, "3(N-1)/N"))
                .client(mean(2.0 * not_holder, "2(N-1)/N")),
            _ => return None,
        },
        "maekawa" | "maekawa-basic" => {
            let quorum = mean_quorum(setup)?;
            Theory::new()
                .messages(mean(3.0 * (quorum - 1.0), "3(K-1)"))
                .multicasts(mean(if alone { 0.0 } else { quorum + 1.0 }, "K+1"))
                .client(exact(round_trip, "2"))
        }
        "majority" => Theory::new()
            .messages(exact(3.0 * (n - 1.0), "3(N-1)"))
            .multicasts(exact(if alone { 0.0 } else { n + 1.0 }, "N+1"))
            .client(exact(round_trip, "2")),
        // A register is read from all by one multicast, from one by a message; each is answered.
        // Pushed, every change is one multicast that all acknowledge.
        "bakery-naive" if chosen("registers", "push") => Theory::new()
            .messages(exact(4.0 * (n - 1.0), "4(N-1)"))
            .multicasts(exact(if alone { 0.0 } else { 2.0 * n }, "2N"))
            .client(exact(round_trip, "2")),
        "bakery-naive" => Theory::new()
            .messages(exact(4.0 * (n - 1.0), "4(N-1)"))
            .multicasts(exact(if alone { 0.0 } else { 3.0 * n - 2.0 }, "3N-2"))
            .client(exact(round_trip + 2.0 * (n - 1.0), "2+2(N-1)")),
        "bakery" if chosen("registers", "push") => Theory::new()
            .messages(exact(6.0 * (n - 1.0), "6(N-1)"))
            .multicasts(exact(if alone { 0.0 } else { 3.0 * n }, "3N"))
            .client(exact(2.0 * round_trip, "4")),
        "bakery" => Theory::new()
            .messages(exact(6.0 * (n - 1.0), "6(N-1)"))
            .multicasts(exact(if alone { 0.0 } else { 5.0 * n - 4.0 }, "5N-4"))
            .client(exact(round_trip + 4.0 * (n - 1.0), "2+4(N-1)")),
        _ => return None,
    };
    Some(theory)
}

// tidy: as above.
fn saturated(name: &str, setup: &Setup, n: f64) -> Option<Theory> {
    if n == 1.0 {
        return None;
    }
    let not_holder = (n - 1.0) / n;
    let chosen = |key: &str, value: &str| is_set(&setup.settings, key, value);
    let theory = match name {
        "central" if chosen("refusal", "denied") => {
            let share = if chosen("coordinator", "member") { not_holder } else { 1.0 };
            let member = share < 1.0;
            let (messages, sync) = if member { ("4(N-1)/N", "2(N-1)/N") } else { ("4", "2") };
            Theory::new()
                .messages(exact(4.0 * share, messages))
                .multicasts(exact(4.0 * share, messages))
                .sync(exact(2.0 * share, sync))
        }
        "central" if chosen("coordinator", "member") => Theory::new()
            .messages(exact(3.0 * not_holder, "3(N-1)/N"))
            .multicasts(exact(3.0 * not_holder, "3(N-1)/N"))
            .sync(exact(2.0 * not_holder, "2(N-1)/N")),
        "central" => Theory::new()
            .messages(exact(3.0, "3"))
            .multicasts(exact(3.0, "3"))
            .sync(exact(2.0, "2")),
        "le-lann" | "dijkstra" => Theory::new()
            .messages(exact(1.0, "1"))
            .multicasts(exact(1.0, "1"))
            .sync(exact(1.0, "1")),
        "lamport" => Theory::new()
            .messages(exact(3.0 * (n - 1.0), "3(N-1)"))
            .multicasts(exact(n + 1.0, "N+1"))
            .sync(exact(1.0, "1")),
        // A deferred reply goes to each waiting one by itself.
        "ricart-agrawala" => Theory::new()
            .messages(exact(2.0 * (n - 1.0), "2(N-1)"))
            .multicasts(exact(n, "N"))
            .sync(exact(1.0, "1")),
        "carvalho-roucairol" => Theory::new()
            .messages(exact(2.0 * (n - 1.0), "2(N-1)"))
            .multicasts(exact(n, "N"))
            .sync(exact(1.0, "1")),
        "suzuki-kasami" | "ricart-agrawala-token" => {
            Theory::new().messages(exact(n, "N")).multicasts(exact(2.0, "2")).sync(exact(1.0, "1"))
        }
        "raymond" => Theory::new()
            .messages(exact(4.0 * not_holder, "4(N-1)/N"))
            .multicasts(exact(4.0 * not_holder, "4(N-1)/N"))
            .sync(exact(2.0 * not_holder, "2(N-1)/N")),
        "neilsen-mizuno" => Theory::new()
            .messages(bound(3.0, "below 3"))
            .multicasts(bound(3.0, "below 3"))
            .sync(exact(1.0, "1")),
        "naimi-trehel" => Theory::new()
            .messages(bound(4.0, "below 4"))
            .multicasts(bound(4.0, "below 4"))
            .sync(exact(1.0, "1")),
        // A vote is given back without being told FAILED, so nobody is told.
        "maekawa" if chosen("resolution", "reject") => {
            let quorum = mean_quorum(setup)?;
            Theory::new()
                .messages(exact(3.0 * (quorum - 1.0), "3(K-1)"))
                .multicasts(exact(quorum + 1.0, "K+1"))
                .sync(bound(2.0, "2 with a third-party voter, else 1"))
        }
        "maekawa" => {
            let quorum = mean_quorum(setup)?;
            Theory::new()
                .messages(exact(4.0 * (quorum - 1.0), "4(K-1)"))
                .multicasts(exact(2.0 * quorum, "2K"))
                .sync(bound(2.0, "2 with a third-party voter, else 1"))
        }
        "sanders" => match setup.settings.get("sets").unwrap_or("ricart-agrawala") {
            "ricart-agrawala" => return saturated("ricart-agrawala", setup, n),
            // Of two or three it leaves out a FAILED that could change nothing.
            "maekawa" if n < 4.0 => Theory::new()
                .messages(bound(4.0 * (mean_quorum(setup)? - 1.0), "4(K-1)"))
                .sync(bound(2.0, "2 with a third-party voter, else 1")),
            "maekawa" => return saturated("maekawa", setup, n),
            "central" => Theory::new()
                .messages(exact(3.0 * not_holder, "3(N-1)/N"))
                .multicasts(exact(3.0 * not_holder, "3(N-1)/N"))
                .sync(exact(2.0 * not_holder, "2(N-1)/N")),
            _ => return None,
        },
        _ => return None,
    };
    Some(theory)
}

/// Over all ordered pairs, each process with itself included: requester and holder are independent.
fn mean_distance(setup: &Setup) -> Option<f64> {
    let tree = Tree::new(&setup.topology, setup.nodes).ok()?;
    // Removing an edge parts the pairs that cross it: a sum over edges instead of over pairs.
    let n = u64::from(setup.nodes);
    let mut below = vec![1u64; setup.nodes as usize];
    let order = from_the_root(&tree);
    let mut crossings = 0;
    for &(node, parent) in order.iter().rev() {
        let size = below[node.index()];
        if let Some(parent) = parent {
            below[parent.index()] += size;
            crossings += 2 * size * (n - size);
        }
    }
    Some(crossings as f64 / (n * n) as f64)
}

/// Every process after the one through which it is reached from process 0.
fn from_the_root(tree: &Tree) -> Vec<(NodeId, Option<NodeId>)> {
    let mut order = vec![(NodeId(0), None)];
    let mut next = 0;
    while let Some(&(node, parent)) = order.get(next) {
        let children = tree.neighbours(node).filter(|&other| Some(other) != parent);
        order.extend(children.map(|child| (child, Some(node))));
        next += 1;
    }
    order
}

fn mean_quorum(setup: &Setup) -> Option<f64> {
    let quorums = Quorums::new(setup.quorums, setup.nodes).ok()?;
    let sizes = (0..setup.nodes).map(|node| quorums.of(NodeId(node)).len());
    Some(sizes.sum::<usize>() as f64 / f64::from(setup.nodes))
}

/// 1 + 1/2 + ... + 1/k.
fn harmonic(k: u32) -> f64 {
    (1..=k).map(|term| 1.0 / f64::from(term)).sum()
}

fn is_set(settings: &Settings, key: &str, value: &str) -> bool {
    settings.get(key) == Some(value)
}

fn exact(value: f64, formula: &str) -> Expected {
    Expected { value, meaning: Meaning::Exact, formula: formula.to_owned() }
}

fn mean(value: f64, formula: &str) -> Expected {
    Expected { value, meaning: Meaning::Mean, formula: formula.to_owned() }
}

fn bound(value: f64, formula: &str) -> Expected {
    Expected { value, meaning: Meaning::Bound, formula: formula.to_owned() }
}

impl Theory {
    fn new() -> Self {
        Self::default()
    }

    fn messages(self, expected: Expected) -> Self {
        Self { messages: Some(expected), ..self }
    }

    fn multicasts(self, expected: Expected) -> Self {
        Self { multicasts: Some(expected), ..self }
    }

    fn client(self, expected: Expected) -> Self {
        Self { client_delay: Some(expected), ..self }
    }

    fn sync(self, expected: Expected) -> Self {
        Self { sync_delay: Some(expected), ..self }
    }
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::Topology;

    use super::*;

    #[test]
    fn distances_on_a_line_and_a_star_are_the_textbook_ones() {
        let mut setup = Setup::new(9);
        setup.topology = Topology::Line;
        // (N+1)/3 over distinct pairs; of N^2 pairs, N(N-1) are distinct.
        assert!((mean_distance(&setup).unwrap() - 10.0 / 3.0 * 8.0 / 9.0).abs() < 1e-12);
        setup.topology = Topology::Star;
        assert!((mean_distance(&setup).unwrap() - 2.0 * 8.0 / 9.0 * 8.0 / 9.0).abs() < 1e-12);
    }
}

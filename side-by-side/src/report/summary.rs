//! Medians over the rounds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::targets::{self, Target};
use crate::{
    halves::Halves,
    meta::Meta,
    piece::Piece,
    statistics::{Contended, Pairs, median},
    systems::{self, System},
};

/// The figures of a report.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Summary {
    pub(super) meta: Meta,
    /// The least and the greatest load, averaged over a minute, before and after the pieces.
    pub(super) load: (f64, f64),
    pub(super) rows: Vec<Row>,
    pub(super) targets: Vec<Target>,
    pub(super) halves: Option<Halves>,
}

/// A system's medians.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Row {
    #[serde(rename = "id", with = "systems::by_id")]
    pub(super) system: System,
    pub(super) title: String,
    pub(super) rounds: usize,
    pub(super) again: Option<Pairs>,
    pub(super) fresh: Option<Pairs>,
    pub(super) names: Option<Pairs>,
    pub(super) empty: BTreeMap<usize, Contended>,
    pub(super) long: BTreeMap<usize, Contended>,
    /// Hand-overs per second of three in the worst and the best round.
    pub(super) spread: Option<(f64, f64)>,
    pub(super) server_idle_kib: f64,
    pub(super) server_loaded_kib: f64,
    /// Of all rounds together.
    pub(super) violations: u64,
    pub(super) fence_violations: Option<u64>,
    pub(super) entries: u64,
    pub(super) errors: Vec<String>,
}

pub(super) fn summarise(meta: Meta, pieces: &[Piece], halves: Option<Halves>) -> Summary {
    let rows: Vec<_> = systems::all()
        .into_iter()
        .filter_map(|system| {
            let own: Vec<_> = pieces.iter().filter(|piece| piece.system == system.id).collect();
            (!own.is_empty()).then(|| row(system, &own))
        })
        .collect();
    let loads = pieces.iter().flat_map(|piece| [&piece.load_before, &piece.load_after]);
    let loads = loads.filter_map(|load| load.split(' ').next()?.parse::<f64>().ok());
    let load = loads
        .fold((f64::INFINITY, 0.0_f64), |(least, most), load| (least.min(load), most.max(load)));
    Summary { meta, load, targets: targets::all(&rows), rows, halves }
}

fn row(system: System, pieces: &[&Piece]) -> Row {
    let all = |of: fn(&Piece) -> &BTreeMap<usize, Contended>| {
        let mut counts: BTreeMap<usize, Vec<&Contended>> = BTreeMap::new();
        for (count, figures) in pieces.iter().flat_map(|piece| of(piece)) {
            counts.entry(*count).or_default().push(figures);
        }
        counts
    };
    let medians = |of| {
        let counts = all(of).into_iter();
        counts.filter_map(|(count, list)| Some((count, median_contended(list)?))).collect()
    };
    let every = || pieces.iter().flat_map(|piece| piece.empty.values().chain(piece.long.values()));
    let three: Vec<f64> = all(|piece| &piece.empty)
        .get(&3)
        .map(|list| list.iter().map(|one| one.handovers_per_s).collect())
        .unwrap_or_default();
    let errors = pieces.iter().flat_map(|piece| {
        piece.errors.iter().map(|error| format!("round {}: {error}", piece.round))
    });
    Row {
        title: system.title.clone(),
        rounds: pieces.len(),
        again: median_of(pieces.iter().filter_map(|piece| piece.again.as_ref()).collect()),
        fresh: median_of(pieces.iter().filter_map(|piece| piece.fresh.as_ref()).collect()),
        names: median_of(pieces.iter().filter_map(|piece| piece.names.as_ref()).collect()),
        empty: medians(|piece| &piece.empty),
        long: medians(|piece| &piece.long),
        spread: three.iter().copied().reduce(f64::min).zip(three.into_iter().reduce(f64::max)),
        server_idle_kib: middle(pieces, |piece| piece.server_idle_kib),
        server_loaded_kib: middle(pieces, |piece| piece.server_loaded_kib),
        violations: every().map(|figures| figures.violations).sum(),
        fence_violations: every().filter_map(|one| one.fence_violations).reduce(|a, b| a + b),
        entries: every().map(|figures| figures.handovers).sum(),
        errors: errors.collect(),
        system,
    }
}

fn middle(pieces: &[&Piece], of: fn(&Piece) -> u64) -> f64 {
    median(pieces.iter().map(|piece| of(piece) as f64).collect()).unwrap_or_default()
}

/// The medians; of delays those of the rounds in which there were any.
fn median_contended(figures: Vec<&Contended>) -> Option<Contended> {
    let handed_over: Vec<_> = figures.iter().copied().filter(|one| one.handovers > 0).collect();
    let mut middle: Contended = median_of(figures)?;
    if let Some(delays) = median_of::<Contended>(handed_over) {
        (middle.delay_p50_us, middle.delay_p99_us) = (delays.delay_p50_us, delays.delay_p99_us);
    }
    Some(middle)
}

/// Field by field the median of figures.
fn median_of<T: Serialize + DeserializeOwned>(figures: Vec<&T>) -> Option<T> {
    let maps: Vec<Map<String, Value>> = figures
        .into_iter()
        .filter_map(|one| serde_json::to_value(one).ok()?.as_object().cloned())
        .collect();
    let mut result = Map::new();
    for (key, first) in maps.first()? {
        let values = maps.iter().filter_map(|map| map.get(key)?.as_f64()).collect();
        let value = match median(values) {
            // Counts stay whole.
            Some(value) if first.is_u64() => Value::from(value.round() as u64),
            Some(value) => Value::from(value),
            None => Value::Null,
        };
        result.insert(key.clone(), value);
    }
    serde_json::from_value(Value::Object(result)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_taken_field_by_field_and_counts_stay_whole() {
        let one = |per_s, handovers| Contended {
            handovers_per_s: per_s,
            handovers,
            ..Default::default()
        };
        let figures = [one(1.0, 5), one(9.0, 1), one(2.0, 2)];
        let middle: Contended = median_of(figures.iter().collect()).unwrap();
        assert_eq!((middle.handovers_per_s, middle.handovers), (2.0, 2));
    }

    #[test]
    fn a_round_without_hand_overs_has_no_delay_that_could_count() {
        let one =
            |delay_p50_us, handovers| Contended { delay_p50_us, handovers, ..Default::default() };
        let figures = [one(0.0, 0), one(0.0, 0), one(7.0, 1)];
        let middle = median_contended(figures.iter().collect()).unwrap();
        assert_eq!((middle.delay_p50_us, middle.handovers), (7.0, 0));
    }
}

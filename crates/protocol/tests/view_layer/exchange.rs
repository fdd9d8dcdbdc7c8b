//! Searches of the model of `exchange_model.rs`: what holds, and which broken rules are found.

use mutua_protocol::views::{RecordRules, Rules, ViewSettings};

use super::{
    exchange_model::{Bounds, Exchange},
    search::{Found, search},
};

/// Two members; the second is alone in the first view.
const PAIR: Bounds =
    Bounds { members: 2, first: 0b10, views: 2, crashes: 1, units: 1, guards: 1, grants: 1 };

/// Both are in the first view.
const BOTH: Bounds = Bounds { first: 0b11, ..PAIR };

/// Three members, all in the first view.
const THREE: Bounds = Bounds { members: 3, first: 0b111, views: 1, ..PAIR };

fn look(bounds: Bounds, records: RecordRules) -> Found {
    let rules = Rules { records, ..Rules::default() };
    // Units are counted, not measured: no clock drifts.
    let settings = ViewSettings { drift: 0, rules, ..ViewSettings::default() };
    let model = Exchange { settings, bounds };
    let stuck = "nothing fails any more, and the last view does not begin";
    let violation = |state: &_| {
        let state: &super::exchange_model::State = state;
        state.failure.or_else(|| (!model.completes(state)).then_some(stuck))
    };
    let found = search(model.start(), |state| model.next(state), violation);
    println!("{records:?} {bounds:?}: {found:?}");
    found
}

/// In the gate, with the number of states: no guards beside the client, or no crash.
const SEARCHES: [(Bounds, usize); 3] = [
    (Bounds { guards: 0, ..PAIR }, 32_342),
    (Bounds { crashes: 0, ..PAIR }, 26_017),
    (Bounds { crashes: 0, guards: 0, units: 0, ..THREE }, 7441),
];

/// Run by hand, in a release build.
const LONG_SEARCHES: [Bounds; 4] = [PAIR, BOTH, THREE, Bounds { views: 3, ..PAIR }];

#[test]
fn a_view_begins_with_all_that_is_held_and_everybody_gets_in() {
    for (bounds, states) in SEARCHES {
        assert_eq!(look(bounds, RecordRules::Right), Found { states, violation: None });
    }
    // Minutes each: for a release build, by hand.
    let further: &[Bounds] =
        if std::env::var_os("MUTUA_DEEP").is_some() { &LONG_SEARCHES } else { &[] };
    for &bounds in further {
        assert_eq!(look(bounds, RecordRules::Right).violation, None);
    }
}

#[test]
fn the_search_finds_every_broken_record_rule() {
    for records in [RecordRules::BeganSomeView, RecordRules::WasInLastView] {
        let found = look(Bounds { guards: 0, ..PAIR }, records).violation;
        assert_eq!(found, Some("a view begins and does not know who holds the lock"));
    }
}

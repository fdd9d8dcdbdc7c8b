//! Where textbooks, lecture notes and papers print a figure that means something else, or that does
//! not hold: `docs/measures.md` tells more.

use mutua_algorithms::Setup;

use super::TheoryLoad::{self, Light, Saturated};

/// What to know before one compares these measures with a figure from elsewhere.
pub(super) fn of(name: &str, setup: &Setup, load: TheoryLoad) -> Vec<&'static str> {
    let hints = [general(name, load), of_sizes(name, setup, load)];
    hints.into_iter().flatten().collect()
}

fn general(name: &str, load: TheoryLoad) -> Option<&'static str> {
    Some(match (name, load) {
        ("le-lann" | "dijkstra", Light) => {
            "the ring never rests: its messages per entry grow with the gap between requests, so \
             there is no figure to compare with"
        }
        ("ricart-agrawala", _) => {
            "2n-1 and a split that counts deferred replies twice are in print; each of the N-1 \
             others costs one request and one reply"
        }
        ("carvalho-roucairol", Light) => {
            "the mean over random requesters; the same process again costs 0, after all others \
             2(N-1)"
        }
        ("suzuki-kasami" | "ricart-agrawala-token", Light) => {
            "N if the token is elsewhere, 0 if it is here: N-1 is the mean over all N requesters"
        }
        ("naimi-trehel", Light) => {
            "H(N-1) counts requests and token together, over all N requesters, the holder costing 0"
        }
        ("raymond", Light) => {
            "over all N requesters, the holder included; over distinct pairs it is N/(N-1) times \
             that, on a line 2(N+1)/3"
        }
        ("neilsen-mizuno", Light) => {
            "mean distance + 1 is over requesters other than the holder, who costs 0"
        }
        ("raymond", Saturated) => {
            "the textbooks' T log(N)/2 is not the synchronization delay of a saturated system"
        }
        ("maekawa" | "sanders", Saturated) => {
            "2T holds where the shared voter is a third party; who waits and votes itself hears of \
             the exit after T"
        }
        ("bakery" | "bakery-naive", Saturated) => {
            "every waiting process polls, so messages per entry depend on --hold and --pace"
        }
        _ => return None,
    })
}

fn of_sizes(name: &str, setup: &Setup, load: TheoryLoad) -> Option<&'static str> {
    let quorums = name.starts_with("maekawa") && load == Light;
    let is_square = setup.nodes.isqrt().pow(2) == setup.nodes;
    let is_grid = setup.quorums == mutua_algorithms::QuorumKind::Grid;
    (quorums && is_grid && !is_square).then_some(
        "N is no square: K is the mean size of the quorums of a grid whose last row is not full",
    )
}

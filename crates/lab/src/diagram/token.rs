//! The token: the processes that have it, as far as its messages show.

use std::collections::BTreeMap;

use mutua_algorithms::NodeId;

use super::scene::{Arrow, End, Span, SpanKind};

/// The periods in which a process has the token: from the message that brings it to the one that
/// hands it on. The sender of a token that no message brought has had it from the beginning.
pub(super) fn spans(arrows: &[Arrow]) -> Vec<Span> {
    let mut changes: Vec<(u64, Change, NodeId)> = Vec::new();
    for arrow in arrows.iter().filter(|arrow| arrow.is_token) {
        changes.push((arrow.sent, Change::HandsOn, arrow.from));
        if let End::Received(at) = arrow.end {
            changes.push((at, Change::Gets, arrow.to));
        }
    }
    changes.sort_unstable();
    let mut spans = Vec::new();
    let mut since: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut had: BTreeMap<NodeId, bool> = BTreeMap::new();
    let span = |who, from, to| Span { who, kind: SpanKind::Token, from, to, label: String::new() };
    for (at, change, who) in changes {
        match change {
            Change::Gets => {
                since.entry(who).or_insert(at);
            }
            Change::HandsOn => {
                let from = since.remove(&who);
                let from = from.or_else(|| (!had.contains_key(&who)).then_some(0));
                spans.extend(from.map(|from| span(who, from, Some(at))));
            }
        }
        had.insert(who, true);
    }
    spans.extend(since.into_iter().map(|(who, from)| span(who, from, None)));
    spans
}

/// At one time a token arrives before it is handed on.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Change {
    Gets,
    HandsOn,
}

//! Traces of a lock, collected from all members for a client that follows it.

use std::sync::Arc;

use mutua_node::MAX_CALL;
use tonic::Status;

use super::Service;
use crate::proto::v1::{self, peer_query::Query, peer_reply::Reply};

/// The most events of a member in one reply; another request gets the rest.
const MOST_EVENTS: usize = 1_000;
/// The size of a member's events in one reply in bytes.
const PAGE: usize = MAX_CALL / 2;

impl Service {
    /// This member's part of a lock's trace; `None` if it follows too many locks already.
    pub(super) fn trace_here(&self, request: &v1::TraceRequest) -> Option<v1::MemberTrace> {
        let known = request.after.iter().find(|cursor| cursor.node == self.name);
        let from = known.map_or(0, |cursor| cursor.next);
        let (traced, now_ns) = self.handle.follow(&request.name, from, MOST_EVENTS)?;
        let first = traced.next - traced.events.len() as u64;
        let mut size = 0;
        let fits = |line: &String| {
            size += line.len() + 8;
            size <= PAGE
        };
        let events: Vec<_> = traced.events.into_iter().take_while(fits).collect();
        let counts = self.handle.lock_status(&request.name).map(|lock| lock.counts);
        let counts = counts.unwrap_or_default();
        Some(v1::MemberTrace {
            node: self.name.clone(),
            header: traced.header,
            next: first + events.len() as u64,
            events,
            missed: traced.missed,
            now_ns,
            ahead_ns: 0,
            grants: counts.entries,
            messages: counts.messages,
            lazy: counts.lazy,
        })
    }

    /// The traces of all members that answer.
    pub(super) async fn trace(
        self: &Arc<Self>,
        request: v1::TraceRequest,
    ) -> Result<v1::TraceResponse, Status> {
        let full = || Status::resource_exhausted("too many locks are followed: try again later");
        let here = self.trace_here(&request).ok_or_else(full)?;
        let mut response = v1::TraceResponse { now_ns: here.now_ns, ..Default::default() };
        response.members.push(here);
        if self.is_alone() {
            return Ok(response);
        }
        let begun = mutua_host::now();
        let mut members = Vec::new();
        for (name, reply) in self.query_all(Query::Trace(request)).await {
            match reply {
                Some(Reply::Trace(trace)) => members.push(trace),
                Some(_) | None => response.unanswered.push(name),
            }
        }
        let span = (begun.nanos(), mutua_host::now().nanos());
        for member in &mut members {
            member.ahead_ns = ahead(span, member.now_ns);
        }
        response.members.append(&mut members);
        Ok(response)
    }
}

/// How far another clock is ahead, if it showed `there` at some time of this span of ours; 0 if the
/// two may be the same clock.
fn ahead((begun, ended): (u64, u64), there: u64) -> i64 {
    if (begun..=ended).contains(&there) {
        return 0;
    }
    let middle = begun + (ended - begun) / 2;
    i64::try_from(i128::from(there) - i128::from(middle)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::ahead;

    #[test]
    fn a_clock_within_the_span_of_a_call_counts_as_the_same() {
        assert_eq!(ahead((100, 200), 100), 0);
        assert_eq!(ahead((100, 200), 199), 0);
        assert_eq!(ahead((100, 200), 1_150), 1_000);
        assert_eq!(ahead((1_100, 1_200), 150), -1_000);
    }
}

//! A hold of a client as it is recorded: at other members, or on the disk of a single node.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mutua_client::proto::v1;
use mutua_node::ServedClient;
use prost::Message;

use crate::{
    Moment,
    clients::{client, millis},
    leases::Opening,
};

/// A session as other members record it.
pub(crate) fn recorded(
    opening: &Opening,
    key: Option<v1::RecordedKey>,
    waiting: Vec<v1::RecordedKey>,
    granted_ms: u64,
) -> ServedClient {
    let value = v1::Recorded { waiting, ..recorded_value(opening, key, granted_ms) };
    let session = opening.id.cast_unsigned();
    ServedClient { session, ttl: opening.ttl, value: value.encode_to_vec() }
}

/// The client of a hold as it is recorded.
pub(crate) fn recorded_value(
    opening: &Opening,
    key: Option<v1::RecordedKey>,
    granted_ms: u64,
) -> v1::Recorded {
    let client = &opening.client;
    v1::Recorded {
        client: Some(v1::Client {
            owner: client.owner.clone(),
            host: client.host.clone(),
            pid: client.pid,
            command: client.command.clone(),
            version: client.version.clone(),
            identity: client.identity.clone(),
        }),
        supervised: opening.supervised,
        lease: opening.lease,
        key,
        waiting: Vec::new(),
        granted_ms,
        broken: false,
    }
}

/// The session of a recorded hold.
pub(crate) fn recorded_opening(value: v1::Recorded, id: i64, ttl: Duration) -> Opening {
    // A node has recorded it.
    let identity = value.client.as_ref().map(|client| client.identity.clone());
    Opening {
        id,
        ttl,
        client: client(value.client, identity.unwrap_or_default()),
        supervised: value.supervised,
        lease: value.lease,
    }
}

/// The moment of a grant that was recorded with the calendar's time, for what is shown only:
/// calendars of hosts differ, and can be set.
pub(crate) fn since(now: Moment, granted_ms: u64) -> Moment {
    let elapsed = match granted_ms {
        0 => 0,
        granted => calendar_ms().saturating_sub(granted),
    };
    now.before(Duration::from_millis(elapsed))
}

/// The calendar's time of a grant, in milliseconds.
pub(crate) fn granted_ms(now: Moment, since: Moment) -> u64 {
    calendar_ms().saturating_sub(millis(now.since(since)))
}

/// The calendar's time in milliseconds.
pub(crate) fn calendar_ms() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    millis(time)
}

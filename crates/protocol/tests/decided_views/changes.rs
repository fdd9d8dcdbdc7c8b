//! Records of holds that change: a value that is said to be recorded is known to every node that
//! takes the hold over, or a later one.

use std::collections::BTreeMap;

use mutua_protocol::{
    Rule, Ticket,
    views::{self, Role, ViewSettings},
};

use super::{
    events::SECOND,
    world::{Event, World},
};

/// The number of worlds.
const SEEDS: u64 = 40;

/// The changes of each session, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    last: BTreeMap<u64, u64>,
    /// The last that a node was asked for, by node, incarnation and hold.
    sent: BTreeMap<(usize, u64, Ticket), u64>,
    /// The last that is recorded, by session and fencing token.
    recorded: BTreeMap<(u64, u64), u64>,
    /// Those that were recorded, and holds taken over with one.
    counts: (u64, u64),
}

/// The value of a hold: its client, and the number of its change.
fn value(client: usize, number: u64) -> Vec<u8> {
    [(client as u64).to_le_bytes(), number.to_le_bytes()].concat()
}

fn number_of(value: &[u8]) -> u64 {
    value.get(8..16).map_or(0, |number| u64::from_le_bytes(number.try_into().expect("eight")))
}

impl World {
    /// A session changes the value of what it holds at this node, if values change in this world.
    pub(crate) fn change_value(&mut self, slot: usize, session: u64) {
        let Some(changes) = &mut self.changes else { return };
        let node = &mut self.nodes[slot];
        let held = node.served.iter().find(|(_, one)| one.holds(session));
        let Some((&ticket, served)) = held else { return };
        let number = changes.last.get(&session).map_or(1, |last| last + 1);
        let value = value(served.client, number);
        let lock = node.locks[served.name];
        let incarnation = node.incarnation;
        changes.last.insert(session, number);
        changes.sent.insert((slot, incarnation, ticket), number);
        let changed =
            self.call(slot, |protocol, now| protocol.change_record(now, lock, ticket, value));
        assert!(changed == Some(true), "the node holds it for the client");
    }

    /// A change of a hold that its client knows of may be recorded.
    pub(crate) fn on_change_recorded(&mut self, slot: usize, ticket: Ticket, hold: (u64, u64)) {
        let node = &self.nodes[slot];
        let (incarnation, lock) = (node.incarnation, node.locks[node.served[&ticket].name]);
        let later = node.layer.as_ref().is_some_and(|one| one.is_changing(lock, ticket));
        let Some(changes) = self.changes.as_mut().filter(|_| !later) else { return };
        if let Some(&number) = changes.sent.get(&(slot, incarnation, ticket)) {
            changes.recorded.insert(hold, number);
            changes.counts.0 += 1;
            self.note(|| format!("{slot} has recorded change {number} of {hold:?}"));
        }
    }

    /// A node takes over a hold with this client.
    pub(crate) fn check_change(&mut self, slot: usize, token: u64, client: &views::Client) {
        let Some(changes) = &mut self.changes else { return };
        let hold = (client.session, token);
        let recorded = changes.recorded.get(&hold).copied().unwrap_or_default();
        let known = number_of(&client.value);
        if recorded > 0 {
            changes.counts.1 += 1;
        }
        if known < recorded {
            self.fails(format!("{slot} knows change {known} of {hold:?}, not {recorded}"));
        }
    }
}

#[test]
fn a_node_that_takes_a_hold_over_knows_the_last_value_that_was_recorded() {
    let mut counts = (0, 0);
    for seed in 0..SEEDS {
        let rule = Rule::new("*", "naimi-trehel");
        let roles = [Role::Voter; 3];
        let mut world = World::new(seed, rule, ViewSettings::default(), &roles);
        world.changes = Some(Changes::default());
        for _ in 0..3 {
            world.add_external();
        }
        world.calm_at = 20 * SECOND;
        world.after(std::time::Duration::from_secs(2), Event::Fault);
        world.at(world.calm_at, Event::Calm);
        world.run(30 * SECOND);
        assert_eq!(world.failure, None, "seed {seed}");
        let changes = world.changes.expect("they are counted");
        counts = (counts.0 + changes.counts.0, counts.1 + changes.counts.1);
    }
    assert!(counts.0 > 100 && counts.1 > 10, "recorded and taken over: {counts:?}");
}

//! Situations that broke earlier designs, with whole nodes. `tests/traps.md` lists all of them.

use mutua_protocol::{
    Rule, usable,
    views::{Command, DecidedView, Role, ViewNumber, ViewSettings},
};

use super::{cases::pass, events::SECOND, world::World};

#[test]
fn trap_11_messages_of_two_views_cross_on_every_link_and_none_is_taken_for_the_others() {
    for about in usable() {
        let rule = Rule::new("*", about.name);
        let mut world = World::new(11, rule, ViewSettings::default(), &[Role::Voter; 3]);
        world.add_external();
        world.run(4 * SECOND);
        // One write in three is late by up to the lease, while views follow each other: their
        // members begin and leave them at different times, and all clients request all the time.
        world.late = 3;
        for _ in 0..25 {
            pass(&mut world, 400);
            let last = world.engine.state.last().expect("a view").clone();
            let number = ViewNumber(last.number.0 + 1);
            world.on_commit(Command::View(DecidedView { number, ..last }));
        }
        assert!(world.engine.state.last_number() > ViewNumber(20), "{}", about.name);
        world.late = 0;
        world.calm_at = world.now;
        pass(&mut world, 20_000);
        for slot in 0..3 {
            for client in 0..world.clients {
                let served = world.served.contains(&(slot, client));
                assert!(served, "{}: client {client} of {slot}", about.name);
            }
        }
    }
}

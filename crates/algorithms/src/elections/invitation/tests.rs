use super::*;
use crate::{ElectionEffect, Setup};

/// What a step leads to, but for the timers that it stops.
#[derive(Debug, PartialEq)]
enum Seen {
    Sent(u32, InvitationMessage),
    Elected(u32),
    Set(Timer, Wait),
    Nonsense,
}

/// One process of five, and what its steps lead to.
struct One(Invitation);

impl One {
    fn new(me: u32) -> Self {
        let start = Setup::new(5).start_election::<Invitation>().expect("any number suits");
        Self(Invitation::new(NodeId(me), &start))
    }

    /// A coordinator without members, that looks for others.
    fn looking(me: u32) -> Self {
        let mut one = Self::new(me);
        one.step(Invitation::start);
        one
    }

    /// A member of a group of another process, which is complete.
    fn following(me: u32, group: Group) -> Self {
        let mut one = Self::new(me);
        one.hear(group.coordinator.0, Invite(group));
        one.hear(group.coordinator.0, Ready(group));
        assert_eq!(one.0.coordinator(), Some(group.coordinator));
        one
    }

    /// The coordinator of a complete group of its own and process 0; it has founded two groups.
    fn leading(me: u32) -> (Self, Group) {
        let mut one = Self::looking(me);
        one.hear(0, IAm);
        one.fire(Timer::Answer);
        let group = one.0.group().expect("it has founded one");
        one.hear(0, Accept(group));
        assert_eq!(one.fire(Timer::Answer)[0], Seen::Sent(0, Ready(group)));
        (one, group)
    }

    fn step(
        &mut self,
        step: impl FnOnce(&mut Invitation, &mut ElectionOutbox<InvitationMessage>),
    ) -> Vec<Seen> {
        let (mut out, mut seen) = (ElectionOutbox::new(), Vec::new());
        let before = self.0.clone();
        step(&mut self.0, &mut out);
        out.drain(|effect| match effect {
            ElectionEffect::Send { to, message } => seen.push(Seen::Sent(to.0, message)),
            ElectionEffect::Multicast { to, message } => {
                seen.extend(to.iter().map(|to| Seen::Sent(to.0, message.clone())));
            }
            ElectionEffect::Elected { coordinator } => seen.push(Seen::Elected(coordinator.0)),
            ElectionEffect::SetTimer { timer, after } => seen.push(Seen::Set(timer, after)),
            ElectionEffect::CancelTimer { .. } => {}
            ElectionEffect::Nonsense { .. } => seen.push(Seen::Nonsense),
        });
        assert!(!seen.contains(&Seen::Nonsense) || self.0 == before, "nonsense has changed it");
        seen
    }

    fn hear(&mut self, from: u32, message: InvitationMessage) -> Vec<Seen> {
        self.step(|process, out| process.receive(NodeId(from), message, out))
    }

    fn fire(&mut self, timer: Timer) -> Vec<Seen> {
        self.step(|process, out| process.timeout(timer, out))
    }
}

fn group(coordinator: u32, number: u32) -> Group {
    Group { coordinator: NodeId(coordinator), number }
}

#[test]
fn a_process_is_in_no_group_until_it_founds_one_or_accepts_an_invitation() {
    assert_eq!(One::new(1).0.group(), None);
    assert_eq!(One::looking(1).0.group(), Some(group(1, 1)));
    assert_eq!(One::following(1, group(3, 7)).0.group(), Some(group(3, 7)));
}

#[test]
fn only_the_coordinator_answers_for_its_group() {
    let theirs = group(3, 1);
    for message in [Here(theirs), NotHere(theirs), Ready(theirs)] {
        let mut member = One::following(1, theirs);
        assert_eq!(member.hear(4, message), [Seen::Nonsense]);
    }
}

#[test]
fn a_lower_coordinator_lets_every_id_up_to_the_highest_have_its_turn() {
    let turn = |me: u32, highest: u32| {
        let mut one = One::looking(me);
        one.hear(highest, IAm);
        match one.fire(Timer::Answer)[..] {
            [Seen::Set(Timer::Announcement, turn)] => turn,
            ref other => panic!("{other:?}"),
        }
    };
    let one = turn(3, 4);
    assert!(one.transmissions > 0 && one.handlings > 0);
    for (me, highest) in [(0, 1), (0, 4), (1, 4), (2, 3)] {
        let between = highest - me;
        let Wait { transmissions, handlings } = one;
        let expected =
            Wait { transmissions: transmissions * between, handlings: handlings * between };
        assert_eq!(turn(me, highest), expected, "{me} below {highest}");
    }
    // The highest invites at once.
    let mut highest = One::looking(4);
    highest.hear(0, IAm);
    assert!(highest.fire(Timer::Answer).contains(&Seen::Sent(0, Invite(group(4, 2)))));
}

#[test]
fn an_acceptance_is_of_a_group_that_was_founded_here() {
    let (mut one, ours) = One::leading(2);
    assert_eq!(ours, group(2, 2));
    for strange in [group(3, 2), group(2, 3), group(2, 0)] {
        assert_eq!(one.hear(1, Accept(strange)), [Seen::Nonsense], "{strange:?}");
    }
    assert_eq!(one.hear(1, Accept(group(2, 1))), [], "it is late");
    assert_eq!(one.hear(1, Accept(ours)), [Seen::Sent(1, Ready(ours))]);
}

#[test]
fn an_invitation_leads_into_the_group_of_another_process() {
    for strange in [group(1, 1), group(5, 1)] {
        assert_eq!(One::new(1).hear(3, Invite(strange)), [Seen::Nonsense], "{strange:?}");
    }
    let seen = One::new(1).hear(3, Invite(group(3, 1)));
    assert!(seen.contains(&Seen::Sent(3, Accept(group(3, 1)))), "{seen:?}");
}

#[test]
fn a_group_that_is_ready_twice_has_elected_once() {
    let theirs = group(3, 1);
    let mut member = One::new(1);
    member.hear(3, Invite(theirs));
    assert_eq!(member.hear(3, Ready(theirs)), [Seen::Elected(3)]);
    assert_eq!(member.hear(3, Ready(theirs)), []);
    // The same while it asks after the coordinator.
    assert!(member.fire(Timer::Look).contains(&Seen::Sent(3, AreYouThere(theirs))));
    assert_eq!(member.hear(3, Ready(theirs)), []);
}

#[test]
fn a_coordinator_is_there_only_for_the_members_of_its_present_group() {
    let (mut one, ours) = One::leading(2);
    let old = group(2, 1);
    assert_eq!(one.hear(0, AreYouThere(ours)), [Seen::Sent(0, Here(ours))]);
    assert_eq!(one.hear(0, AreYouThere(old)), [Seen::Sent(0, NotHere(old))]);
    assert_eq!(one.hear(1, AreYouThere(ours)), [Seen::Sent(1, NotHere(ours))]);
}

#[test]
fn a_member_that_its_coordinator_does_not_know_is_a_group_of_its_own() {
    let theirs = group(3, 2);
    let mut member = One::following(1, theirs);
    assert_eq!(member.hear(3, NotHere(group(3, 1))), [], "that is over");
    assert_eq!(member.0.coordinator(), Some(NodeId(3)));
    assert!(member.hear(3, NotHere(theirs)).contains(&Seen::Elected(1)));
    assert_eq!((member.0.coordinator(), member.0.group()), (Some(NodeId(1)), Some(group(1, 1))));
}

//! Random scripts for every algorithm: no step panics, and a script that is written can be read
//! again.

use mutua_algorithms::{NodeId, Timer, registry};
use mutua_lab::{
    Script, Which, diagram,
    script::{Command, Failure, Item, Outcome, System},
};
use proptest::{collection::vec, prelude::*};

const PROCESSES: u32 = 4;

fn node() -> impl Strategy<Value = NodeId> {
    (0..PROCESSES).prop_map(NodeId)
}

fn which() -> impl Strategy<Value = Which> {
    let kind = prop_oneof![
        4 => Just(None),
        1 => prop_oneof!["request", "reply", "token", "app"].prop_map(Some)
    ];
    (kind, 1..3usize).prop_map(|(kind, nth)| Which { kind, nth })
}

fn command() -> impl Strategy<Value = Command> {
    let timer = prop_oneof![Just(Timer::Answer), Just(Timer::Announcement), Just(Timer::Look)];
    prop_oneof![
        3 => node().prop_map(Command::Request),
        2 => node().prop_map(Command::Exit),
        1 => (node(), node()).prop_map(|(from, to)| Command::AppSend(from, to)),
        1 => (node(), 0..100u64).prop_map(|(who, time)| Command::Clock(who, time)),
        6 => (node(), node(), which())
            .prop_map(|(from, to, which)| Command::Deliver { from, to, which }),
        2 => Just(Command::DeliverEvery { kind: None, from: None, to: None }),
        1 => Just(Command::DeliverAll),
        1 => (node(), node(), which())
            .prop_map(|(from, to, which)| Command::Lose { from, to, which }),
        1 => (node(), node(), which())
            .prop_map(|(from, to, which)| Command::Duplicate { from, to, which }),
        1 => node().prop_map(Command::Crash),
        2 => node().prop_map(Command::Restart),
        1 => (node(), node()).prop_map(|(of, to)| Command::Report { of, to }),
        2 => node().prop_map(Command::Start),
        3 => (node(), timer).prop_map(|(who, timer)| Command::Timeout(who, timer)),
        1 => vec(node(), 1..3).prop_map(Command::Move),
        1 => Just(Command::MoveAll),
    ]
}

/// Plays the steps that can be taken; those that are refused are left out.
fn play_what_goes(algorithm: &str, commands: &[Command]) -> Script {
    let names = (1..=PROCESSES).map(|number| format!("P{number}")).collect();
    let mut script = Script::new("any", System::new(algorithm, names), []);
    for command in commands {
        let line = mutua_lab::script::Line { number: 0, item: Item::Command(command.clone()) };
        script.lines.push(line);
        let played = script.play().expect("the system starts");
        let refused = |moment: &mutua_lab::script::Moment| {
            matches!(moment.outcome, Outcome::Failed(Failure::Refused(_)))
        };
        if played.moments.iter().any(refused) {
            script.lines.pop();
        }
    }
    script
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_step_panics_and_a_written_script_can_be_read(commands in vec(command(), 0..60)) {
        for about in registry::ALGORITHMS {
            let script = play_what_goes(about.name, &commands);
            let played = script.play().expect("it was played before");
            prop_assert!(diagram::svg(&played.header, &played.events).ends_with("</svg>\n"));
            let again = Script::parse("any", &script.text()).expect("it is a script");
            prop_assert_eq!(again.text(), script.text());
            prop_assert_eq!(again.play().expect("it starts").events, played.events);
        }
    }
}

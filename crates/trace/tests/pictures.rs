//! Space-time pictures: everything of a trace is in them, whatever it contains.

use mutua_algorithms::{NodeId, Time};
use mutua_trace::{
    EXAMPLES, Event, FORMAT, Header, Message, Unit, Values, What, describe, diagram, script::Played,
};

fn played(name: &str) -> Played {
    let example = EXAMPLES.iter().find(|example| example.name == name).unwrap();
    example.script().unwrap().play().unwrap()
}

fn picture(name: &str) -> String {
    let played = played(name);
    diagram::svg(&played.header, &played.events)
}

/// How often a piece of text is in the picture.
fn count(svg: &str, piece: &str) -> usize {
    svg.matches(piece).count()
}

/// Whether every element that is opened is closed, in order.
fn is_well_formed(svg: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for tag in svg.split('<').skip(1) {
        let Some((tag, text)) = tag.split_once('>') else { return false };
        if text.contains('"') && !text.contains("sans-serif") {
            return false;
        }
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or("");
        if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    open.is_empty()
}

#[test]
fn every_example_has_a_picture_of_itself_and_nothing_else() {
    for example in EXAMPLES {
        let played = example.script().unwrap().play().unwrap();
        let svg = diagram::svg(&played.header, &played.events);
        assert!(is_well_formed(&svg), "{}", example.name);
        assert!(!svg.contains("<script") && !svg.contains("href"), "{}", example.name);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", example.name);
        let received =
            |event: &&Event| matches!(event.what, What::Receive { .. } | What::Heard { .. });
        let arrivals = played.events.iter().filter(received).count();
        assert_eq!(count(&svg, "<polygon"), arrivals, "{}: an arrow head each", example.name);
        let entries =
            played.events.iter().filter(|event| matches!(event.what, What::Enter { .. })).count();
        assert!(count(&svg, "<rect class=\"inside\"") >= entries, "{}", example.name);
    }
}

#[test]
fn what_goes_wrong_is_marked() {
    let unsafe_ = picture("bakery-naive/both-read-zero");
    assert!(unsafe_.contains("safety violated by 0: 1 is inside too"));
    // Both bars, and the sign in the legend.
    assert_eq!(count(&unsafe_, "class=\"clash\""), 3);
    let unordered = picture("central/not-in-order");
    assert!(unordered.contains("ordering violated by P2"));
    let crashed = picture("bully/two-crashes");
    assert_eq!(count(&crashed, "class=\"gone\""), 2);
    assert_eq!(count(&crashed, "<path class=\"message lost\""), 7);
    let lazy = picture("le-lann/not-in-order");
    assert_eq!(count(&lazy, "<polygon class=\"head lazy\""), 1);
}

fn message(id: u64, kind: &str) -> Message {
    Message { id, kind: kind.to_owned().into(), fields: Values::default() }
}

#[test]
fn names_are_text_whatever_they_are() {
    let header = Header {
        format: FORMAT,
        algorithm: "<b>".to_owned(),
        settings: Values::default(),
        processes: vec!["<script>\"&'".to_owned(), "\u{7}".to_owned()],
        unit: Unit::Step,
        title: String::new(),
    };
    let to = NodeId(1);
    let events = [
        Event::new(1, NodeId(0), What::Send { to, message: message(1, "a<b"), lazy: false }),
        Event::new(2, to, What::Receive { from: NodeId(0), message: message(1, "a<b") }),
    ];
    let svg = diagram::svg(&header, &events);
    assert!(is_well_formed(&svg), "{svg}");
    assert!(svg.contains("&lt;script&gt;&quot;&amp;'") && svg.contains("a&lt;b"));
}

#[test]
fn clocks_of_views_are_short_and_explained() {
    let (view, count) = (3, 17);
    let long = Time::new(view, count).number();
    let mut header = played("ricart-agrawala/chain-of-three").header;
    header.unit = Unit::Nanoseconds;
    let mut request = Event::new(1, NodeId(0), What::Request);
    request.clock = Some(long);
    let enter = Event::new(1_000, NodeId(0), What::Enter { fence: long });
    let events = [request, enter, Event::new(2_000, NodeId(0), What::Exit)];
    let svg = diagram::svg(&header, &events);
    assert!(svg.contains(">3.17<") && svg.contains(">fence 3.17<"), "{svg}");
    assert!(svg.contains("v * 2^40 + n") && !svg.contains(&format!("fence {long}<")), "{svg}");
    assert!(describe::trace(&header, &events).contains("clock 3.17"));
    assert!(!picture("ricart-agrawala/chain-of-three").contains("2^40"));
}

/// Thousands of messages, as a simulator writes them, some of them lost sight of.
#[test]
fn a_long_trace_is_cut_and_says_so() {
    let header = Header {
        format: FORMAT,
        algorithm: "long".to_owned(),
        settings: Values::default(),
        processes: (0..20).map(|number| format!("P{number}")).collect(),
        unit: Unit::Nanoseconds,
        title: String::new(),
    };
    let mut events = Vec::new();
    for id in 0..10_000_u64 {
        let (from, to) = (NodeId((id % 20) as u32), NodeId(((id * 7 + 1) % 20) as u32));
        let at = id * 1_000_000;
        events.push(Event::new(
            at,
            from,
            What::Send { to, message: message(id, "m"), lazy: false },
        ));
        if id >= 3 {
            let sent = id - 3;
            let (from, to) = (NodeId((sent % 20) as u32), NodeId(((sent * 7 + 1) % 20) as u32));
            events.push(Event::new(at, to, What::Receive { from, message: message(sent, "m") }));
        }
    }
    let svg = diagram::svg(&header, &events);
    assert!(is_well_formed(&svg));
    assert!(svg.contains("the last 16997 events are left out"));
    let nothing = diagram::svg(&header, &[]);
    assert!(is_well_formed(&nothing));
}

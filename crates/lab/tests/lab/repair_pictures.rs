//! The pictures of repairs: everything that happens is seen, and every sign is explained.

use mutua_algorithms::NodeId;
use mutua_lab::{
    EXAMPLES, Script,
    diagram::{self, Drawing},
};
use mutua_trace::{Event, Header, What};

/// The picture of an example as `mutua replay` draws it, and its header.
fn drawn(name: &str) -> (Header, String) {
    let example = EXAMPLES.iter().find(|example| example.name == name).unwrap();
    let script = example.script().unwrap();
    let played = script.play().unwrap();
    let drawing = Drawing { captions: true, ..script.drawing(&played) };
    let svg = diagram::draw(&played.header, &played.events, &drawing);
    (played.header, svg)
}

/// The examples with a repair.
fn repaired() -> impl Iterator<Item = &'static str> {
    let repaired = EXAMPLES.iter().filter(|example| example.text.contains("\nrepair "));
    repaired.map(|example| example.name)
}

#[test]
fn a_process_that_crashes_as_it_enters_is_seen_in_the_critical_section() {
    let (header, _) = drawn("lamport/taken-out");
    let crashed = NodeId(0);
    let events = [
        Event::new(1, crashed, What::Request),
        Event::new(5, crashed, What::Enter { fencing_token: 5 }),
        Event::new(5, crashed, What::Crash),
        Event::new(9, NodeId(1), What::Request),
    ];
    let svg = diagram::svg(&header, &events);
    let bar = svg.lines().find(|line| line.starts_with("<rect class=\"in-cs\"")).unwrap();
    let width = bar.split("width=\"").nth(1).unwrap().split('"').next().unwrap();
    let width: f64 = width.parse().unwrap();
    assert!(width > 20.0, "the cross of the crash hides {bar}");
    // Nothing is seen of it after the crash.
    let left: f64 = bar.split(" x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    let down = svg.lines().find(|line| line.starts_with("<rect class=\"down\"")).unwrap();
    let crash: f64 =
        down.split(" x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    assert!((left + width - crash).abs() < 0.2, "{bar} {down}");
    // The line of the crashed process does not cover it.
    assert!(svg.find("class=\"down\"") < svg.find("<rect class=\"in-cs\""), "{svg}");
}

/// A label with names and numbers left out, as the legend explains it; none for a clock.
fn word(header: &Header, label: &str) -> Option<String> {
    if label.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let is_name = |word: &str| header.processes.iter().any(|name| name == word);
    let general = |word| if is_name(word) { "P" } else { word };
    let words: Vec<_> = label.split(' ').map(general).collect();
    match words.as_slice() {
        ["which", "is", "up"] => None,
        ["view", _] => Some("view n".to_owned()),
        [_, "timed", "out"] => Some("x timed out".to_owned()),
        words => Some(words.join(" ")),
    }
}

#[test]
fn every_word_in_a_picture_of_a_repair_is_in_its_legend() {
    let mut explained = 0;
    for name in repaired() {
        let (header, svg) = drawn(name);
        let legend = svg.find("<g transform").unwrap();
        let text =
            |line: &str| line.split('>').nth(1).unwrap().split('<').next().map(str::to_owned);
        let marks = svg[..legend].lines().filter(|line| line.starts_with("<text class=\"mark\""));
        for label in marks.filter_map(text) {
            for word in label.split(", ").filter_map(|piece| word(&header, piece)) {
                assert!(svg[legend..].contains(&format!(">{word}<")), "{name}: {word}");
                explained += 1;
            }
        }
        assert!(svg[legend..].contains(">event (hover to read)<"), "{name}");
    }
    assert!(explained > 50, "{explained}");
}

#[test]
fn a_message_to_a_crashed_process_is_explained() {
    let why = "lost: its receiver has crashed";
    assert!(drawn("raymond/hung-again").1.contains(why));
    let (_, lost) = drawn("le-lann/ring-closes");
    assert!(lost.contains(why));
    assert!(!drawn("bully/bounds-violated").1.contains(why));
}

#[test]
fn a_violated_agreement_is_red_and_names_both_processes() {
    let head = "processes P0 P1 P2\n";
    for (script, why) in [
        (
            "algorithm central\nwith coordinator=member\nrepair generic bully\nreport P0 to P2\n\
             report P1 to P2\nexpect agreement violated\n",
            "agreement violated at P2: P0 is a coordinator too<",
        ),
        (
            "algorithm le-lann\nrepair special bully\nP0 requests\ntimeout P0 acknowledgement\n\
             deliver token P0 -> P2\ntimeout P2 acknowledgement\ndeliver token P2 -> P0\n\
             expect agreement violated\n",
            "agreement violated at P0: P2 has a token too<",
        ),
    ] {
        let (first, rest) = script.split_once('\n').unwrap();
        let script = Script::parse("two", &format!("{first}\n{head}{rest}")).unwrap();
        let played = script.play().unwrap();
        assert!(played.failures().is_empty(), "{:?}", played.failures());
        let svg = diagram::draw(&played.header, &played.events, &script.drawing(&played));
        assert!(svg.contains(why), "{svg}");
    }
}

#[test]
fn a_tree_is_shown_before_and_after_it_is_hung_again() {
    let (_, svg) = drawn("raymond/hung-again");
    let trees = svg.find("the tree in each view").unwrap();
    let first = trees + svg[trees..].find(">view 0<").unwrap();
    let second = trees + svg[trees..].find(">view 1<").unwrap();
    let boxes = |svg: &str| svg.matches("rx=\"10\"").count();
    assert_eq!((boxes(&svg[first..second]), boxes(&svg[second..])), (4, 3));
    // Without a repair there is one tree.
    assert!(drawn("raymond/line").1.contains("the tree, its root at the start in yellow"));
}

#[test]
fn every_repair_has_captions() {
    for name in repaired() {
        let example = EXAMPLES.iter().find(|example| example.name == name).unwrap();
        let script = example.script().unwrap();
        let played = script.play().unwrap();
        let remarks = script.drawing(&played).remarks;
        assert!(remarks.len() >= 2, "{name} has {} captions", remarks.len());
    }
}

/// A label left of its event seems to tell what happened before it.
#[test]
fn labels_of_a_repair_stand_right_of_their_events() {
    for name in repaired() {
        let (_, svg) = drawn(name);
        let mut event = None;
        let number = |line: &str, key: &str| -> Option<f64> {
            line.split(&format!(" {key}=\"")).nth(1)?.split('"').next()?.parse().ok()
        };
        for line in svg.lines().take_while(|line| !line.contains("<g transform")) {
            if line.starts_with("<circle class=\"event\"") {
                event = number(line, "cx");
            } else if line.starts_with("<circle class=\"request\"") {
                event = None;
            } else if line.starts_with("<text class=\"mark\"")
                && let Some(event) = event
            {
                assert!(number(line, "x") > Some(event), "{name}: {line}");
            }
        }
    }
}

/// The labels of events and of bundles that cover each other in a picture.
fn covered(svg: &str) -> Vec<(String, String)> {
    let number = |line: &str, key: &str| -> f64 {
        let (_, rest) = line.split_once(&format!(" {key}=\"")).expect("a place");
        rest.split('"').next().and_then(|text| text.parse().ok()).expect("a number")
    };
    let is_label = |line: &&str| {
        line.starts_with("<text class=\"mark\"") || line.starts_with("<text class=\"bundle\"")
    };
    let labels = svg.lines().filter(is_label).map(|line| {
        let text = line.split('>').nth(1).and_then(|text| text.split('<').next());
        (number(line, "x"), number(line, "y"), text.unwrap_or_default())
    });
    let labels: Vec<_> = labels.collect();
    let ends = |&(x, _, text): &(f64, f64, &str)| x + 6.9 * text.chars().count() as f64;
    let mut covered = Vec::new();
    for (place, one) in labels.iter().enumerate() {
        for other in &labels[..place] {
            let in_a_line = (one.1 - other.1).abs() < 10.0;
            if in_a_line && one.0 < ends(other) && other.0 < ends(one) {
                covered.push((other.2.to_owned(), one.2.to_owned()));
            }
        }
    }
    covered
}

#[test]
fn labels_of_a_repair_do_not_cover_each_other() {
    for name in repaired() {
        let (_, svg) = drawn(name);
        assert_eq!(covered(&svg), [], "{name}");
    }
    // Between two events of a process at one time the trace may have events of others, and a
    // request follows, whose clock stands on its left.
    let (header, _) = drawn("lamport/taken-out");
    let (one, other) = (NodeId(0), NodeId(1));
    let report = || What::Report { of: NodeId(2), crashed: true };
    let request = |at| Event { clock: Some(123), ..Event::new(at, one, What::Request) };
    let events = [
        Event::new(1, NodeId(2), What::Crash),
        Event::new(5, one, report()),
        Event::new(5, other, report()),
        Event::new(5, one, What::Exit),
        request(6),
    ];
    let svg = diagram::svg(&header, &events);
    assert!(svg.contains("crashed</text>") && svg.contains(">123</text>"), "{svg}");
    assert_eq!(covered(&svg), []);
    // Two long labels, one right of its event and one left.
    let note = |at, text: &str| Event::new(at, one, What::Note { text: text.to_owned().into() });
    let (long, longer) = ("a note that is long", "a note before a request");
    let svg = diagram::svg(&header, &[note(5, long), note(6, longer), request(6)]);
    assert!(svg.contains(long) && svg.contains(longer), "{svg}");
    assert_eq!(covered(&svg), []);
}

#[test]
fn labels_of_bundles_do_not_cover_each_other() {
    let names = (0..6).map(|n| format!("P{n}")).collect();
    let (mut header, _) = drawn("lamport/taken-out");
    header.processes = names;
    let all = || (0..6).map(NodeId);
    let sent_by = |who: NodeId, at: u64| {
        let kind = "are-you-coordinator".into();
        let message = mutua_trace::Message { id: at * 10, kind, fields: Default::default() };
        let to = all().filter(|&to| to != who).collect();
        Event::new(at, who, What::Multicast { to, message })
    };
    let events: Vec<_> =
        [5, 6].into_iter().flat_map(|at| all().map(move |who| (who, at))).collect();
    let events: Vec<_> = events.into_iter().map(|(who, at)| sent_by(who, at)).collect();
    let svg = diagram::svg(&header, &events);
    assert_eq!(svg.matches("class=\"bundle\"").count(), 2, "{svg}");
    assert_eq!(covered(&svg), []);
}

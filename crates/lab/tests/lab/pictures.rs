//! Space-time diagrams contain every event of a trace and escape every text.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use mutua_algorithms::{NodeId, Time};
use mutua_lab::{
    EXAMPLES,
    diagram::{self, Drawing},
    script::Played,
};
use mutua_trace::{Event, FORMAT, Header, Message, Unit, Values, What, describe};

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
fn every_example_has_a_self_contained_picture() {
    for example in EXAMPLES {
        let played = example.script().unwrap().play().unwrap();
        let svg = diagram::svg(&played.header, &played.events);
        assert!(is_well_formed(&svg), "{}", example.name);
        assert!(!svg.contains("<script") && !svg.contains("href"), "{}", example.name);
        // What only browsers know would be lost elsewhere, and labels with it.
        for css in ["<style", "style=", "paint-order", "100%"] {
            assert!(!svg.contains(css), "{}: {css}", example.name);
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", example.name);
        let received =
            |event: &&Event| matches!(event.what, What::Receive { .. } | What::Observed { .. });
        let arrivals = played.events.iter().filter(received).count();
        assert_eq!(count(&svg, "<polygon"), arrivals, "{}: an arrow head each", example.name);
        let entries =
            played.events.iter().filter(|event| matches!(event.what, What::Enter { .. })).count();
        assert!(count(&svg, "<rect class=\"in-cs\"") >= entries, "{}", example.name);
    }
}

#[test]
fn violations_crashes_and_losses_are_marked() {
    let unsafe_ = picture("bakery-naive/both-read-zero");
    assert!(unsafe_.contains("mutual-exclusion violated at 0: 1 is in the critical section too"));
    // Both bars, and the sign in the legend.
    assert_eq!(count(&unsafe_, "class=\"clash\""), 3);
    assert!(unsafe_.contains("class=\"violated\" fill=\"#c0392b\""));
    let unordered = picture("central/not-in-order");
    assert!(unordered.contains("ordering violated at P2"));
    let crashed = picture("bully/two-crashes");
    // Two lines, and the sign in the legend.
    assert_eq!(count(&crashed, "class=\"gone\""), 3);
    assert_eq!(count(&crashed, "<path class=\"message lost\""), 7);
    let lazy = picture("le-lann/not-in-order");
    assert_eq!(count(&lazy, "<polygon class=\"head lazy\""), 1);
}

#[test]
fn a_wrong_suspicion_is_not_drawn_as_a_crash() {
    let wrong = picture("suzuki-kasami/partition-bully");
    assert!(wrong.contains("suspects P2, which is up"));
    let marks = wrong.lines().filter(|line| line.starts_with("<text class=\"mark\""));
    assert!(!marks.into_iter().any(|mark| mark.contains("crashed")), "no process crashes");
    let right = picture("suzuki-kasami/token-lost");
    assert!(right.contains("P0 crashed, suspended"));
    assert!(!right.contains("suspects"));
}

#[test]
fn a_token_is_shown_where_it_is_before_it_is_lost() {
    for (name, spans) in [
        // At P0, which crashes with it; then at P2, which gets the new one, and at P3.
        ("suzuki-kasami/token-lost", 3),
        // At P3, which stays in the critical section while the algorithm is suspended; at P2,
        // which passes it on; and at P0.
        ("raymond/hung-again", 3),
        // At P0, in the critical section also in the view of its side; and at P3.
        ("suzuki-kasami/partition-bully", 2),
    ] {
        let played = played(name);
        // In one row, so that no line is cut in two.
        let drawing = Drawing { width: 100_000.0, ..Drawing::default() };
        let svg = diagram::draw(&played.header, &played.events, &drawing);
        let lines = count(&svg, "<rect class=\"token\"");
        // One of them is the sign in the legend.
        assert_eq!(lines - 1, spans, "{name}");
    }
}

#[test]
fn captions_fit_the_picture() {
    let played = played("le-lann/short-timeout");
    let caption = "word ".repeat(40);
    let drawing = Drawing { caption: caption.trim().to_owned(), ..Drawing::default() };
    let svg = diagram::draw(&played.header, &played.events, &drawing);
    let width = svg.split("viewBox=\"0 0 ").nth(1).and_then(|rest| rest.split(' ').next());
    let width: f64 = width.and_then(|width| width.parse().ok()).expect("a width");
    assert!(width > 109.0 * 6.0, "{width}: a line has up to 109 letters");
}

fn message(id: u64, kind: &str) -> Message {
    Message { id, kind: kind.to_owned().into(), fields: Values::default() }
}

/// Compares a picture in the docs with the one that is drawn now. `MUTUA_REWRITE_SCRIPTS=1 cargo
/// test -p mutua-lab pictures` writes it again; look at it.
fn is_up_to_date(name: &str, svg: &str) {
    let path = docs().join("pictures").join(name);
    if env::var_os("MUTUA_REWRITE_SCRIPTS").is_some() {
        fs::write(&path, svg).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == svg, "docs/pictures/{name} is out of date");
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn the_picture_in_the_readme_is_up_to_date() {
    is_up_to_date("chain-of-three.svg", &picture("ricart-agrawala/chain-of-three"));
}

/// A worked example of each algorithm that fits a slide, and the variables that its picture shows.
const LECTURE: [(&str, &str); 20] = [
    ("central/queue", "current,queue"),
    ("le-lann/round", ""),
    ("lamport/replies-counted", ""),
    ("ricart-agrawala/chain-of-three", ""),
    ("carvalho-roucairol/late-request", ""),
    ("suzuki-kasami/scan-first", ""),
    ("ricart-agrawala-token/round", ""),
    ("raymond/line", "HOLDER,queue"),
    ("maekawa-basic/plane-deadlock", ""),
    ("maekawa/two-by-two", "candidate"),
    ("majority/two-of-four", ""),
    ("sanders/as-central", ""),
    ("bakery-naive/both-read-zero", ""),
    ("bakery/both-read-zero", ""),
    ("dijkstra/from-zeros", ""),
    ("naimi-trehel/path-reversal", "father,next"),
    ("neilsen-mizuno/line", ""),
    ("chang-roberts/worst-case", ""),
    ("bully/coordinator-crashed", ""),
    ("invitation/partition", ""),
];

#[test]
fn the_pictures_of_the_algorithms_are_up_to_date_and_fit_a_slide() {
    let page = fs::read_to_string(docs().join("diagrams.md")).unwrap();
    for (name, variables) in LECTURE {
        let example = EXAMPLES.iter().find(|example| example.name == name).unwrap();
        let script = example.script().unwrap();
        let played = script.play().unwrap();
        let drawing = Drawing {
            captions: true,
            variables: variables.split_terminator(',').map(str::to_owned).collect(),
            ..script.drawing(&played)
        };
        let svg = diagram::draw(&played.header, &played.events, &drawing);
        let file = format!("lecture/{}.svg", script.system.algorithm);
        is_up_to_date(&file, &svg);
        let options = if variables.is_empty() { "" } else { " --variables " };
        let shown = format!("![{name}](pictures/{file})");
        let row = format!("| `{name} --captions{options}{variables}` | {shown} |");
        assert!(page.contains(&row), "{row}");
        let size = |key: &str| -> f64 {
            let value = svg.split(&format!("{key}=\"")).nth(1).unwrap();
            value.split('"').next().unwrap().parse().unwrap()
        };
        assert!(size("width") <= 1920.0 && size("height") <= 1080.0, "{name}");
    }
}

#[test]
fn remarks_are_written_below_a_picture_with_their_steps() {
    let example = EXAMPLES.iter().find(|example| example.name == "central/queue").unwrap();
    let script = example.script().unwrap();
    let played = script.play().unwrap();
    let drawn = |captions, steps| {
        let drawing = Drawing { captions, steps, ..script.drawing(&played) };
        diagram::draw(&played.header, &played.events, &drawing)
    };
    let all = drawn(true, None);
    for words in [">1-3<", ">4-5<", ">6-10<", ">1c: P1 exits, and P2 enters.<"] {
        assert!(all.contains(words), "{words}");
    }
    let some = drawn(true, Some((2, 4)));
    assert!(some.contains(">2-3<") && some.contains(">4<") && !some.contains("1c: P1"));
    assert!(!drawn(false, None).contains("1c: P1 exits"));
}

#[test]
fn the_clock_of_a_request_is_explained_where_all_wait_for_ever() {
    let explained = "since a request with this clock";
    for name in ["majority/two-of-four", "maekawa-basic/plane-deadlock", "central/queue"] {
        let example = EXAMPLES.iter().find(|example| example.name == name).unwrap();
        let script = example.script().unwrap();
        let played = script.play().unwrap();
        let svg = diagram::draw(&played.header, &played.events, &script.drawing(&played));
        assert_eq!(count(&svg, explained), 1, "{name}");
    }
}

#[test]
fn names_are_escaped() {
    let header = Header {
        format: FORMAT,
        algorithm: "<b>".to_owned(),
        settings: Values::default(),
        processes: vec!["<script>\"&'".to_owned(), "\u{7}".to_owned()],
        sections: 1,
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
    let enter = Event::new(1_000, NodeId(0), What::Enter { fencing_token: long });
    let events = [request, enter, Event::new(2_000, NodeId(0), What::Exit)];
    let svg = diagram::svg(&header, &events);
    assert!(svg.contains(">3.17<") && svg.contains(">fencing token 3.17<"), "{svg}");
    assert!(
        svg.contains("v * 2^40 + n") && !svg.contains(&format!("fencing token {long}<")),
        "{svg}"
    );
    assert!(describe::trace(&header, &events).contains("clock 3.17"));
    assert!(!picture("ricart-agrawala/chain-of-three").contains("2^40"));
}

/// Thousands of messages, as a simulator writes them, some of which never arrive.
#[test]
fn a_long_trace_is_cut_and_says_so() {
    let header = Header {
        format: FORMAT,
        algorithm: "long".to_owned(),
        settings: Values::default(),
        processes: (0..20).map(|number| format!("P{number}")).collect(),
        sections: 1,
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

/// The texts of the legend.
fn legend(svg: &str) -> Vec<&str> {
    let entries = svg.split("<g transform").skip(1);
    entries.filter_map(|entry| entry.split("x=\"24\">").nth(1)?.split('<').next()).collect()
}

#[test]
fn each_kind_of_message_has_its_colour_and_a_line_in_the_legend() {
    let svg = picture("lamport/replies-counted");
    let kinds = ["request", "reply", "release"];
    assert_eq!(legend(&svg)[..3], kinds);
    let mut colours = Vec::new();
    for kind in kinds {
        // The colour of the first label of this kind.
        let label = svg
            .lines()
            .find(|line| line.contains("class=\"label") && line.contains(&format!(">{kind}")));
        let colour = label.unwrap().split("fill=\"").nth(1).unwrap()[..7].to_owned();
        assert!(!colours.contains(&colour), "{kind} {colour}");
        colours.push(colour);
    }
}

#[test]
fn the_token_is_marked_on_its_way_and_at_its_process() {
    let svg = picture("naimi-trehel/path-reversal");
    // Three hand-overs, and the sign in the legend; four processes have it in turn.
    assert_eq!(count(&svg, "<circle class=\"token\""), 3 + 1);
    assert_eq!(count(&svg, "<rect class=\"token\""), 4 + 1);
    assert!(legend(&svg).contains(&"token: on its way, and at a process"));
    assert_eq!(count(&picture("lamport/replies-counted"), "class=\"token\""), 0);
}

#[test]
fn a_deadlock_is_red_and_names_its_cycle() {
    for (name, sentence, stuck) in [
        (
            "maekawa-basic/plane-deadlock",
            "deadlock: 1 waits for 2, which waits for 3, which waits for 1 (at 4)",
            3,
        ),
        (
            "maekawa-basic/grid-deadlock",
            "deadlock: 3 waits for 23 (at 21), which waits for 3 (at 5)",
            // Two processes in two rows of the picture.
            4,
        ),
    ] {
        let example = EXAMPLES.iter().find(|example| example.name == name).unwrap();
        let script = example.script().unwrap();
        let played = script.play().unwrap();
        let svg = diagram::draw(&played.header, &played.events, &script.drawing(&played));
        assert_eq!(played.deadlock.map(|deadlock| deadlock.sentence).as_deref(), Some(sentence));
        assert!(svg.contains(sentence) && is_well_formed(&svg), "{name}");
        // The sign in the legend too.
        assert_eq!(count(&svg, "<rect class=\"stuck\""), stuck + 1, "{name}");
    }
    let fine = played("ricart-agrawala/chain-of-three");
    assert_eq!(fine.deadlock, None);
}

#[test]
fn a_crashed_process_is_the_reason_of_a_deadlock() {
    let sentence = |text: &str| {
        let played = mutua_lab::Script::parse("crash", text).unwrap().play().unwrap();
        played.deadlock.map(|deadlock| deadlock.sentence)
    };
    let asked = "algorithm ricart-agrawala\nprocesses A B\ncrash B\nA requests\ndeliver all\n";
    assert_eq!(sentence(asked).as_deref(), Some("deadlock: A waits for B, which has crashed"));
    // The coordinator C has granted A, which does not return it.
    let head = "algorithm central\nprocesses A B C\n";
    let held = format!("{head}A requests\ndeliver all\ncrash A\nB requests\ndeliver all\n");
    let found = sentence(&held);
    assert_eq!(found.as_deref(), Some("deadlock: B waits for A (at C), which has crashed"));
    // Only the token of a token algorithm is lost with a process.
    let crashed = "algorithm naimi-trehel\nprocesses A B\nB requests\ncrash A\ndeliver B -> A\n";
    assert_eq!(
        sentence(crashed).as_deref(),
        Some(
            "deadlock: B waits, and no message is in flight; the token was lost with the crash of A"
        )
    );
    let dropped = "algorithm le-lann\nprocesses A B\nA requests\nlose A -> B\n";
    assert_eq!(
        sentence(dropped).as_deref(),
        Some("deadlock: A waits for B; the token from A to B was dropped")
    );
    let request = "algorithm suzuki-kasami\nprocesses A B\nB requests\nlose B -> A\n";
    assert_eq!(
        sentence(request).as_deref(),
        Some(
            "deadlock: B waits, and no message is in flight; the message request from B to A was \
             dropped"
        )
    );
    let idle = format!("{head}crash A\nB requests\ndeliver all\n");
    assert_eq!(sentence(&idle), None);
}

#[test]
fn only_the_steps_that_are_asked_for_are_drawn() {
    let played = played("ricart-agrawala/chain-of-three");
    let draw = |steps| {
        let drawing = Drawing { steps: Some(steps), ..Drawing::default() };
        diagram::draw(&played.header, &played.events, &drawing)
    };
    let svg = draw((5, 12));
    assert!(is_well_formed(&svg));
    let times = |svg: &str| count(svg, "class=\"time\"");
    assert_eq!(times(&svg), 8);
    let received =
        |event: &&Event| matches!(event.what, What::Receive { .. }) && (5..=12).contains(&event.at);
    assert_eq!(count(&svg, "<polygon"), played.events.iter().filter(received).count());
    // Two messages that were sent before are drawn from the left end on.
    assert_eq!(times(&draw((400, 500))), 0);
}

#[test]
fn a_wide_picture_continues_below() {
    let played = played("maekawa-basic/plane-deadlock");
    let draw = |width| {
        let drawing = Drawing { width, ..Drawing::default() };
        diagram::draw(&played.header, &played.events, &drawing)
    };
    let width = |svg: &str| -> f64 {
        svg.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    };
    let (whole, folded) = (draw(10_000.0), draw(800.0));
    assert!(width(&whole) > 1_000.0 && width(&folded) <= 824.0, "{}", width(&folded));
    assert!(is_well_formed(&folded));
    let names = |svg: &str| count(svg, "class=\"name\"");
    assert_eq!((names(&whole), names(&folded)), (7, 3 * 7));
    // A message over the end of a row has one head and one mark, as in the whole picture.
    for sign in ["<polygon", "class=\"event\"", "class=\"request\""] {
        assert_eq!(count(&whole, sign), count(&folded, sign), "{sign}");
    }
}

#[test]
fn time_is_to_scale_or_the_axis_says_that_it_is_not() {
    let mut header = played("ricart-agrawala/chain-of-three").header;
    header.unit = Unit::Nanoseconds;
    let to = NodeId(1);
    let mut events = Vec::new();
    for (id, at) in [(0, 1_000), (1, 101_000)] {
        let message = || message(id, "m");
        let send = What::Send { to, message: message(), lazy: false };
        events.push(Event::new(at, NodeId(0), send));
        let receive = What::Receive { from: NodeId(0), message: message() };
        events.push(Event::new(at + 1_000, to, receive));
    }
    let fitted = diagram::svg(&header, &events);
    assert!(legend(&fitted).iter().any(|text| text.contains("not to scale")), "{fitted}");
    // The wait of 99 us is marked as shorter.
    assert_eq!(count(&fitted, "m-2 4l4 -8m2 8l4 -8m-2 4H"), 1);
    let drawing = Drawing { linear: true, ..Drawing::default() };
    let linear = diagram::draw(&header, &events, &drawing);
    assert!(legend(&linear).contains(&"time is to scale"), "{linear}");
    let column = |svg: &str, number: usize| -> f64 {
        let tick = svg.split("class=\"tick\"").nth(1 + number).unwrap();
        tick.split("d=\"M").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    let ratio =
        (column(&linear, 3) - column(&linear, 0)) / (column(&linear, 1) - column(&linear, 0));
    assert!((ratio - 101.0).abs() < 2.0, "{ratio}");
}

#[test]
fn variables_are_written_where_they_change() {
    let played = played("naimi-trehel/path-reversal");
    let drawing = Drawing { variables: vec!["next".to_owned()], ..Drawing::default() };
    let svg = diagram::draw(&played.header, &played.events, &drawing);
    assert!(svg.contains(">next=P3<") && svg.contains(">next=P4<"), "{svg}");
    assert!(!diagram::svg(&played.header, &played.events).contains(">next="));
}

#[test]
fn the_page_with_the_slider_has_every_step_and_needs_no_other_file() {
    let example =
        EXAMPLES.iter().find(|example| example.name == "lamport/replies-counted").unwrap();
    let script = example.script().unwrap();
    let played = script.play().unwrap();
    let page = diagram::html(&played.header, &played.events, &script.drawing(&played));
    assert!(
        !page.contains("http:")
            || page.matches("http:").count() == page.matches("www.w3.org").count()
    );
    assert!(!page.contains(" src=") && !page.contains("href="));
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let last = played.events.last().unwrap().at;
    let steps = data["steps"].as_array().unwrap();
    assert_eq!(steps.len() as u64, last + 1);
    let remark = steps.iter().filter(|step| !step["captions"].as_array().unwrap().is_empty());
    assert!(remark.count() > 0, "the script's comments are in it");
    assert!(steps[1]["text"].as_str().unwrap().contains("requests"));
}

#[test]
fn the_tree_or_the_quorums_are_drawn_below() {
    let draw = |name: &str| {
        let example = EXAMPLES.iter().find(|example| example.name == name).unwrap();
        let script = example.script().unwrap();
        let played = script.play().unwrap();
        diagram::draw(&played.header, &played.events, &script.drawing(&played))
    };
    let tree = draw("raymond/five-nodes");
    assert!(tree.contains("the tree, its root at the start in yellow") && is_well_formed(&tree));
    assert_eq!(count(&tree, "class=\"box\""), 4, "all but the root");
    assert_eq!(count(&tree, "class=\"boxed\""), 5);
    let quorums = draw("maekawa/two-by-two");
    assert!(quorums.contains(">quorum of 1<") && quorums.contains(">quorum of 4<"));
    // Each of two quorums has the process itself, two others, and one process not in it.
    assert_eq!(count(&quorums, "class=\"member\""), 4);
    assert_eq!(count(&quorums, "class=\"box\""), 2);
    assert!(!draw("lamport/replies-counted").contains("class=\"box\""));
}

/// A token and a request that follow each other over the end of a row lie side by side.
#[test]
fn messages_with_the_same_ends_are_apart_where_they_are_cut_too() {
    let header = played("ricart-agrawala/chain-of-three").header;
    let mut events = Vec::new();
    for kind in ["token", "request"] {
        let id = u64::from(kind == "token");
        let send = What::Send { to: NodeId(1), message: message(id, kind), lazy: false };
        events.push(Event::new(1, NodeId(0), send));
    }
    for kind in ["token", "request"] {
        let id = u64::from(kind == "token");
        let receive = What::Receive { from: NodeId(0), message: message(id, kind) };
        events.push(Event::new(5, NodeId(1), receive));
    }
    let drawing = Drawing { steps: Some((2, 5)), ..Drawing::default() };
    let svg = diagram::draw(&header, &events, &drawing);
    let ways: Vec<_> = svg
        .lines()
        .filter(|line| line.contains("class=\"message"))
        .map(|line| line.split(" d=\"").nth(1).unwrap())
        .collect();
    assert_eq!(ways.len(), 2, "{svg}");
    assert_ne!(ways[0], ways[1]);
}

#[test]
fn all_rows_of_a_folded_picture_have_one_unit_of_time() {
    let played = played("central/queue");
    let header = Header { unit: Unit::Nanoseconds, ..played.header.clone() };
    let at = |step: u64| Event::new(step * 700_123, NodeId(0), What::Exit);
    let events: Vec<_> = (0..40).map(at).collect();
    let svg = diagram::draw(&header, &events, &Drawing { width: 900.0, ..Drawing::default() });
    assert!(count(&svg, ">P1</text>") > 1 || count(&svg, ">1</text>") > 1, "{svg}");
    // The first rows end before ten milliseconds.
    assert_eq!((count(&svg, ">us</text>"), count(&svg, ">ns</text>")), (0, 0), "{svg}");
    assert!(count(&svg, ">ms</text>") > 1 && svg.contains(">0</text>"), "{svg}");
}

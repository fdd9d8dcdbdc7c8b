//! A written trace is read back equal, and the error of an invalid one names its line.

use std::borrow::Cow;

use mutua_algorithms::{NodeId, Timer, Wait};
use mutua_trace::{Event, FORMAT, Header, Message, Reader, Unit, Values, What, Writer};
use proptest::{collection::vec, option, prelude::*};

const NAMES: [&str; 4] = ["P1", "zwei", "three words \"quoted\"", "\u{1F980}"];

fn header() -> impl Strategy<Value = Header> {
    let unit = prop_oneof![
        Just(Unit::Step),
        Just(Unit::Nanoseconds),
        Just(Unit::Microseconds),
        Just(Unit::Milliseconds)
    ];
    (".*", values(), unit, ".*").prop_map(|(algorithm, settings, unit, title)| Header {
        format: FORMAT,
        algorithm,
        settings,
        processes: NAMES.map(str::to_owned).to_vec(),
        sections: 1,
        unit,
        title,
    })
}

fn text() -> impl Strategy<Value = Cow<'static, str>> {
    any::<String>().prop_map(Cow::from)
}

/// Names are unique, since they are the members of a JSON object.
fn values() -> impl Strategy<Value = Values> {
    vec(any::<(String, String)>(), 0..4).prop_map(|mut pairs| {
        pairs.sort();
        pairs.dedup_by(|a, b| a.0 == b.0);
        Values(pairs.into_iter().rev().map(|(key, value)| (key.into(), value)).collect())
    })
}

fn node() -> impl Strategy<Value = NodeId> {
    (0..NAMES.len()).prop_map(NodeId::from)
}

fn message() -> impl Strategy<Value = Message> {
    (any::<u64>(), text(), values()).prop_map(|(id, kind, fields)| Message { id, kind, fields })
}

fn timer() -> impl Strategy<Value = Timer> {
    prop_oneof![Just(Timer::Answer), Just(Timer::Announcement), Just(Timer::Look)]
}

fn wait() -> impl Strategy<Value = Wait> {
    any::<(u32, u32)>().prop_map(|(transmissions, handlings)| Wait { transmissions, handlings })
}

fn handled() -> impl Strategy<Value = What> {
    prop_oneof![
        any::<bool>().prop_map(|in_cs| What::Start { in_cs }),
        Just(What::Request),
        Just(What::Exit),
        (node(), message()).prop_map(|(from, message)| What::Receive { from, message }),
        (node(), any::<u64>()).prop_map(|(from, id)| What::Observed { from, id }),
        Just(What::Move),
        Just(What::Election),
        timer().prop_map(|timer| What::Timeout { timer }),
        (node(), any::<bool>()).prop_map(|(of, crashed)| What::Report { of, crashed }),
        Just(What::Crash),
        Just(What::Restart),
    ]
}

fn done() -> impl Strategy<Value = What> {
    prop_oneof![
        (node(), message(), any::<bool>()).prop_map(|(to, message, lazy)| What::Send {
            to,
            message,
            lazy
        }),
        (vec(node(), 0..4), message()).prop_map(|(to, message)| What::Multicast { to, message }),
        (node(), any::<u64>()).prop_map(|(to, id)| What::AppSend { to, id }),
        any::<u64>().prop_map(|fencing_token| What::Enter { fencing_token }),
        node().prop_map(|coordinator| What::Elected { coordinator }),
        (timer(), wait()).prop_map(|(timer, after)| What::Timer { timer, after }),
        timer().prop_map(|timer| What::Cancel { timer }),
        (node(), text()).prop_map(|(from, why)| What::Nonsense { from, why }),
        (node(), message()).prop_map(|(to, message)| What::Drop { to, message }),
        (node(), message()).prop_map(|(to, message)| What::Duplicate { to, message }),
        (text(), text()).prop_map(|(property, why)| What::Violation { property, why }),
        text().prop_map(|text| What::Note { text }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    (any::<u64>(), node(), prop_oneof![handled(), done()], option::of(any::<u64>()), values())
        .prop_map(|(at, who, what, clock, state)| Event { at, who, what, clock, state })
}

proptest! {
    #[test]
    fn a_written_trace_is_read_back_equal(header in header(), mut events in vec(event(), 0..20)) {
        events.sort_by_key(|event| event.at);
        let mut writer = Writer::new(Vec::new(), header.clone()).unwrap();
        for event in &events {
            writer.write(event).unwrap();
        }
        let file = writer.finish().unwrap();
        let lines = file.iter().filter(|&&byte| byte == b'\n').count();
        prop_assert_eq!(lines, events.len() + 1, "a line each, whatever the texts contain");
        let (read_header, read) = Reader::new(file.as_slice()).unwrap().read_all().unwrap();
        prop_assert_eq!(read_header, header);
        prop_assert_eq!(read, events);
    }
}

#[test]
fn the_example_of_the_documentation_is_read_and_written_alike() {
    let docs = include_str!("../src/lib.rs");
    let example: String = docs
        .lines()
        .skip_while(|line| !line.ends_with("```json"))
        .skip(1)
        .take_while(|line| !line.ends_with("```"))
        .map(|line| format!("{}\n", line.strip_prefix("//! ").unwrap()))
        .collect();
    let (header, events) = Reader::new(example.as_bytes()).unwrap().read_all().unwrap();
    assert_eq!(events.len(), 7);
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    for event in &events {
        writer.write(event).unwrap();
    }
    assert_eq!(String::from_utf8(writer.finish().unwrap()).unwrap(), example);
}

#[test]
fn an_error_names_the_line_and_the_reason() {
    let header = r#"{"mutua-trace":1,"algorithm":"x","processes":["A","B"],"unit":"step"}"#;
    let fails = |trace: &str| match Reader::new(trace.as_bytes()) {
        Err(error) => error.to_string(),
        Ok(reader) => reader.read_all().unwrap_err().to_string(),
    };
    let after_header = |line: &str| fails(&format!("{header}\n\n{line}\n"));
    assert_eq!(fails(""), "the trace is empty; its first line must be a header");
    assert_eq!(fails("{}\n"), "line 1: invalid header of a trace: it has no member `mutua-trace`");
    assert_eq!(
        fails(&header.replace(":1,", ":2,")),
        "line 1: format 2; this program reads format 1"
    );
    assert_eq!(fails(&header.replace("\"B\"", "\"A\"")), "line 1: two processes are called `A`");
    assert_eq!(
        after_header(r#"{"at":1,"who":"C","what":"request"}"#),
        "line 3: the header names no process `C`; it names A, B"
    );
    assert!(
        after_header(r#"{"at":1,"who":"A","what":"jump"}"#)
            .starts_with("line 3: unknown variant `jump`, expected one of `start`, `request`"),
    );
    assert!(
        after_header(r#"{"at":1,"who":"A","what":"send","id":1,"kind":"reply"}"#)
            .starts_with("line 3: missing field `to`"),
    );
    assert!(
        after_header(r#"{"at":1,"who":"A","what":"timeout","timer":"tea"}"#)
            .starts_with("line 3: unknown timer `tea`; known: answer, announcement, look"),
    );
    assert_eq!(
        after_header(
            "{\"at\":2,\"who\":\"A\",\"what\":\"exit\"}\n{\"at\":1,\"who\":\"A\",\"what\":\"exit\"}"
        ),
        "line 4: at 1 after 2; time goes forward"
    );
}

#[test]
fn a_writer_refuses_an_event_that_no_reader_accepts() {
    let (header, _) = Reader::new(
        r#"{"mutua-trace":1,"algorithm":"x","processes":["A"],"unit":"step"}"#.as_bytes(),
    )
    .unwrap()
    .read_all()
    .unwrap();
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    writer.write(&Event::new(2, NodeId(0), What::Request)).unwrap();
    let late = writer.write(&Event::new(1, NodeId(0), What::Exit)).unwrap_err();
    assert_eq!(late.to_string(), "an event at 1 after one at 2; a trace goes forward in time");
    let nobody = writer.write(&Event::new(3, NodeId(1), What::Exit)).unwrap_err();
    assert_eq!(nobody.to_string(), "process 1 has no name in the header");
    let written = String::from_utf8(writer.finish().unwrap()).unwrap();
    assert_eq!(written.lines().count(), 2);
}

//! A trace as text for people.

use mutua_algorithms::{NodeId, Time, Wait};

use crate::{Event, Header, Message, What};

/// The whole trace, a paragraph of lines per step.
pub fn trace(header: &Header, events: &[Event]) -> String {
    let mut text = beginning(header, events);
    let steps = events.iter().position(|event| event.at > 0).unwrap_or(events.len());
    text += &these(header, &events[steps..]);
    text
}

/// Some events of a trace, without those at the beginning of time, a line each.
pub fn these(header: &Header, events: &[Event]) -> String {
    let mut text = String::new();
    let mut at = None;
    let mut subject = None;
    for event in events {
        let new_step = at != Some(event.at);
        if new_step || is_handled(&event.what) {
            let number = if new_step { event.at.to_string() } else { String::new() };
            text += &format!("{number:>3}  {}\n", head(header, event));
            subject = Some(event.who);
        } else {
            // What somebody else does in this step needs its name.
            let name = header.name(event.who);
            let who = if subject == Some(event.who) { String::new() } else { format!("{name} ") };
            text += &format!("       {who}{}{}\n", verb(header, &event.what), state(event));
        }
        at = Some(event.at);
    }
    text
}

/// How everything begins; processes that begin alike share a line.
fn beginning(header: &Header, events: &[Event]) -> String {
    let mut text = String::new();
    let first: Vec<_> = events.iter().take_while(|event| event.at == 0).collect();
    let mut index = 0;
    while index < first.len() {
        let event = first[index];
        if !is_handled(&event.what) {
            let who = header.name(event.who);
            text += &format!("       {who} {}{}\n", verb(header, &event.what), state(event));
            index += 1;
            continue;
        }
        let alike = first[index..]
            .iter()
            .take_while(|next| next.what == event.what && next.state == event.state);
        let names: Vec<_> = alike.map(|event| header.name(event.who)).collect();
        index += names.len();
        let mut verb = verb(header, &event.what);
        if names.len() > 1 {
            verb = verb.replacen("begins", "begin", 1);
        }
        text += &format!("  0  {} {verb}{}\n", shortened(&names), state(event));
    }
    text
}

/// A list of names that does not fill the screen.
pub fn shortened(names: &[String]) -> String {
    match names {
        [first, second, .., last] if names.len() > 12 => format!("{first}, {second}, ..., {last}"),
        names => names.join(", "),
    }
}

/// The first line of a step.
fn head(header: &Header, event: &Event) -> String {
    let clock = match (event.clock, is_handled(&event.what)) {
        (Some(clock), true) => format!(", clock {}", Time::from_number(clock)),
        _ => String::new(),
    };
    let who = header.name(event.who);
    format!("{who} {}{clock}{}", verb(header, &event.what), state(event))
}

fn state(event: &Event) -> String {
    if event.state.is_empty() { String::new() } else { format!(": {}", event.state) }
}

/// What a process did or what was done to it, without its name.
pub fn verb(header: &Header, what: &What) -> String {
    let name = |node: &NodeId| header.name(*node);
    match what {
        What::Start { in_cs: false } => "begins".to_owned(),
        What::Start { in_cs: true } => "begins in the critical section".to_owned(),
        What::Request => "requests".to_owned(),
        What::Exit => "exits".to_owned(),
        What::Receive { from, message } => format!("gets {} from {}", shown(message), name(from)),
        What::Observed { from, .. } => format!("gets an application message from {}", name(from)),
        What::Move => "moves".to_owned(),
        What::Election => "starts an election".to_owned(),
        What::Timeout { timer } => format!("waits no longer: timer {} runs out", timer.word()),
        What::Report { of, crashed: true } => {
            format!("gets the report that {} has crashed", name(of))
        }
        What::Report { of, crashed: false } => format!("gets the report that {} is up", name(of)),
        What::Crash => "crashes".to_owned(),
        What::Restart => "is back".to_owned(),
        What::Send { to, message, lazy } => {
            let lazily = if *lazy { ", lazily" } else { "" };
            format!("sends {} to {}{lazily}", shown(message), name(to))
        }
        What::Multicast { to, message } => {
            let to: Vec<_> = to.iter().map(name).collect();
            format!("sends {} to {}", shown(message), to.join(", "))
        }
        What::AppSend { to, .. } => format!("sends an application message to {}", name(to)),
        What::Enter { fencing_token } => {
            format!("enters, fencing token {}", Time::from_number(*fencing_token))
        }
        What::Elected { coordinator } => format!("takes {} for the coordinator", name(coordinator)),
        What::Timer { timer, after } => format!("sets timer {}: {}", timer.word(), wait(*after)),
        What::Cancel { timer } => format!("cancels timer {}", timer.word()),
        What::Nonsense { from, why } => format!("ignores what {} sent: {why}", name(from)),
        What::Drop { to, message } => format!("sent {} to {}: lost", shown(message), name(to)),
        What::Duplicate { to, message } => {
            format!("sent {} to {}: will arrive twice", shown(message), name(to))
        }
        What::Violation { property, why } => format!("VIOLATES {property}: {why}"),
        What::Note { text } => text.to_string(),
    }
}

/// A message with what it carries.
pub fn shown(message: &Message) -> String {
    if message.fields.is_empty() {
        return message.kind.to_string();
    }
    let fields = message.fields.iter().map(|(name, value)| {
        // `number(1)`, not `number(number=1)`.
        if name == message.kind { value.to_owned() } else { format!("{name}={value}") }
    });
    format!("{}({})", message.kind, fields.collect::<Vec<_>>().join(", "))
}

fn wait(after: Wait) -> String {
    format!("{} transmissions, {} handlings", after.transmissions, after.handlings)
}

/// Whether a process handles this event, rather than causing it.
pub fn is_handled(what: &What) -> bool {
    match what {
        What::Start { .. }
        | What::Request
        | What::Exit
        | What::Receive { .. }
        | What::Observed { .. }
        | What::Move
        | What::Election
        | What::Timeout { .. }
        | What::Report { .. }
        | What::Crash
        | What::Restart => true,
        What::Send { .. }
        | What::Multicast { .. }
        | What::AppSend { .. }
        | What::Enter { .. }
        | What::Elected { .. }
        | What::Timer { .. }
        | What::Cancel { .. }
        | What::Nonsense { .. }
        | What::Drop { .. }
        | What::Duplicate { .. }
        | What::Violation { .. }
        | What::Note { .. } => false,
    }
}

//! What was lost in a run, for want of which processes wait for ever.

use std::collections::BTreeSet;

use crate::{Event, Header, What, diagram};

/// The losses of a run, each as a part of a sentence.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Losses {
    /// How the token was lost, if no process has it any more.
    pub(super) token: Option<String>,
    /// The other messages.
    pub(super) messages: Vec<String>,
}

/// A variable of processes with a repair, which makes good what is lost.
const VIEW: &str = "view";

/// The losses until the end of this trace; none of a system that is repaired.
pub(super) fn losses(header: &Header, events: &[Event]) -> Losses {
    let mut losses = Losses::default();
    if header.sections > 1 || events.iter().any(|event| event.state.get(VIEW).is_some()) {
        return losses;
    }
    let crash = diagram::token_lost_with(header, events);
    losses.token =
        crash.map(|who| format!("the token was lost with the crash of {}", header.name(who)));
    let mut down = BTreeSet::new();
    for event in events {
        match &event.what {
            What::Crash => {
                down.insert(event.who);
            }
            What::Restart => {
                down.remove(&event.who);
            }
            What::Drop { to, message } => {
                let (from, to_name) = (header.name(event.who), header.name(*to));
                let is_token = message.kind == diagram::TOKEN;
                let what = if is_token { "token" } else { &format!("message {}", message.kind) };
                let lost = match down.contains(to) {
                    true => {
                        format!("the {what} from {from} was lost at {to_name}, which had crashed")
                    }
                    false => format!("the {what} from {from} to {to_name} was dropped"),
                };
                match is_token {
                    true => losses.token = Some(lost),
                    false if !losses.messages.contains(&lost) => losses.messages.push(lost),
                    false => {}
                }
            }
            _ => {}
        }
    }
    losses
}

impl Losses {
    /// As the end of a sentence. Without a token other messages do not matter.
    pub(super) fn words(self) -> String {
        let parts = match self.token {
            Some(token) => vec![token],
            None => self.messages,
        };
        parts.iter().map(|part| format!("; {part}")).collect()
    }
}

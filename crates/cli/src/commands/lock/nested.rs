//! A lock within itself would wait for ever, so it is refused at once.
//!
//! What a command's ancestors hold is in its environment: where and which, in hexadecimal so that
//! any name fits, and after each the token. A process may outlive the lock that it was started
//! under, and the same node has many addresses: so what is held is asked, by name and token, where
//! the lock is wanted.

use std::time::Duration;

use anyhow::Result;
use mutua_service::proto::v1::{VerifyRequest, locks_client::LocksClient};
use tonic::transport::Channel;

use super::Plan;
use crate::{exit::usage, local::Place};

/// The variable.
const HELD: &str = "MUTUA_HELD";
/// What a token begins with; nothing in hexadecimal does.
const TOKEN: char = 't';
/// How long the node may take to say whether it is held.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an ancestor held when it started us. The token is none if a version without has told.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Held {
    place: String,
    name: Vec<u8>,
    token: Option<u64>,
}

/// Refuses a name that an ancestor holds.
pub(super) async fn check(plan: &Plan, node: &Channel) -> Result<()> {
    let here = place(plan)?;
    for held in read(&environment_now()) {
        if held.name == plan.name.as_bytes() && is_held(&held, &here, node).await {
            return Err(usage(format!(
                "`{}` is held already by the command that this one runs in, which waits for this \
                 one: it would never be free",
                plan.name
            )));
        }
    }
    Ok(())
}

/// If nobody can say, it is taken to be held where it was.
async fn is_held(held: &Held, here: &str, node: &Channel) -> bool {
    let same = held.place == here;
    let Some(fence) = held.token else { return same };
    let request = VerifyRequest { name: held.name.clone(), fence };
    let mut client = LocksClient::new(node.clone());
    match tokio::time::timeout(PATIENCE, client.verify(request)).await {
        Ok(Ok(response)) => response.into_inner().current,
        Ok(Err(_)) | Err(_) => same,
    }
}

/// What the command is told.
pub(super) fn environment(plan: &Plan, token: u64) -> Result<(&'static str, String)> {
    let whole = format!("{}\n{}", place(plan)?, plan.name);
    let whole: String = whole.bytes().map(|byte| format!("{byte:02x}")).collect();
    let own = format!("{whole}:{TOKEN}{token}");
    let held = environment_now();
    Ok((HELD, if held.is_empty() { own } else { format!("{held}:{own}") }))
}

fn environment_now() -> String {
    std::env::var(HELD).unwrap_or_default()
}

fn place(plan: &Plan) -> Result<String> {
    match &plan.endpoint {
        Some(endpoint) => Ok(endpoint.clone()),
        None => Ok(Place::find()?.endpoint()),
    }
}

/// What is no such thing is left out.
fn read(text: &str) -> Vec<Held> {
    let mut all: Vec<Held> = Vec::new();
    for word in text.split(':') {
        if let Some(token) = word.strip_prefix(TOKEN) {
            if let Some(last) = all.last_mut() {
                last.token = token.parse().ok();
            }
        } else if let Some((place, name)) = bytes(word).as_deref().and_then(split) {
            all.push(Held { place, name, token: None });
        }
    }
    all
}

fn bytes(hexadecimal: &str) -> Option<Vec<u8>> {
    let pairs = hexadecimal.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

/// No place has the end of a line in it; a name may.
fn split(whole: &[u8]) -> Option<(String, Vec<u8>)> {
    let end = whole.iter().position(|&byte| byte == b'\n')?;
    Some((String::from_utf8(whole[..end].to_vec()).ok()?, whole[end + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::{Held, read};

    #[test]
    fn what_is_held_is_read_with_and_without_tokens() {
        let hexadecimal =
            |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (one, two) = (hexadecimal("unix:/s\nx"), hexadecimal("h:1\na\nb"));
        let held = |place: &str, name: &str, token| Held {
            place: place.to_owned(),
            name: name.into(),
            token,
        };
        let expected = [held("unix:/s", "x", Some(7)), held("h:1", "a\nb", None)];
        assert_eq!(read(&format!("{one}:t7:{two}")), expected);
        assert_eq!(read(""), []);
        assert_eq!(read("t7:zz:é:0"), []);
    }
}

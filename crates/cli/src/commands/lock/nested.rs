//! A nested lock of the same name would wait forever, so it is refused at once.
//!
//! The locks that a command's ancestors hold are in its environment: endpoint and name, in
//! hexadecimal so that any name fits, and after each its fencing token. A process may outlive the
//! lock that it was started under, and one node has many addresses: so the node of the new lock is
//! queried whether the name is held with that fencing token.

use std::time::Duration;

use anyhow::Result;
use mutua_client::proto::v1::{VerifyRequest, locks_client::LocksClient};
use tonic::transport::Channel;

use super::Plan;
use crate::exit::usage;

/// The environment variable.
const HELD: &str = "MUTUA_HELD";
/// The prefix of a fencing token; not a hexadecimal digit.
const TOKEN: char = 't';
/// How long the node may take to answer whether the lock is held.
const PATIENCE: Duration = Duration::from_secs(5);

/// A lock that an ancestor held when it started us. A version of mutua without fencing tokens
/// leaves the token out.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Held {
    endpoint: String,
    name: Vec<u8>,
    token: Option<u64>,
}

/// Refuses a name that an ancestor holds.
pub(super) async fn check(plan: &Plan, node: &Channel) -> Result<()> {
    let here = plan.target.endpoint();
    for held in read(&environment_now()) {
        if held.name == plan.name.as_bytes() && is_held(&held, &here, node).await {
            return Err(usage(format!(
                "`{}` is already held by the command that this one runs in: waiting for it would \
                 deadlock",
                plan.name
            )));
        }
    }
    Ok(())
}

/// If the node does not answer, the lock counts as held at its endpoint.
async fn is_held(held: &Held, here: &str, node: &Channel) -> bool {
    let same = held.endpoint == here;
    let Some(fencing_token) = held.token else { return same };
    let request = VerifyRequest { name: held.name.clone(), fencing_token };
    let mut client = LocksClient::new(node.clone());
    match tokio::time::timeout(PATIENCE, client.verify(request)).await {
        Ok(Ok(response)) => response.into_inner().current,
        Ok(Err(_)) | Err(_) => same,
    }
}

/// The variable for the command.
pub(super) fn environment(plan: &Plan, token: u64) -> (&'static str, String) {
    let whole = format!("{}\n{}", plan.target.endpoint(), plan.name);
    let whole: String = whole.bytes().map(|byte| format!("{byte:02x}")).collect();
    let own = format!("{whole}:{TOKEN}{token}");
    let held = environment_now();
    (HELD, if held.is_empty() { own } else { format!("{held}:{own}") })
}

fn environment_now() -> String {
    std::env::var(HELD).unwrap_or_default()
}

/// Parses the variable; malformed parts are skipped.
fn read(text: &str) -> Vec<Held> {
    let mut all: Vec<Held> = Vec::new();
    for word in text.split(':') {
        if let Some(token) = word.strip_prefix(TOKEN) {
            if let Some(last) = all.last_mut() {
                last.token = token.parse().ok();
            }
        } else if let Some((endpoint, name)) = bytes(word).as_deref().and_then(split) {
            all.push(Held { endpoint, name, token: None });
        }
    }
    all
}

fn bytes(hexadecimal: &str) -> Option<Vec<u8>> {
    let pairs = hexadecimal.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

/// An endpoint contains no newline; a name may.
fn split(whole: &[u8]) -> Option<(String, Vec<u8>)> {
    let end = whole.iter().position(|&byte| byte == b'\n')?;
    Some((String::from_utf8(whole[..end].to_vec()).ok()?, whole[end + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::{Held, read};

    #[test]
    fn held_locks_are_parsed_with_and_without_fencing_tokens() {
        let hexadecimal =
            |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (one, two) = (hexadecimal("unix:/s\nx"), hexadecimal("h:1\na\nb"));
        let held = |endpoint: &str, name: &str, token| Held {
            endpoint: endpoint.to_owned(),
            name: name.into(),
            token,
        };
        let expected = [held("unix:/s", "x", Some(7)), held("h:1", "a\nb", None)];
        assert_eq!(read(&format!("{one}:t7:{two}")), expected);
        assert_eq!(read(""), []);
        assert_eq!(read("t7:zz:é:0"), []);
    }
}

//! Locks with their holders and waiters, as text and as JSON.

use std::time::Duration;

use mutua_client::{Scope, proto::v1};
use serde_json::{Value, json};

/// Prints one row per lock.
pub(super) fn print_table(
    locks: &[v1::Lock],
    prefix: Option<&str>,
    scope: &Scope,
    unanswered: &[String],
) {
    if locks.is_empty() {
        let such = match prefix.unwrap_or_default() {
            "" => String::new(),
            prefix => format!(" whose name starts with `{}`", plain(prefix)),
        };
        let answered = match unanswered {
            [] => "",
            _ => " at the members that answered,",
        };
        return println!("no locks{such} in use{answered} in scope {}", plain(&scope.to_string()));
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header([
        "NAME",
        "HOLDER",
        "HELD FOR",
        "FENCING TOKEN",
        "WAITING",
        "ALGORITHM",
        "SCOPE",
    ]);
    for lock in locks {
        let holder = lock.holder.as_ref();
        table.add_row([
            plain(&name(lock)),
            holder.map_or_else(|| no_holder(lock, "-").to_owned(), holder_text),
            holder.map(|holder| ago(holder.for_ms)).unwrap_or_default(),
            holder.map(|holder| holder.fencing_token.to_string()).unwrap_or_default(),
            (lock.waiting.len() + lock.left_out as usize).to_string(),
            lock.algorithm.clone(),
            plain(&scope.to_string()),
        ]);
    }
    println!("{table}");
}

/// One lock with its holder and all waiters, as the node of this name reports it.
pub(super) fn text(lock: &v1::Lock, node: &str) -> String {
    let name = plain(&name(lock));
    let mut lines = vec![match &lock.holder {
        Some(holder) => format!(
            "{name}: held by {} for {}, fencing token {}{}",
            holder_text(holder),
            ago(holder.for_ms),
            holder.fencing_token,
            holder
                .value
                .as_ref()
                .map(|value| format!(", leader {}", plain(&shown(value))))
                .unwrap_or_default(),
        ),
        None => format!("{name}: {}", no_holder(lock, "not held")),
    }];
    lines.extend(lock.holder.as_ref().filter(|holder| holder.custody).map(custody));
    let groups: Vec<_> = lock.waiting.chunk_by(|one, other| one.node == other.node).collect();
    for group in &groups {
        lines.push(match &*group[0].node {
            "" => "  waiting, in order of arrival:".to_owned(),
            node => format!("  waiting at node {node}, in order of arrival:"),
        });
        for (position, waiter) in (1..).zip(*group) {
            lines.push(format!("  {position}. {} for {}", client(waiter), ago(waiter.for_ms)));
        }
    }
    if lock.left_out > 0 {
        lines.push(format!("  and {} more", lock.left_out));
    }
    lines.push(match (&*lock.algorithm, groups.len()) {
        ("", _) => return finish(lines, lock, node),
        (algorithm, 0 | 1) => format!("  algorithm: {algorithm}"),
        (algorithm, _) => format!("  algorithm between nodes: {algorithm}"),
    });
    finish(lines, lock, node)
}

fn finish(mut lines: Vec<String>, lock: &v1::Lock, node: &str) -> String {
    if lock.holder.is_none() && lock.unanswered.iter().any(|one| one == node) {
        lines.push("  this node cannot know now: `mutua status` says why".to_owned());
    }
    lines.extend(missing(&lock.unanswered, node).map(|text| format!("  {text}")));
    lines.join("\n")
}

/// What is known of a hold whose client has lost its node.
fn custody(holder: &v1::Entry) -> String {
    let (node, left) = (plain(&holder.node), ago(holder.lease_left_ms));
    if node.is_empty() {
        return format!(
            "  the node crashed meanwhile: free in {left} unless the client renews its lease"
        );
    }
    format!(
        "  {node} is its custodian: the client's node was lost; free in {left} unless the client \
         renews its lease"
    )
}

/// The notice about members other than this node that did not answer.
pub(super) fn missing(unanswered: &[String], node: &str) -> Option<String> {
    let others: Vec<_> = unanswered.iter().map(|one| &**one).filter(|one| *one != node).collect();
    match &*others {
        [] => None,
        [one] => Some(format!("{one} did not answer; its clients are not shown")),
        names => Some(format!("{} did not answer; their clients are not shown", names.join(", "))),
    }
}

/// What is shown instead of a holder: while a member has not answered, its client may be one.
fn no_holder(lock: &v1::Lock, free: &'static str) -> &'static str {
    if lock.unanswered.is_empty() { free } else { "holder unknown" }
}

/// A client that holds or waits, and its node.
pub(crate) fn holder_text(entry: &v1::Entry) -> String {
    match &*entry.node {
        "" => client(entry),
        node => format!("{} at node {node}", client(entry)),
    }
}

fn client(entry: &v1::Entry) -> String {
    let client = entry.client.clone().unwrap_or_default();
    let mut words = if client.owner.is_empty() { client.host.clone() } else { client.owner };
    if client.pid > 0 {
        words += &format!(" (pid {} on {})", client.pid, client.host);
    }
    if !client.command.is_empty() {
        words += &format!(" `{}`", client.command);
    }
    plain(&words)
}

fn name(lock: &v1::Lock) -> String {
    shown(&lock.name)
}

/// A name or a value as it was given; escaped if it is not UTF-8, which only programs can give.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let escaped = |_| bytes.escape_ascii().to_string();
    std::str::from_utf8(bytes).map(str::to_owned).unwrap_or_else(escaped)
}

/// Text of other users on one line, without anything that a terminal would interpret.
pub(crate) fn plain(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for letter in words.chars() {
        // Characters that reverse the direction of writing can disguise text.
        let reverses = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(letter, '\u{2066}'..='\u{2069}');
        match letter.is_control() || reverses {
            true => text.extend(letter.escape_default()),
            false => text.push(letter),
        }
    }
    text
}

/// A duration for people.
pub(crate) fn ago(millis: u64) -> String {
    let time = Duration::from_millis(millis);
    match time.as_secs() {
        0 => format!("{millis} ms"),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A lock as JSON.
pub(crate) fn as_json(lock: &v1::Lock, scope: &Scope) -> Value {
    json!({
        "name": name(lock),
        "holder": lock.holder.as_ref().map(entry_json),
        "waiting": lock.waiting.iter().map(entry_json).collect::<Vec<_>>(),
        "waiting_left_out": lock.left_out,
        "algorithm": lock.algorithm,
        "unanswered": lock.unanswered,
        "scope": scope.word(),
        "cluster": scope.cluster(),
    })
}

/// A fencing token as JSON: a string, since many JSON readers have numbers of 53 bits only.
pub(crate) fn fencing_token_json(token: u64) -> Value {
    token.to_string().into()
}

/// A client that holds or waits, as JSON.
pub(crate) fn entry_json(entry: &v1::Entry) -> Value {
    let client = entry.client.clone().unwrap_or_default();
    json!({
        "owner": client.owner,
        "identity": client.identity,
        "host": client.host,
        "pid": client.pid,
        "command": client.command,
        "for_ms": entry.for_ms,
        "fencing_token": (entry.fencing_token > 0).then(|| fencing_token_json(entry.fencing_token)),
        "node": entry.node,
        "value": entry.value.as_deref().map(shown),
        "lease_left_ms": entry.lease_left_ms,
        "custody": entry.custody,
    })
}

#[cfg(test)]
mod tests {
    use super::{Scope, ago, as_json, plain, text, v1};

    #[test]
    fn text_of_other_users_is_one_line_that_a_terminal_does_not_interpret() {
        assert_eq!(plain("köln `a\\b`"), "köln `a\\b`");
        assert_eq!(plain("a\nb\t\u{1b}[2J\u{202e}"), "a\\nb\\t\\u{1b}[2J\\u{202e}");
        let mut lock = v1::Lock { name: "köln\n\"".into(), ..Default::default() };
        assert_eq!(as_json(&lock, &Scope::Local)["name"], "köln\n\"");
        assert_eq!(text(&lock, "a"), "köln\\n\": not held");
        lock.name = b"\xff".to_vec();
        assert_eq!(as_json(&lock, &Scope::Local)["name"], "\\xff");
    }

    fn entry(owner: &str, node: &str, fence: u64) -> v1::Entry {
        let client = v1::Client { owner: owner.to_owned(), ..Default::default() };
        let node = node.to_owned();
        v1::Entry {
            client: Some(client),
            node,
            fencing_token: fence,
            for_ms: 2000,
            ..Default::default()
        }
    }

    #[test]
    fn waiters_are_shown_node_by_node_in_the_order_of_arrival() {
        let mut lock = v1::Lock {
            name: b"x".to_vec(),
            holder: Some(entry("ann", "a", 7)),
            waiting: vec![entry("bob", "b", 0), entry("cid", "b", 0), entry("dan", "c", 0)],
            algorithm: "maekawa".to_owned(),
            ..Default::default()
        };
        let expected = "x: held by ann at node a for 2 s, fencing token 7\n  \
                        waiting at node b, in order of arrival:\n  1. bob for 2 s\n  \
                        2. cid for 2 s\n  \
                        waiting at node c, in order of arrival:\n  1. dan for 2 s\n  \
                        algorithm between nodes: maekawa";
        assert_eq!(text(&lock, "a"), expected);
        lock.holder = None;
        lock.waiting = vec![entry("bob", "", 0)];
        let expected = "x: not held\n  waiting, in order of arrival:\n  \
                        1. bob for 2 s\n  algorithm: maekawa";
        assert_eq!(text(&lock, "a"), expected);
    }

    #[test]
    fn a_lock_is_not_shown_as_free_while_a_member_has_not_answered() {
        let unanswered = vec!["b".to_owned(), "c".to_owned()];
        let lock = v1::Lock { name: b"x".to_vec(), unanswered, ..Default::default() };
        let expected = "x: holder unknown\n  \
                        b, c did not answer; their clients are not shown";
        assert_eq!(text(&lock, "a"), expected);
        let expected = "x: holder unknown\n  \
                        this node cannot know now: `mutua status` says why\n  \
                        c did not answer; its clients are not shown";
        assert_eq!(text(&lock, "b"), expected);
    }

    #[test]
    fn durations_are_written_for_people() {
        let texts = [999, 1000, 61_000, 3_720_000].map(ago);
        assert_eq!(texts, ["999 ms", "1 s", "1 min 1 s", "1 h 2 min"]);
    }
}

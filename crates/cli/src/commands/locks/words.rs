//! Locks, and who is at them, in words and as JSON.

use std::time::Duration;

use mutua_service::proto::v1;
use serde_json::{Value, json};

/// Many locks.
pub(super) fn print_table(locks: &[v1::Lock]) {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["NAME", "INSIDE", "SINCE", "TOKEN", "WAITING", "ALGORITHM"]);
    for lock in locks {
        let holder = lock.holder.as_ref();
        table.add_row([
            plain(&name(lock)),
            holder.map_or_else(|| nobody(&lock.unanswered).to_owned(), who),
            holder.map(|holder| ago(holder.for_ms)).unwrap_or_default(),
            holder.map(|holder| holder.fence.to_string()).unwrap_or_default(),
            (lock.waiting.len() + lock.left_out as usize).to_string(),
            lock.algorithm.clone(),
        ]);
    }
    println!("{table}");
}

/// One lock, with everybody who waits.
pub(super) fn text(lock: &v1::Lock) -> String {
    let name = plain(&name(lock));
    let mut lines = vec![match &lock.holder {
        Some(holder) => format!(
            "{name}: inside is {} since {}, token {}",
            who(holder),
            ago(holder.for_ms),
            holder.fence
        ),
        None => format!("{name}: {} is inside", nobody(&lock.unanswered)),
    }];
    let groups: Vec<_> = lock.waiting.chunk_by(|one, other| one.node == other.node).collect();
    for group in &groups {
        lines.push(match &*group[0].node {
            "" => "  waiting, in order of arrival:".to_owned(),
            node => format!("  waiting at node {node}, in order of arrival:"),
        });
        for (place, waiter) in group.iter().enumerate() {
            lines.push(format!("  {}. {} for {}", place + 1, client(waiter), ago(waiter.for_ms)));
        }
    }
    if lock.left_out > 0 {
        lines.push(format!("  and {} more", lock.left_out));
    }
    lines.push(match (&*lock.algorithm, groups.len()) {
        ("", _) => return finish(lines, lock),
        (algorithm, 0 | 1) => format!("  algorithm between nodes: {algorithm}"),
        (algorithm, _) => format!("  between nodes, in the order of {algorithm}"),
    });
    finish(lines, lock)
}

fn finish(mut lines: Vec<String>, lock: &v1::Lock) -> String {
    lines.extend(missing(&lock.unanswered).map(|text| format!("  {text}")));
    lines.join("\n")
}

/// What to say of members that did not answer.
pub(super) fn missing(unanswered: &[String]) -> Option<String> {
    match unanswered {
        [] => None,
        [one] => Some(format!("{one} did not answer, so its clients are missing here")),
        names => {
            Some(format!("{} did not answer, so their clients are missing here", names.join(", ")))
        }
    }
}

fn nobody(unanswered: &[String]) -> &'static str {
    if unanswered.is_empty() { "nobody" } else { "nobody known" }
}

/// Somebody in a few words, and where.
pub(crate) fn who(entry: &v1::Entry) -> String {
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

/// A lock's name as it was given; if it is no UTF-8, which only programs can give, escaped.
fn name(lock: &v1::Lock) -> String {
    let escaped = |_| lock.name.escape_ascii().to_string();
    std::str::from_utf8(&lock.name).map(str::to_owned).unwrap_or_else(escaped)
}

/// Somebody's words on one line, with nothing in them that a terminal would obey.
pub(crate) fn plain(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for letter in words.chars() {
        // Signs that turn the direction of writing make one thing look like another.
        let turns = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(letter, '\u{2066}'..='\u{2069}');
        match letter.is_control() || turns {
            true => text.extend(letter.escape_default()),
            false => text.push(letter),
        }
    }
    text
}

/// A time as people say it.
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
pub(super) fn as_json(lock: &v1::Lock) -> Value {
    json!({
        "name": name(lock),
        "holder": lock.holder.as_ref().map(entry_json),
        "waiting": lock.waiting.iter().map(entry_json).collect::<Vec<_>>(),
        "waiting_left_out": lock.left_out,
        "algorithm": lock.algorithm,
        "unanswered": lock.unanswered,
    })
}

/// A token as JSON: a text, since many readers of JSON have numbers of 53 bits only.
pub(crate) fn token_json(token: u64) -> Value {
    token.to_string().into()
}

/// Somebody as JSON.
pub(crate) fn entry_json(entry: &v1::Entry) -> Value {
    let client = entry.client.clone().unwrap_or_default();
    json!({
        "owner": client.owner,
        "host": client.host,
        "pid": client.pid,
        "command": client.command,
        "for_ms": entry.for_ms,
        "token": (entry.fence > 0).then(|| token_json(entry.fence)),
        "node": entry.node,
    })
}

#[cfg(test)]
mod tests {
    use super::{ago, as_json, plain, text, v1};

    #[test]
    fn others_words_are_one_line_and_nothing_that_a_terminal_obeys() {
        assert_eq!(plain("köln `a\\b`"), "köln `a\\b`");
        assert_eq!(plain("a\nb\t\u{1b}[2J\u{202e}"), "a\\nb\\t\\u{1b}[2J\\u{202e}");
        let mut lock = v1::Lock { name: "köln\n\"".into(), ..Default::default() };
        assert_eq!(as_json(&lock)["name"], "köln\n\"");
        assert_eq!(text(&lock), "köln\\n\": nobody is inside");
        lock.name = b"\xff".to_vec();
        assert_eq!(as_json(&lock)["name"], "\\xff");
    }

    fn entry(owner: &str, node: &str, fence: u64) -> v1::Entry {
        let client = v1::Client { owner: owner.to_owned(), ..Default::default() };
        let node = node.to_owned();
        v1::Entry { client: Some(client), node, fence, for_ms: 2000, ..Default::default() }
    }

    #[test]
    fn who_waits_is_shown_node_by_node_and_each_line_by_arrival() {
        let mut lock = v1::Lock {
            name: b"x".to_vec(),
            holder: Some(entry("ann", "a", 7)),
            waiting: vec![entry("bob", "b", 0), entry("cid", "b", 0), entry("dan", "c", 0)],
            algorithm: "maekawa".to_owned(),
            ..Default::default()
        };
        let expected = "x: inside is ann at node a since 2 s, token 7\n  \
                        waiting at node b, in order of arrival:\n  1. bob for 2 s\n  \
                        2. cid for 2 s\n  \
                        waiting at node c, in order of arrival:\n  1. dan for 2 s\n  \
                        between nodes, in the order of maekawa";
        assert_eq!(text(&lock), expected);
        lock.holder = None;
        lock.waiting = vec![entry("bob", "", 0)];
        let expected = "x: nobody is inside\n  waiting, in order of arrival:\n  \
                        1. bob for 2 s\n  algorithm between nodes: maekawa";
        assert_eq!(text(&lock), expected);
    }

    #[test]
    fn nobody_is_not_said_while_a_member_has_not_answered() {
        let unanswered = vec!["b".to_owned(), "c".to_owned()];
        let lock = v1::Lock { name: b"x".to_vec(), unanswered, ..Default::default() };
        let expected = "x: nobody known is inside\n  \
                        b, c did not answer, so their clients are missing here";
        assert_eq!(text(&lock), expected);
    }

    #[test]
    fn times_are_told_as_people_say_them() {
        let told = [999, 1000, 61_000, 3_720_000].map(ago);
        assert_eq!(told, ["999 ms", "1 s", "1 min 1 s", "1 h 2 min"]);
    }
}

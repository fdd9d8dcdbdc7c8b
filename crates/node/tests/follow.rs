//! Following a lock: the traces of all nodes, begun at any time and in any view, fit together.

mod cluster;

use std::{collections::BTreeSet, time::Duration};

use mutua_node::{Node, Rule};
use serde_json::Value;

/// The events of a lock at all nodes so far.
fn follow(nodes: &[Node], from: &mut [u64]) -> Vec<Value> {
    let mut events = Vec::new();
    for (node, from) in nodes.iter().zip(from) {
        let (traced, now) = node.handle().follow(b"x", *from, 1000).expect("few are followed");
        assert_eq!(traced.missed, 0);
        *from = traced.next;
        let lines = traced.events.iter().map(|line| serde_json::from_str(line).expect("JSON"));
        let lines: Vec<Value> = lines.collect();
        assert!(lines.iter().all(|event| event["at"].as_u64() <= Some(now)));
        events.extend(lines);
    }
    events
}

/// Sender, number and receiver of the messages that were sent, and of those that arrived.
fn messages(events: &[Value]) -> (BTreeSet<String>, BTreeSet<String>) {
    let of = |what: &'static str, from: &'static str, to: &'static str| {
        let meant = events.iter().filter(move |event| event["what"] == what);
        meant.map(|e| format!("{} {} {}", e[from], e["id"], e[to])).collect()
    };
    (of("send", "who", "to"), of("receive", "from", "who"))
}

/// Each node enters once.
async fn round(nodes: &[Node]) {
    for node in nodes {
        drop(node.lock("x").acquire().await.expect("granted"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traces_that_begin_in_the_middle_fit_together_in_every_view() {
    for algorithm in ["naimi-trehel", "ricart-agrawala"] {
        let (_directory, mut nodes) = cluster::start(3, &[Rule::new("*", algorithm)]).await;
        let mut from = vec![0; 3];
        round(&nodes).await;
        let early = follow(&nodes, &mut from);
        assert!(early.is_empty(), "nothing was traced before: {early:?}");
        round(&nodes).await;
        round(&nodes).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let events = follow(&nodes, &mut from);
        let starts = events.iter().filter(|event| event["what"] == "start").count();
        assert_eq!(starts, 3, "each trace begins with the state of its process");
        let (sent, received) = messages(&events);
        assert!(!sent.is_empty());
        assert_eq!(sent, received, "{algorithm}");

        // The first member is lost: the others have other numbers in their view, and the same
        // names.
        let before = nodes[1].handle().epoch();
        nodes.remove(0);
        from.remove(0);
        while nodes.iter().any(|node| node.handle().epoch() <= before) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        round(&nodes).await;
        round(&nodes).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let events = follow(&nodes, &mut from);
        let (sent, received) = messages(&events);
        let between = |event: &Value| {
            let ends = [&event["who"], &event["to"], &event["from"]];
            ends.into_iter().all(|end| end.is_null() || end == "n1" || end == "n2")
        };
        let last_start = events.iter().rposition(|event| event["what"] == "start");
        let view = &events[last_start.expect("a new view")..];
        assert!(view.iter().all(between), "{algorithm}: {view:?}");
        assert!(received.is_subset(&sent), "{algorithm}: {received:?} {sent:?}");
        assert!(received.iter().any(|message| message.ends_with("\"n1\"")), "{received:?}");
    }
}

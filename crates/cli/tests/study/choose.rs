//! `mutua choose`, as a user runs it.

use std::process::{Command, Output};

use serde_json::Value;

fn mutua(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments.split(' ')).output().expect("the binary runs")
}

fn winner(arguments: &str) -> String {
    let output = mutua(&format!("choose {arguments} --json"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    found["winner"].as_str().expect("there is a winner").to_owned()
}

#[test]
fn the_winner_depends_on_the_latency_matrix() {
    // The mean latency is the same. Over regions, a ring or a tree that stays in a region before it
    // goes on to the next beats an order of entry that jumps between them.
    let same = "--nodes 9 --think exp:100ms --hold 5ms --entries 2000";
    let everywhere = winner(&format!("{same} --latency 22.75ms"));
    let regions = winner(&format!("{same} --regions 3,3,3 --latency 1ms --wan 30ms"));
    assert_eq!(everywhere, "neilsen-mizuno (star)");
    assert_eq!(regions, "le-lann");
}

#[test]
fn the_winner_depends_on_the_holding_time() {
    // Held briefly, the section is mostly free and must be found; held long, everyone queues and it
    // only has to be passed on, which the ring does with the fewest messages.
    let same = "--nodes 10 --latency 1ms --think exp:100ms --entries 2000";
    let briefly = winner(&format!("{same} --hold 0.1ms"));
    let long = winner(&format!("{same} --hold 50ms"));
    assert!(["suzuki-kasami", "ricart-agrawala-token"].contains(&briefly.as_str()), "{briefly}");
    assert_eq!(long, "le-lann");
}

#[test]
fn only_those_that_keep_the_order_are_taken_where_it_is_asked_for() {
    let output = mutua("choose --nodes 4 --ordered --entries 500");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Take ricart-agrawala."), "{text}");
    assert!(text.contains("Not central:"), "{text}");
}

#[test]
fn candidates_are_ranked_by_the_cost_of_a_repaired_crash_where_processes_may_fail() {
    let output = mutua("choose --nodes 5 --may-fail --entries 500 --json");
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let ranking = found["ranking"].as_array().expect("a ranking");
    let fatal = |one: &Value| one["failures_fatal"].as_u64().expect("a number");
    let bound = |one: &Value, end| one["failures_interval"][end].as_f64().expect("a share");
    for one in ranking {
        let share = fatal(one) as f64 / one["failures_tried"].as_f64().expect("a number");
        assert_eq!(one["failures_tried"], 100, "{one}");
        assert!(bound(one, 0) <= share && share <= bound(one, 1), "{one}");
    }
    // Those that lose as little time as the best come first, by messages; the others by the time.
    let lost = |one: &Value| one["lost_time"].as_f64().expect("a time");
    let width = |one: &Value| one["lost_time_half_width"].as_f64().expect("a time");
    let sent = |one: &Value| one["repair_messages"].as_f64().expect("a number");
    assert!(ranking.iter().all(|one| one["repaired_fatal"] == 0), "every crash is repaired");
    let reach = ranking.iter().map(|one| lost(one) + width(one)).fold(f64::INFINITY, f64::min);
    let equal = ranking.iter().take_while(|one| lost(one) - width(one) <= reach).count();
    assert!(ranking[..equal].iter().map(sent).is_sorted(), "{found}");
    assert!(equal >= 1 && ranking[equal..].iter().map(lost).is_sorted(), "{found}");
    let of = |name: &str| ranking.iter().find(|one| one["algorithm"] == name).expect("it ran");
    // Every process must reply to a request; the token is with one process of five.
    assert_eq!(fatal(of("ricart-agrawala")), 100);
    let tree = fatal(of("naimi-trehel"));
    assert!((15..90).contains(&tree), "{tree}");
    let text = words("--nodes 5 --may-fail --entries 500");
    assert!(text.contains("A crash is fatal if, without a repair, afterwards"), "{text}");
    let text = words("--nodes 5 --may-fail --reorder --entries 500");
    assert!(text.contains("A crash is fatal if afterwards a process that is up waits"), "{text}");
}

#[test]
fn nothing_is_recommended_to_which_a_given_crash_is_fatal() {
    let (found, code) = chosen("--nodes 10 --crash 3@1s --entries 500");
    for one in found["ranking"].as_array().expect("a ranking") {
        assert_eq!(one["failures_tried"], 100, "{one}");
        assert_eq!(one["failed"] == true, one["failures_fatal"] != 0, "{one}");
    }
    assert_eq!((code, &found["winner"]), (Some(1), &Value::Null));
    let text = words("--nodes 10 --crash 3@1s --entries 500");
    assert!(text.contains("candidates survives this") && text.contains("Safest is"), "{text}");
}

#[test]
fn the_choice_ends_with_its_rule_the_default_and_other_tools() {
    let text = words("--nodes 9 --latency 22.75ms --hold 5ms --entries 500");
    let rule = "[[locks]]\nnames = \"*\"\nalgorithm = \"neilsen-mizuno\"\ntopology = \"star\"\n";
    assert!(text.contains(rule), "{text}");
    for part in ["Without a rule a node uses naimi-trehel, number", "flock(1)", "etcd"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (found, _) = chosen("--nodes 9 --by messages --entries 500");
    for one in found["ranking"].as_array().expect("a ranking") {
        let rule = one["locks"].as_str().expect("a rule");
        let text = format!(
            "cluster = \"x\"\nnode = \"a\"\n[[members]]\nname = \"a\"\n\
             address = \"127.0.0.1:1\"\n{rule}"
        );
        mutua_node::Config::parse(&text, "mutua.toml").expect(rule);
    }
}

fn chosen(arguments: &str) -> (Value, Option<i32>) {
    let output = mutua(&format!("choose {arguments} --json"));
    let found = serde_json::from_slice(&output.stdout).expect("one JSON object");
    (found, output.status.code())
}

fn words(arguments: &str) -> String {
    let output = mutua(&format!("choose {arguments}"));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn nothing_is_recommended_where_all_fail() {
    for situation in [
        "--loss 0.1 --entries 200",
        "--loss 0.01 --entries 2000",
        "--ordered --reorder --loss 0.5 --entries 100",
    ] {
        let (found, code) = chosen(situation);
        assert_eq!(code, Some(1), "{situation}");
        assert!(found["winner"].is_null(), "{situation}: {found}");
        for one in found["ranking"].as_array().expect("a ranking") {
            assert_eq!(one["failed"], true, "{one}");
            let reasons = one["reasons"].as_array().expect("reasons");
            assert!(reasons.iter().any(|why| why.as_str().is_some_and(|why| why.contains(" in "))));
        }
        let text = words(situation);
        assert!(text.contains("this: they require that every message is delivered once"), "{text}");
        assert!(!text.contains("Take ") && !text.contains("inf") && !text.contains(" 0ns"));
    }
}

#[test]
fn who_failed_is_last_and_never_praised() {
    let situation = "--nodes 5 --partition 10ms..50ms:0,1 --entries 500";
    let (found, code) = chosen(situation);
    assert_eq!(code, Some(0));
    let ranking = found["ranking"].as_array().expect("a ranking");
    let failed: Vec<_> = ranking.iter().map(|one| one["failed"] == true).collect();
    assert!(!failed[0] && failed.is_sorted() && failed.contains(&true), "{failed:?}");
    assert!(ranking.iter().all(|one| (one["violations"] != 0) == (one["failed"] == true)));
    let text = words(situation);
    let (praise, rest) =
        text.split_once("\n\n").and_then(|(_, text)| text.split_once("\n\n")).unwrap();
    for one in ranking.iter().filter(|one| one["failed"] == true) {
        let name = one["candidate"].as_str().expect("a name");
        assert!(!praise.contains(name), "{praise}");
        let row = rest.lines().find(|line| line.contains(name)).expect("a row");
        assert!(row.contains("failed") && !row.contains("ms"), "{row}");
    }
}

#[test]
fn the_reason_is_what_sets_the_winner_apart() {
    // Messages are slow: the section is empty most of the time, and yet hardly ever free.
    let regions = "--nodes 9 --regions 3,3,3 --wan 50ms --latency 1ms --entries 2000";
    let text = words(regions);
    assert!(text.contains("% of the requests found the critical section free"), "{text}");
    assert!(text.contains("it is ahead in the time from one exit to the next entry: "), "{text}");
    assert!(!text.contains("what counts is how soon one is in when nobody"), "{text}");
    let (found, _) = chosen(regions);
    assert!(found["ranking"][0]["found_free"].as_f64().expect("a share") < 0.05, "{found}");
    // Requests rarely meet: what counts is the delay of a client alone.
    let calm = words("--nodes 5 --think exp:1s --entries 2000");
    let reason = "it is ahead in the time from request to entry without contention: ";
    assert!(calm.contains(reason), "{calm}");
}

#[test]
fn rows_are_ordered_by_the_measure_and_ties_are_explained() {
    let situation = "--nodes 9 --hold 200ms --think exp:100ms --entries 1000";
    let (found, _) = chosen(situation);
    let ranking = found["ranking"].as_array().expect("a ranking");
    let waits: Vec<_> = ranking.iter().filter_map(|one| one["wait"].as_f64()).collect();
    let messages: Vec<_> = ranking.iter().filter_map(|one| one["messages"].as_f64()).collect();
    let best = waits.iter().copied().fold(f64::MAX, f64::min);
    let equals = waits.iter().take_while(|&&wait| wait <= 1.02 * best).count();
    assert!(equals > 3 && waits[equals..].is_sorted(), "{waits:?}");
    assert!(messages[..equals].is_sorted(), "{messages:?}");
    let text = words(situation);
    assert!(text.contains(&format!("1 to {equals} are within 2 % of the best")), "{text}");
    assert!(!text.contains("nobody waits longer with"), "{text}");
}

#[test]
fn the_situation_is_described_in_full_and_in_good_english() {
    let text = words("--nodes 4 --hot 1 --think 7ms --runs 1 --entries 50");
    let printed = "4 processes, of which only the first requests; mean latency 1ms; hold time \
                1ms, think time 7ms; 50 entries simulated with each of 1 seed.";
    assert!(text.starts_with(printed), "{text}");
    // One alone that is as good is one, not several.
    let text = words("--nodes 4 --entries 500");
    assert!(!text.contains("carvalho-roucairol, but they"), "{text}");
}

#[test]
fn bad_situations_are_refused() {
    for (arguments, expected) in [
        ("choose --nodes 0", "from 1 to"),
        ("choose --hot 99", "give 1 to 10"),
        ("choose --regions 4,4 --wan 10ms", "add up to 8 processes"),
    ] {
        let output = mutua(arguments);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{arguments}: {printed}");
        assert!(printed.contains(expected), "{arguments}: {printed}");
    }
}

#[test]
fn a_tree_of_edges_says_for_which_cluster_it_is() {
    let output = mutua("choose --nodes 6 --regions 3,3 --wan 5ms --think exp:10ms --entries 500");
    let text = String::from_utf8_lossy(&output.stdout);
    let edges = text.contains("topology = [[");
    assert!(edges, "the winner runs on a tree of edges: {text}");
    assert!(
        text.contains(
            "for a cluster of exactly 6 members, numbered from 0 in the order of its\nlist"
        ),
        "{text}"
    );
    let other = mutua("choose --nodes 3 --entries 500");
    assert!(!String::from_utf8_lossy(&other.stdout).contains("for a cluster of exactly"));
}

#[test]
fn among_equal_candidates_there_is_nothing_to_choose() {
    let text = words("--nodes 1 --entries 300");
    assert!(!text.contains("it is ahead") && !text.contains("Take bakery"), "{text}");
    assert!(text.contains("equal") && text.contains("naimi-trehel"), "{text}");
}

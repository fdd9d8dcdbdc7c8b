//! `mutua choose` from outside.

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
    let same = "--nodes 9 --rest exp:100ms --hold 5ms --entries 2000";
    let everywhere = winner(&format!("{same} --latency 22.75ms"));
    let regions = winner(&format!("{same} --regions 3,3,3 --latency 1ms --wan 30ms"));
    assert_eq!(everywhere, "neilsen-mizuno (star)");
    assert_eq!(regions, "le-lann");
}

#[test]
fn the_winner_depends_on_the_holding_time() {
    // Held briefly, the section is mostly free and must be found; held long, everyone queues and it
    // only has to be passed on, which the ring does with the fewest messages.
    let same = "--nodes 10 --latency 1ms --rest exp:100ms --entries 2000";
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
fn whoever_goes_on_without_most_others_is_first_where_processes_may_fail() {
    let output = mutua("choose --nodes 5 --may-fail --entries 500 --json");
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let ranking = found["ranking"].as_array().expect("a ranking");
    let fatal: Vec<_> = ranking.iter().map(|one| one["failures_fatal"].as_u64()).collect();
    assert!(fatal.is_sorted(), "{fatal:?}");
    let of = |name: &str| ranking.iter().find(|one| one["algorithm"] == name).expect("it ran");
    assert_eq!(of("central")["failures_fatal"], 1);
    assert_eq!(of("ricart-agrawala")["failures_fatal"], 5);
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
        assert!(text.contains("this: they count on every message to arrive once"), "{text}");
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
    assert!(text.contains("% of the requests found it free"), "{text}");
    assert!(text.contains("apart is the time from one exit to the next entry"), "{text}");
    assert!(!text.contains("what counts is how soon one is in when nobody"), "{text}");
    let (found, _) = chosen(regions);
    assert!(found["ranking"][0]["found_free"].as_f64().expect("a share") < 0.05, "{found}");
    // Nobody is in another's way: what counts is how soon one is in alone.
    let calm = words("--nodes 5 --rest exp:1s --entries 2000");
    assert!(calm.contains("apart is the time of getting in while nobody else wants to"), "{calm}");
}

#[test]
fn rows_stand_in_the_order_of_what_counts_and_ties_are_told() {
    let situation = "--nodes 9 --hold 200ms --rest exp:100ms --entries 1000";
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
fn the_situation_is_told_in_full_and_in_good_english() {
    let text = words("--nodes 4 --hot 1 --rest 7ms --runs 1 --entries 50");
    let told = "4 processes, of which only the first asks; a message takes 1ms on average; clients \
                stay inside 1ms and rest 7ms; 50 entries simulated with each of 1 seed.";
    assert!(text.starts_with(told), "{text}");
    // One alone that is as good is one, not several.
    let text = words("--nodes 4 --entries 500");
    assert!(!text.contains("carvalho-roucairol, but they"), "{text}");
}

#[test]
fn bad_situations_are_refused() {
    for (arguments, expected) in [
        ("choose --nodes 0", "at least 1"),
        ("choose --hot 99", "give 1 to 10"),
        ("choose --regions 4,4 --wan 10ms", "regions for 8 processes"),
    ] {
        let output = mutua(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{arguments}: {told}");
        assert!(told.contains(expected), "{arguments}: {told}");
    }
}

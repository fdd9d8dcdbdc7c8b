//! `mutua check` as a script sees it: exit codes, the shape of its JSON, limits, counterexamples.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;

fn mutua(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments.split_whitespace()).output().expect("mutua runs")
}

fn code(arguments: &str) -> Option<i32> {
    mutua(arguments).status.code()
}

fn json(arguments: &str) -> Value {
    let done = mutua(&format!("{arguments} --json"));
    serde_json::from_slice(&done.stdout).expect("one object")
}

fn text(arguments: &str) -> String {
    String::from_utf8(mutua(arguments).stdout).expect("text")
}

fn property<'a>(report: &'a Value, name: &str) -> &'a Value {
    let all = report["properties"].as_array().expect("a list");
    all.iter().find(|property| property["name"] == name).expect("the property")
}

/// A directory of its own for a test.
fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    path
}

#[test]
fn the_bytes_of_a_state_are_those_of_the_search_that_needs_most() {
    // A search for each process that may receive a message of the application.
    let ordering = "check ricart-agrawala --nodes 3 --property ordering";
    let printed = text(ordering);
    assert!(printed.contains(" bytes a state in the largest search  (ordering)"), "{printed}");
    let search = &json(ordering)["searches"][0];
    let figure = |name: &str| search[name].as_f64().expect("a figure");
    assert!(figure("bytes_a_state") > 1.5 * figure("bytes") / figure("states"), "{search}");
    let printed = text("check ricart-agrawala --nodes 2 --property liveness");
    assert!(printed.contains(" bytes a state  (liveness)"), "{printed}");
}

#[test]
fn exit_codes_say_held_violated_unfinished_or_misused() {
    assert_eq!(code("check ricart-agrawala --nodes 2 --entries 2"), Some(0));
    assert_eq!(code("check maekawa-basic --nodes 4"), Some(1));
    assert_eq!(code("check lamport --nodes 3 --entries 2 --max-states 1000"), Some(2));
    assert_eq!(code("check lamport --nodes 3 --entries 2 --time 10ms"), Some(2));
    assert_eq!(code("check lamport --time -1s"), Some(64));
    assert_eq!(code("check lamport --time soon"), Some(64));
    assert_eq!(code("check lamport --nodes 3 --entries 2 --time 0.01"), Some(2));
    assert_eq!(code("check lamport --nodes 3 --entries 2 --max-memory 1M"), Some(2));
    assert_eq!(code("check lamport --nodes 2 --depth 3"), Some(2));
    assert_eq!(code("check lamport --nodes 2 --walks 10"), Some(2));
    assert_eq!(code("check nonsense"), Some(64));
    assert_eq!(code("check lamport --property nonsense"), Some(64));
    assert_eq!(code("check lamport --nodes 2 --losses 1000"), Some(64));
}

#[test]
fn the_object_for_scripts_has_its_shape() {
    let report = json("check lamport --nodes 2 --entries 1 --links any --reduction none");
    assert_eq!(report["complete"], true);
    assert!(report["states"].as_u64() > Some(10) && report["seconds"].is_f64());
    let safety = property(&report, "mutual-exclusion");
    assert_eq!((&safety["holds"], &safety["steps"]), (&Value::Bool(false), &4.into()));
    let report = json("check ricart-agrawala --nodes 3 --reduction none");
    // 5562 states, and 24 more with the bit by which the same search decides fencing.
    assert_eq!((&report["states"], &report["complete"]), (&5586.into(), &Value::Bool(true)));
    let liveness = property(&report, "liveness");
    assert_eq!((&liveness["holds"], &liveness["steps"]), (&Value::Bool(true), &Value::Null));
    let report = json("check lamport --nodes 3 --entries 2 --max-states 1000");
    assert_eq!(report["complete"], false);
    assert_eq!(property(&report, "mutual-exclusion")["holds"], Value::Null);
}

#[test]
fn merging_visits_fewer_states_and_finds_the_same() {
    let system = "check lamport --nodes 2 --entries 3";
    let (all, none) = (json(system), json(&format!("{system} --reduction none")));
    assert!(all["states"].as_u64() < none["states"].as_u64());
    let found = |report: &Value| -> Vec<(Value, Value)> {
        let properties = report["properties"].as_array().expect("a list");
        properties.iter().map(|one| (one["name"].clone(), one["holds"].clone())).collect()
    };
    assert_eq!(found(&all), found(&none));
}

#[test]
fn convergence_is_a_property_of_a_ring_under_a_daemon() {
    let ring = "check dijkstra --nodes 3 --with daemon=central --property convergence";
    assert_eq!(code(ring), Some(0));
}

#[test]
fn both_ways_are_compared_and_shown() {
    let report = json("check central --nodes 3 --reduction both");
    assert!(report["states"].as_u64() < report["states_unreduced"].as_u64(), "{report}");
    assert_eq!(report["states_unreduced"], 218);
    let merged = report["reductions"].as_array().expect("a list");
    assert!(merged.iter().any(|how| how == "symmetry (6 renamings)"), "{merged:?}");
    let printed = text("check lamport --nodes 2 --reduction both");
    assert!(
        printed.contains("reductions: shifts of all clocks, orders of steps that commute"),
        "{printed}"
    );
    assert!(printed.contains("without reductions: 74 states"), "{printed}");
}

#[test]
fn a_limit_says_what_was_covered() {
    let printed = text("check lamport --nodes 3 --entries 2 --max-states 20000 --reduction none");
    assert!(
        printed.contains("the limit of states was reached; every run of fewer than"),
        "{printed}"
    );
    // Where orders of steps are skipped, depth does not measure runs; so --depth skips none.
    let printed = text("check lamport --nodes 3 --entries 2 --max-states 20000");
    assert!(printed.contains("where reductions may have left out runs"), "{printed}");
    let within = "check maekawa --nodes 4 --with corrections=no-failed --property deadlock-free";
    let report = json(&format!("{within} --depth 15"));
    assert_eq!(property(&report, "deadlock-free")["steps"], 14);
    let printed = text("check maekawa --nodes 4 --delays 2");
    assert!(printed.contains("only runs with at most 2 delays"), "{printed}");
    assert!(printed.contains("not decided"), "{printed}");
    let printed = text("check lamport --nodes 5 --walks 50 --property mutual-exclusion");
    assert!(printed.contains("50 random runs, which prove nothing"), "{printed}");
}

#[test]
fn few_delays_suffice_for_a_deadlock() {
    let report = json("check maekawa-basic --nodes 4 --delays 4");
    assert_eq!(property(&report, "deadlock-free")["holds"], false);
    assert_eq!(report["complete"], false);
}

#[test]
fn the_entries_of_an_election_are_its_starts() {
    let once = json("check bully --nodes 2 --entries 1");
    let twice = json("check bully --nodes 2 --entries 2");
    assert!(once["states"].as_u64() < twice["states"].as_u64());
    assert_eq!(property(&once, "agreement")["holds"], true);
    assert_eq!(property(&json("check bully --nodes 3 --timers any"), "agreement")["holds"], false);
}

#[test]
fn goals_that_are_not_reached_are_shown() {
    assert_eq!(code("check lamport --nodes 2 --contenders 0"), Some(64));
    assert_eq!(code("check lamport --nodes 2 --entries 0"), Some(64));
    let printed = text("check lamport --nodes 2 --depth 2");
    assert!(printed.contains("not reached         process 0 enters"), "{printed}");
    let report = json("check maekawa --nodes 4");
    let goals = report["goals"].as_array().expect("a list");
    let named = |name: &str| goals.iter().any(|goal| goal["name"] == name);
    assert!(named("inquire is answered by relinquish"), "{goals:?}");
}

#[test]
fn a_counterexample_is_replayed_and_drawn() {
    let directory = directory("counterexample");
    let path = directory.to_str().expect("a path in letters");
    assert_eq!(code(&format!("check maekawa-basic --nodes 4 --counterexample {path}")), Some(1));
    let script = directory.join("maekawa-basic-4-deadlock-free.script");
    let replayed = mutua(&format!("replay {}", script.display()));
    assert_eq!(replayed.status.code(), Some(0), "{}", String::from_utf8_lossy(&replayed.stdout));
    let picture = fs::read_to_string(directory.join("maekawa-basic-4-deadlock-free.svg"));
    assert!(picture.expect("a picture").starts_with("<svg"));
}

#[test]
fn a_crash_is_survived_with_the_generic_repair() {
    let repaired = "check naimi-trehel --nodes 3 --crashes 1 --repair generic";
    for election in ["bully", "chang-roberts"] {
        let report = json(&format!("{repaired} --election {election}"));
        for name in ["mutual-exclusion", "deadlock-free", "liveness", "agreement", "fencing"] {
            assert_eq!(property(&report, name)["holds"], true, "{election}: {name}");
        }
    }
    // Without the repair the token is lost with the process.
    assert_eq!(code("check naimi-trehel --nodes 3 --crashes 1"), Some(1));
    let shown = text(
        "check naimi-trehel --nodes 4 --contenders 1,2 --crashes 1 --repair generic-without-views \
         --property mutual-exclusion --first",
    );
    assert!(shown.contains("the detector reports to"), "{shown}");
}

#[test]
fn a_repair_that_does_not_fit_is_refused_with_what_would_be_right() {
    for (arguments, right) in [
        ("check bully --repair generic", "naimi-trehel"),
        ("check central --election bully", "--repair generic"),
        ("check central --detector perfect", "--repair generic"),
        ("check central --repair generic --losses 1", "--crashes"),
        ("check central --repair quick", "special"),
        ("check central --repair generic --election raft", "chang-roberts"),
        ("simulate bully --repair generic", "no critical section"),
        ("simulate central --repair none --election bully", "--repair none"),
        ("simulate central --repair none --crash coordinator@5ms", "2@10ms"),
        ("simulate central --crash leader@5ms", "coordinator"),
        ("simulate lamport --crash token@5ms", "lamport has no token"),
        ("simulate bully --crash coordinator@5ms", "election"),
        ("simulate central --repair generic --loss 0.1", "leave --loss out"),
        ("simulate central --repair generic --detector slow", "perfect:5ms"),
        ("simulate central --repair generic-without-views", "--repair generic"),
    ] {
        let done = mutua(arguments);
        let error = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(64), "{arguments}: {error}");
        assert!(error.contains(right), "{arguments}: {error}");
    }
}

#[test]
fn a_simulated_crash_is_repaired_without_loss() {
    let run = "simulate central --nodes 9 --with coordinator=member --load saturated --entries 500";
    let report = json(&format!("{run} --crash 0@50ms --repair generic --detector perfect:5ms"));
    assert_eq!((&report["requests_lost"], &report["double_entries"]), (&0.into(), &0.into()));
    let repairs = report["repairs"].as_array().expect("a list");
    assert_eq!(repairs.len(), 1);
    assert_eq!(repairs[0]["leader"], 8);
    assert_eq!(report["messages_by_purpose"]["repair"]["view"], 7);
}

#[test]
fn the_crash_of_a_coordinator_is_repaired_by_the_named_election() {
    let run = "simulate central --nodes 9 --entries 200 --crash coordinator@50ms --election bully";
    let report = json(run);
    assert_eq!((&report["requests_lost"], &report["double_entries"]), (&0.into(), &0.into()));
    assert_eq!(
        (&report["repair"], &report["repairs"][0]["leader"]),
        (&"generic".into(), &8.into())
    );
}

#[test]
fn a_voter_is_taken_over_by_the_special_repair() {
    let run = "simulate maekawa --nodes 9 --load saturated --entries 200";
    let report = json(&format!("{run} --crash quorum-member@50ms --repair special"));
    assert_eq!((&report["requests_lost"], &report["double_entries"]), (&0.into(), &0.into()));
    assert_eq!(report["repairs"][0]["how"], "special");
    assert!(report["messages_by_purpose"].get("election").is_none());
}

#[test]
fn a_counterexample_of_a_repair_is_a_script_that_replays() {
    let directory = directory("repair-counterexample");
    let run = "check naimi-trehel --nodes 3 --repair generic --detector timeout --first \
               --property mutual-exclusion";
    assert_eq!(code(&format!("{run} --counterexample {}", directory.display())), Some(1));
    let name = "naimi-trehel-3-repair-bully-suspicions-mutual-exclusion";
    let script = directory.join(format!("{name}.script"));
    let text = fs::read_to_string(&script).expect("a script");
    assert!(text.contains("expect mutual-exclusion violated"), "{text}");
    let replayed = mutua(&format!("replay {}", script.display()));
    assert_eq!(replayed.status.code(), Some(0), "{}", String::from_utf8_lossy(&replayed.stdout));
    let picture = fs::read_to_string(directory.join(format!("{name}.svg")));
    assert!(picture.expect("a picture").contains("crashed"));
}

#[test]
fn the_output_begins_with_the_scope_of_its_verdicts() {
    let head = |arguments: &str| text(arguments).lines().next().unwrap_or_default().to_owned();
    assert_eq!(
        head("check naimi-trehel --nodes 2 --entries 2 --losses 1 --max-states 1"),
        "naimi-trehel of 2 processes; all contend, 2 entries each, links that reorder, at most 1 \
         loss"
    );
    let lamport = head("check lamport --nodes 3 --contenders 0,2 --property mutual-exclusion");
    assert_eq!(
        lamport,
        "lamport of 3 processes; contenders P0 P2, 1 entry each, FIFO links, no faults"
    );
    assert!(head("check central --nodes 2").contains("P2 a dedicated coordinator"));
}

#[test]
fn misuse_is_explained_by_what_was_given() {
    for (arguments, words) in [
        ("check --all --nodes 3", "cannot be used with"),
        ("check", "or --all"),
        ("check lamport --nodes 3 --contenders 7", "7 contenders, but 3 processes"),
        ("check lamport --nodes 3 --contenders 0,7", "give ids from 0 to 2"),
        ("verify job abc", "invalid fencing token `abc`"),
        ("lock -E 999 job -- true", "invalid exit code `999`: use 0 to 255"),
        ("check lamport --nodes 2 --invariant @/dev/null", "/dev/null has no formula"),
        ("check lamport --nodes 2 --threads 100000", "256"),
        ("check lamport --nodes 2 --threads 0", "256"),
        ("check lamport --nodes 2 --graph x.html", "ends in .svg, .png or .pdf"),
        ("elect --observe -n job", "cannot be used with"),
        ("elect --observe --ttl 5s job", "cannot be used with"),
        ("check lamport --nodes 2 --graph x.svg --invariant false", "cannot be used with"),
        ("check lamport --nodes 2 --contenders 0,0", "contender 0 is given twice"),
        ("check lamport --nodes 4000000000", "at most 15"),
        (
            "check dijkstra --with daemon=central --invariant false",
            "invariants do not apply under a daemon",
        ),
        ("check dijkstra --with daemon=central --property liveness", "only convergence"),
        ("check dijkstra --with daemon=central --app-messages 2", "messages of the application"),
        ("check dijkstra --with daemon=central --timers any", "timers do not apply"),
        ("check dijkstra --with daemon=central --in-cs", "holders do not apply"),
        ("check dijkstra --with daemon=central --nodes 4000000000", "at most 15"),
        ("check dijkstra --property convergence", "unknown property"),
        ("check lamport --nodes 2 --crashed 1", "crashed from the start do not apply"),
        ("check lamport --nodes 2 --timers any", "timers do not apply to mutual exclusion"),
        ("check bully --nodes 2 --in-cs", "holders do not apply to an election"),
        ("check raymond --nodes 2 --app-messages 5", "leave them out, or check ordering"),
        ("check lamport --nodes 2 --walks 5 --reduction none", "cannot be used with"),
        ("check lamport --nodes 2 --walks 5 --first", "cannot be used with"),
        ("check lamport --nodes 2 --graph x.dot --depth 3", "cannot be used with"),
        ("check lamport --nodes 2 --graph x.dot --time 1s", "cannot be used with"),
        ("check lamport --nodes 2 --graph x.dot --reduction both", "use --reduction all or none"),
        ("check lamport --language", "cannot be used with"),
        ("check --language --depth 3", "cannot be used with"),
        ("check lamport --nodes 2 --entries 300", "at most 255"),
        ("check lamport --nodes 2 --walks 0", "from 1 to"),
        ("check lamport --nodes 4000000000 --contenders 3999999999", "at most 15"),
        ("check lamport --nodes 3 --contenders 3999999999", "give at most 3"),
        ("check lamport --nodes 2 --invariant size(messages(relpy))=0", "nearest one is `reply`"),
        ("check dijkstra --with daemon=central --nodes 12", "use fewer processes"),
        ("cluster up 3 --algorithm nope", "unknown algorithm of nodes `nope`"),
        ("demo bank --picture x.foo", "ends in .svg, .png or .pdf"),
        ("node --listen localhost:7992", "use IP:PORT"),
        ("choose --crash token@1ms", "is not for `choose`: name the process by its id"),
    ] {
        let done = mutua(arguments);
        let printed = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(64), "{arguments}: {printed}");
        assert!(printed.contains(words), "{arguments}: {printed}");
    }
    assert_eq!(code("help --help"), Some(0));
    assert_eq!(code("cluster up 2 --directory /proc/x"), Some(73));
}

#[test]
fn a_deadlock_is_explained_by_its_cycle_or_by_a_crash() {
    let found = text("check maekawa-basic --nodes 4");
    assert!(found.contains("deadlock: P0 waits for P1, which waits for P0\n"), "{found}");
    let report = json("check central --nodes 2 --crashes 1");
    let reason = &property(&report, "deadlock-free")["explanation"];
    assert_eq!(reason, "deadlock: P0 waits for P2, which has crashed");
    assert!(property(&report, "fencing")["explanation"].is_null());
}

#[test]
fn a_property_behind_a_violation_says_why_it_is_not_decided() {
    let found = text("check le-lann --nodes 3 --duplicates 1 --property liveness");
    let why = "not decided: mutual-exclusion is violated, and behind that nothing is searched";
    assert!(found.contains(why), "{found}");
}

#[test]
fn what_was_lost_is_a_part_of_the_reason() {
    let printed = text("check le-lann --nodes 2 --losses 1 --property deadlock-free");
    let token = "deadlock: P0 waits for P1; the token from P0 to P1 was dropped\n";
    assert!(printed.contains(token), "{printed}");
    let printed = text("check naimi-trehel --nodes 3 --crashes 1 --property deadlock-free");
    assert!(printed.contains("; the token was lost with the crash of P0\n"), "{printed}");
    let printed = text("check bully --nodes 2 --losses 1 --property termination");
    let undecided = "P0 waits for ever for the coordinator; the message coordinator from P1 to P0 \
                     was dropped\n";
    assert!(printed.contains(undecided), "{printed}");
    let printed = text("check invitation --nodes 2 --losses 1 --property termination");
    let lasso = printed.lines().find(|line| line.contains(" repeat: ")).expect(&printed);
    assert!(lasso.contains("P0 waits for ever; P0 times out (look)"), "{lasso}");
    assert!(lasso.contains("P1 ") && lasso.contains("receives are-you-there"), "{lasso}");
    assert!(lasso.ends_with("; the message ready from P1 to P0 was dropped"), "{lasso}");
}

#[test]
fn the_goals_that_were_reached_are_listed() {
    let found = text("check ricart-agrawala --nodes 2 --property mutual-exclusion");
    assert!(
        found.contains("  reached 5 of 5 goals: process 0 enters; process 1 enters; "),
        "{found}"
    );
    assert!(found.contains("; request is answered by reply\n"), "{found}");
}

#[test]
fn a_counterexample_to_agreement_ends_with_what_is_wrong() {
    let restarted = text("check bully --nodes 3 --crashes 1 --restarts 1");
    let wrong = "P0 takes P1 for the coordinator, but P2, which is higher, is up";
    assert!(restarted.contains(wrong), "{restarted}");
    let suspected = "--repair generic --detector timeout --property agreement --first";
    let suspected = text(&format!("check central --nodes 3 --with coordinator=member {suspected}"));
    assert!(suspected.contains("at P2: P0 is a coordinator too"), "{suspected}");
    assert!(suspected.contains("P0: idle") && suspected.contains("(not claimed)"), "{suspected}");
}

#[test]
fn verbs_and_nouns_follow_their_numbers() {
    let two = text("check le-lann --nodes 3 --repair special --timers any");
    assert!(two.contains("mutual-exclusion and agreement are violated"), "{two}");
    let one = text("check lamport --nodes 4 --max-memory 1");
    assert!(one.contains("  1 state, "), "{one}");
    assert!(!one.contains(" 1 states") && !one.contains(" 1 steps"), "{one}");
}

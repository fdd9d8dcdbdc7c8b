//! The answers for the page.

use mutua_lab::{
    EXAMPLES, Script,
    reply::{Query, Reply, reply, reply_json},
};
use serde_json::{Value, json};

fn ask(query: Value) -> Value {
    serde_json::from_str(&reply_json(&query.to_string())).expect("a reply is JSON")
}

fn play(script: &str) -> Value {
    ask(json!({"query": "play", "script": script}))
}

fn example(name: &str) -> Value {
    ask(json!({"query": "example", "name": name}))
}

fn catalogue() -> Value {
    ask(json!({"query": "catalogue"}))
}

fn steps(played: &Value) -> &Vec<Value> {
    played["steps"].as_array().unwrap_or_else(|| panic!("no steps in {played}"))
}

/// The script of a reply up to this step.
fn script_to(played: &Value, step: usize) -> String {
    let lines = steps(played)[1..=step].iter().map(|step| step["line"].as_str().expect("a line"));
    let head = played["head"].as_str().expect("a head");
    format!("{head}{}\n", lines.collect::<Vec<_>>().join("\n"))
}

fn last_finding(played: &Value) -> &Value {
    &steps(played).last().expect("a step")["finding"]
}

#[test]
fn the_opening_scene_ends_in_a_deadlock_that_names_the_votes() {
    let played = example("scenes/opening");
    assert_eq!(steps(&played).len(), 9);
    let finding = last_finding(&played);
    assert_eq!(
        finding["sentence"],
        "Deadlock: P0 needs P2's vote, which P3 has; P3 needs P1's vote, which P0 has. Nothing is \
         in flight, so nothing will ever change."
    );
    let edges: Vec<_> = finding["cycle"]
        .as_array()
        .unwrap()
        .iter()
        .map(|edge| {
            (
                edge["from"].as_u64().unwrap(),
                edge["to"].as_u64().unwrap(),
                edge["why"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        edges,
        [
            (0, 2, "needs-vote-of"),
            (2, 3, "has-voted-for"),
            (3, 1, "needs-vote-of"),
            (1, 0, "has-voted-for")
        ]
    );
    assert!(steps(&played)[..8].iter().all(|step| step["finding"].is_null()));
}

#[test]
fn three_on_the_plane_wait_in_a_circle() {
    let played = example("maekawa-basic/plane-deadlock");
    let sentence = last_finding(&played)["sentence"].as_str().unwrap().to_owned();
    for part in ["1 needs 2's vote, which 2 keeps", "3 needs 4's vote, which 1 has"] {
        assert!(sentence.contains(part), "{sentence}");
    }
}

#[test]
fn the_repair_of_the_opening_scene_lets_both_enter() {
    let played = example("scenes/solved");
    let last = steps(&played).last().unwrap();
    assert_eq!(last["entries"], 2);
    assert!(steps(&played).iter().all(|step| step["finding"].is_null()));
    let lines: Vec<_> = steps(&played).iter().map(|step| step["line"].to_string()).collect();
    for kind in ["inquire", "relinquish"] {
        assert!(lines.iter().any(|line| line.contains(kind)), "{kind} in {lines:?}");
    }
}

#[test]
fn every_example_is_played_as_its_script_is() {
    for one in EXAMPLES {
        let script = one.script().unwrap();
        let played = example(one.name);
        let whole = script.play().unwrap();
        let taken = whole.events.iter().map(|event| event.at).max().unwrap_or(0) as usize;
        assert_eq!(steps(&played).len(), taken + 1, "{}", one.name);
        // Written as single steps, it is the same run.
        let written = script_to(&played, taken);
        let again = Script::parse(one.name, &written).unwrap().play().unwrap();
        assert_eq!(again.events, whole.events, "{}", one.name);
        let svg = played["diagram"]["svg"].as_str().unwrap();
        let arrows = played["diagram"]["arrows"].as_array().unwrap().len();
        assert!(svg.matches("<path data-m=").count() == arrows, "{}", one.name);
        assert!(arrows == 0 || svg.contains("<text data-m="), "{}", one.name);
        assert!(svg.contains("<circle data-e="), "{}", one.name);
    }
}

#[test]
fn every_negative_control_is_played_to_its_violation() {
    let catalogue = catalogue();
    let controls = catalogue["controls"].as_array().unwrap();
    assert!(controls.len() > 15, "{}", controls.len());
    for control in controls {
        let name = control["name"].as_str().unwrap();
        let played = ask(json!({"query": "control", "name": name}));
        assert_eq!(played["reply"], "played", "{name}: {played}");
        assert!(steps(&played).len() > 1, "{name}");
        if name.contains("mutual-exclusion") || name.contains("deadlock-free") {
            let found = steps(&played).iter().any(|step| !step["finding"].is_null());
            assert!(found, "{name}");
        }
    }
}

#[test]
fn a_step_back_is_a_line_less() {
    let played = example("scenes/opening");
    for step in 0..steps(&played).len() {
        let shorter = play(&script_to(&played, step));
        assert_eq!(steps(&shorter).len(), step + 1);
        for (a, b) in steps(&shorter).iter().zip(steps(&played)) {
            for part in ["line", "rows", "in_flight", "finding", "words"] {
                assert_eq!(a[part], b[part], "step {step}");
            }
        }
    }
}

const REORDERING: &str = "algorithm lamport\nprocesses P0 P1\nlinks any\n";

#[test]
fn lamport_is_broken_on_reordering_links_by_four_choices() {
    let mut script = REORDERING.to_owned();
    for wanted in
        ["P0 requests", "P1 requests", "deliver request P1 -> P0", "deliver reply P0 -> P1"]
    {
        let played = play(&script);
        let choices = played["choices"].as_array().unwrap();
        let choice = choices.iter().find(|choice| choice["line"] == wanted);
        assert!(choice.is_some_and(|choice| choice["refusal"].is_null()), "{wanted}: {choices:?}");
        script += &format!("{wanted}\n");
    }
    let finding = last_finding(&play(&script)).clone();
    assert_eq!(finding["problem"], "mutual-exclusion", "{finding}");
    assert!(finding["sentence"].as_str().unwrap().contains("P0"), "{finding}");
}

#[test]
fn par_is_the_length_of_the_shortest_counterexample() {
    let goals = ask(json!({"query": "goals", "script": REORDERING}));
    assert_eq!(goals["goals"][0]["property"], "mutual-exclusion");
    assert_eq!(goals["goals"][0]["steps"], 4, "{goals}");
    let fifo = REORDERING.replace("links any\n", "");
    let goals = ask(json!({"query": "goals", "script": fifo}));
    assert_eq!(goals["goals"][0]["steps"], Value::Null);
    assert_eq!(goals["goals"][0]["decided"], true);
}

#[test]
fn a_fifo_link_holds_a_message_back_and_the_reason_is_given() {
    let script = "algorithm lamport\nprocesses P0 P1\nP0 requests\nP1 requests\n\
                  deliver request P1 -> P0\n";
    let played = play(script);
    let choices = played["choices"].as_array().unwrap();
    let held = choices.iter().find(|choice| choice["line"] == "deliver reply P0 -> P1").unwrap();
    assert_eq!(held["refusal"], "the link P0 -> P1 is FIFO and `request` comes first");
}

fn risk(script: &str) -> Value {
    let risk = ask(json!({"query": "risk", "script": script}));
    assert_eq!(risk["reply"], "risk", "{risk}");
    risk
}

#[test]
fn the_light_turns_from_yes_to_certainly_on_the_way_to_the_deadlock() {
    let played = example("scenes/opening");
    let levels: Vec<_> = (0..9)
        .map(|step| risk(&script_to(&played, step))["level"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(levels[0], "yes", "{levels:?}");
    // Once each has a vote of which the other has need, no run can go well.
    let turn = levels.iter().position(|level| level == "certainly").expect("it turns");
    assert!(levels[..turn].iter().all(|level| level == "yes"), "{levels:?}");
    assert!(levels[turn..].iter().all(|level| level == "certainly"), "{levels:?}");
    assert_eq!(turn, 4, "{levels:?}");
}

#[test]
fn the_light_says_no_where_the_checker_finds_nothing() {
    let fifo = risk(&REORDERING.replace("links any\n", ""));
    assert_eq!(fifo["level"], "no", "{fifo}");
    let any = risk(REORDERING);
    assert_eq!((any["level"].as_str(), any["nearest"].as_u64()), (Some("yes"), Some(4)), "{any}");
    // A token that goes round for ever comes back to known states.
    let ring = risk("algorithm le-lann\nprocesses A B C\n");
    assert_eq!(ring["level"], "no", "{ring}");
}

#[test]
fn the_same_schedule_is_played_under_another_algorithm() {
    let played = example("scenes/opening");
    let script = script_to(&played, 8);
    let other = ask(json!({"query": "under", "script": script, "algorithm": "maekawa"}));
    assert_eq!(other["algorithm"], "maekawa");
    assert_eq!(steps(&other).last().unwrap()["entries"], 1, "the first enters");
    assert!(last_finding(&other).is_null());
}

#[test]
fn absurd_queries_are_refused_with_a_sentence() {
    let long = "P0 requests\n".repeat(40_000);
    for (query, why) in [
        (json!({"query": "nonsense"}), "invalid query"),
        (json!({"query": "play", "script": "algorithm x\nprocesses A\n"}), "unknown algorithm"),
        (
            json!({"query": "play", "script": "algorithm lamport\nprocesses P1..P999999999\n"}),
            "processes",
        ),
        (json!({"query": "play", "script": format!("{REORDERING}{long}")}), "bytes"),
        (
            json!({"query": "play", "script": format!("{REORDERING}P0 exits\n")}),
            "cannot `P0 exits`",
        ),
        (json!({"query": "example", "name": "x"}), "unknown example"),
        (json!({"query": "control", "name": "x"}), "unknown control"),
        (json!({"query": "under", "script": REORDERING, "algorithm": "x"}), "unknown algorithm"),
        (
            json!({"query": "risk", "script": "algorithm bully\nprocesses A B\n"}),
            "mutual exclusion",
        ),
        (run(1_000_000, "light"), "number of processes"),
        (run(5, "heavy"), "light, saturated or think"),
    ] {
        let reply = ask(query);
        assert_eq!(reply["reply"], "refused", "{reply}");
        assert!(reply["why"].as_str().unwrap().contains(why), "{why}: {reply}");
    }
}

fn run(nodes: u32, load: &str) -> Value {
    json!({"query": "simulate", "algorithm": "ricart-agrawala", "nodes": nodes, "load": load,
        "hold": "1ms", "latency": "1ms", "entries": 50, "seed": 1})
}

#[test]
fn a_run_has_the_figures_of_the_simulator_beside_theory() {
    let simulated = ask(run(5, "saturated"));
    let messages = &simulated["figures"][0];
    assert_eq!(messages["theory"], 8.0, "{messages}");
    assert_eq!(messages["measured"], 8.0, "{messages}");
    assert!(simulated["messages"].as_array().unwrap().len() > 400);
    let command = "mutua simulate ricart-agrawala --nodes 5 --load saturated --hold 1ms \
                   --latency 1ms --entries 50 --seed 1";
    assert_eq!(simulated["command"], command);
    assert_eq!(ask(run(5, "saturated")).to_string(), simulated.to_string());
}

#[test]
fn figures_over_sizes_stand_beside_their_formula() {
    let compared = ask(json!({"query": "compare", "algorithm": "ricart-agrawala",
        "sizes": [2, 8], "load": "light", "hold": "1ms", "latency": "1ms", "seed": 1}));
    let points = compared["points"].as_array().unwrap();
    let figures = |p: &Value| (p["messages"].as_f64(), p["messages_theory"].as_f64());
    let pairs: Vec<_> = points.iter().map(figures).collect();
    assert_eq!(pairs, [(Some(2.0), Some(2.0)), (Some(14.0), Some(14.0))]);
}

#[test]
fn a_query_in_memory_and_one_in_json_have_the_same_reply() {
    let query = Query::Example { name: "scenes/opening".to_owned() };
    let Reply::Played(played) = reply(&query) else { panic!("it is played") };
    let text = serde_json::to_value(&*played).unwrap();
    assert_eq!(text["hash"], example("scenes/opening")["hash"]);
}

#[test]
fn traces_of_nodes_become_steps_in_which_no_message_arrives_before_it_is_sent() {
    let header =
        r#"{"mutua-trace":1,"algorithm":"naimi-trehel","processes":["a","b"],"unit":"ns"}"#;
    // The clock of b is behind: its answer seems to be older than the request.
    let a = [
        r#"{"at":100,"who":"a","what":"start","state":{"father":"b","token":"false"}}"#,
        r#"{"at":110,"who":"a","what":"request","state":{"father":"-"}}"#,
        r#"{"at":110,"who":"a","what":"send","to":"b","id":18446744073709551615,"kind":"request"}"#,
        r#"{"at":130,"who":"a","what":"receive","from":"b","id":7,"kind":"token"}"#,
        r#"{"at":130,"who":"a","what":"enter","fencing_token":5}"#,
    ];
    let b = [
        r#"{"at":100,"who":"b","what":"start","state":{"father":"-","token":"true"}}"#,
        r#"{"at":104,"who":"b","what":"receive","from":"a","id":18446744073709551615,"kind":"request"}"#,
        r#"{"at":104,"who":"b","what":"send","to":"a","id":7,"kind":"token"}"#,
        r#"{"at":140,"who":"b","what":"crash"}"#,
    ];
    let part = |lines: &[&str]| format!("{header}\n{}", lines.join("\n"));
    let played = ask(json!({"query": "trace", "parts": [part(&a), part(&b)]}));
    let steps = played["steps"].as_array().unwrap();
    let words: Vec<_> = steps.iter().map(|step| step["words"].as_str().unwrap()).collect();
    assert_eq!(
        words,
        [
            "",
            "a requests, sends request to b.",
            "b gets request from a, sends token to a.",
            "a gets token from b, enters, fencing token 5.",
            "b crashes.",
        ]
    );
    assert_eq!(played["times"], json!([100, 110, 104, 130, 140]));
    assert_eq!(steps[1]["in_flight"][0]["kind"], "request");
    assert_eq!(steps[2]["received"], json!([0, steps[1]["in_flight"][0]["id"]]));
    assert_eq!(steps[0]["rows"]["0"]["points"], json!([["father", 1]]));
    assert_eq!(steps[3]["rows"]["0"]["phase"], "in_cs");
    assert_eq!(steps[4]["rows"]["1"]["phase"], "down");
    assert_eq!(steps[4]["rows"]["1"]["variables"], json!({}));

    let other = part(&a).replace("naimi-trehel", "lamport");
    let refused = ask(json!({"query": "trace", "parts": [part(&a), other]}));
    assert!(refused["why"].as_str().unwrap().contains("different runs"), "{refused}");
    let refused = ask(json!({"query": "trace", "parts": ["{}"]}));
    assert_eq!(refused["reply"], "refused");
}

#[test]
fn a_run_with_a_crash_goes_on_after_its_repair() {
    let with = |repair: Option<&str>| {
        let mut query = run(5, "saturated");
        query["algorithm"] = "naimi-trehel".into();
        query["crash"] = "2@40ms".into();
        query["repair"] = repair.into();
        ask(query)
    };
    let entries = |run: &Value| run["entered"].as_array().unwrap().len();
    let (without, repaired) = (with(None), with(Some("generic")));
    assert!(entries(&repaired) > entries(&without) + 10, "{}", entries(&without));
    let figure =
        repaired["figures"].as_array().unwrap().iter().find(|one| one["name"] == "repairs");
    assert_eq!(figure.unwrap()["measured"], 1.0);
    assert!(repaired["command"].as_str().unwrap().ends_with("--crash 2@40ms --repair generic"));
    assert_eq!(with(Some("magic"))["reply"], "refused");
}

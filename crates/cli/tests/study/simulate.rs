//! `mutua simulate`, as a user runs it: its JSON, its exit codes, its files.

use std::{
    env, fs,
    process::{Command, Output},
};

use serde_json::Value;

fn mutua(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments.split(' ')).output().expect("the binary runs")
}

fn json(arguments: &str) -> Value {
    let output = mutua(&format!("{arguments} --json"));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn scripts_find_the_figures_that_they_need() {
    let run = "simulate lamport --nodes 10 --load saturated --hold 1ms --latency 1ms --entries 200";
    let found = json(&format!("{run} --seed 3"));
    assert_eq!(found["entries"], 200);
    assert_eq!(found["messages_per_entry"], 27.0);
    assert_eq!(found["multicasts_per_entry"], 11.0);
    assert_eq!(found["client_delay"], Value::Null);
    assert_eq!(found["sync_delay"], 1.0);
    assert_eq!(found["max_bypass"], 9);
    assert_eq!(found["violations"], Value::Array(Vec::new()));
    assert!(found["events"].as_u64() > Some(200 * 27));
    assert!(found["events_per_second"].as_f64() > Some(0.0));
    assert_eq!(found["trace_hash"], json(&format!("{run} --seed 3"))["trace_hash"]);
    let light = json("simulate ricart-agrawala --nodes 5 --load light --entries 50");
    assert_eq!((&light["client_delay"], &light["sync_delay"]), (&2.0.into(), &Value::Null));
}

#[test]
fn theory_is_silent_where_its_assumptions_do_not_hold() {
    let silent = |run: &str| {
        let found = json(&format!("simulate lamport --nodes 4 --entries 40 {run}"));
        assert_eq!(found["theory"]["messages"], Value::Null, "{run}");
        found["no_theory"].as_str().expect("a reason").to_owned()
    };
    assert!(silent("--load saturated --hold 0.1ms").contains("T/2"));
    assert!(silent("--load saturated --latency exp:1ms").contains("constant"));
    assert!(silent("--load light --latency 0ms").contains("which is 0"));
    assert!(silent("--load light --latency exp:1ms").contains("constant"));
    assert!(silent("--load light --gap 3ms").contains("gap"));
    assert!(silent("--load light --pace 10ms").contains("pace"));
}

#[test]
fn without_an_entry_there_is_no_figure_and_alone_there_are_zeros() {
    let none = json("simulate central --nodes 3 --loss 1 --entries 10");
    assert_eq!((&none["entries"], &none["messages_per_entry"]), (&0.into(), &Value::Null));
    assert_eq!((&none["bytes_per_entry"], &none["jain"]), (&Value::Null, &Value::Null));
    let alone = mutua("simulate lamport --nodes 1 --entries 10");
    assert!(!String::from_utf8_lossy(&alone.stdout).contains("-0.0000"));
}

#[test]
fn several_runs_have_one_hash_and_name_their_seeds() {
    let run = "simulate raymond --nodes 4 --entries 20 --seed 3";
    let both = json(&format!("{run} --runs 2"));
    assert_eq!(both["seeds"], serde_json::json!([3, 4]));
    assert_ne!(both["trace_hash"], json(run)["trace_hash"]);
    assert_eq!(both["trace_hash"], json(&format!("{run} --runs 2"))["trace_hash"]);
}

#[test]
fn structures_are_taken_from_the_command_line() {
    let star = "simulate raymond --nodes 9 --load saturated --entries 90 --topology star";
    assert_eq!(json(star)["messages_per_entry"], 4.0 * 8.0 / 9.0);
    let plane = "simulate maekawa --nodes 13 --entries 40 --quorums plane";
    assert_eq!(json(plane)["messages_per_entry"], 9.0);
}

#[test]
fn a_violation_is_printed_with_its_replay_and_exit_code_1() {
    let run = "simulate lamport --nodes 5 --load think:5ms --latency exp:1ms --reorder";
    let output = mutua(&format!("{run} --entries 1000 --shrink --json"));
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).expect("the object all the same");
    assert_ne!(found["violations"], Value::Array(Vec::new()));
    let printed = stderr(&output);
    let replays: Vec<_> =
        printed.lines().filter_map(|line| line.strip_prefix("replay: mutua ")).collect();
    assert_eq!(replays.len(), 2, "{printed}");
    for replay in replays {
        assert_eq!(mutua(replay).status.code(), Some(1), "{replay}");
    }
}

/// The same of mutual exclusion, of an election and of a ring under a daemon.
#[test]
fn of_several_runs_a_violation_names_its_seed() {
    for (run, seed) in [
        ("lamport --nodes 5 --load think:5ms --latency exp:1ms --reorder --entries 300", 2),
        ("bully --nodes 4 --loss 0.4", 3),
        ("dijkstra --with daemon=synchronous --with k=2 --nodes 4", 3),
    ] {
        let printed = |runs: &str| {
            let output = mutua(&format!("simulate {run} {runs}"));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert!(
            printed("--runs 3").contains(&format!(" seed {seed}, ")),
            "{}",
            printed("--runs 3")
        );
        assert!(!printed(&format!("--seed {seed}")).contains(&format!(" seed {seed}, ")), "{run}");
        let found = json(&format!("simulate {run} --runs 3"));
        let violations = found["violations"].as_array().expect("a list");
        let of_seed = violations.iter().find(|violation| violation["seed"] == seed);
        let of_seed = of_seed.unwrap_or_else(|| panic!("none of seed {seed}: {violations:?}"));
        let alone = json(&format!("simulate {run} --seed {seed}"));
        assert_eq!(*of_seed, alone["violations"][0], "{run}");
    }
}

#[test]
fn elections_print_messages_turnaround_and_the_elected() {
    let found = json("simulate bully --nodes 10 --crashed 9 --starters 8");
    assert_eq!((&found["messages"], &found["elected"]), (&9.into(), &8.into()));
    assert!(found["turnaround"].as_f64() > Some(2.0));
    assert_eq!(found["violations"], Value::Array(Vec::new()));
}

#[test]
fn a_trace_is_the_same_bytes_for_the_same_seed() {
    let written = [1, 2].map(|number| {
        let file = env::temp_dir().join(format!("mutua-{}-{number}.jsonl", std::process::id()));
        let run = "simulate maekawa --nodes 9 --load saturated --entries 20 --latency exp:1ms";
        let output = mutua(&format!("{run} --trace {}", file.display()));
        assert!(output.status.success(), "{}", stderr(&output));
        let text = fs::read(&file).expect("the trace is there");
        fs::remove_file(&file).expect("and can go");
        text
    });
    assert!(written[0].len() > 1000);
    assert_eq!(written[0], written[1]);
}

#[test]
fn a_run_is_drawn() {
    let file = env::temp_dir().join(format!("mutua-{}.svg", std::process::id()));
    let run = "simulate ricart-agrawala --nodes 3 --requests 0@0ms,1@0.5ms --latency 1ms";
    let output = mutua(&format!("{run} --diagram {}", file.display()));
    assert!(output.status.success(), "{}", stderr(&output));
    let picture = fs::read_to_string(&file).expect("the picture is there");
    fs::remove_file(&file).expect("and can go");
    assert!(picture.starts_with("<svg") && picture.contains("P2") && picture.contains("reply"));
}

#[test]
fn a_file_that_cannot_be_written_is_not_a_violation() {
    for option in ["--trace", "--diagram"] {
        let output = mutua(&format!("simulate central --entries 5 {option} /no/such/folder/file"));
        assert_eq!(output.status.code(), Some(73), "{}", stderr(&output));
        assert!(stderr(&output).contains("/no/such/folder/file"));
    }
    let help = mutua("simulate --help");
    let help = String::from_utf8_lossy(&help.stdout);
    // The help is wrapped.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("73 a file cannot be written"), "{help}");
}

#[test]
fn bad_input_is_answered_with_what_is_allowed() {
    for (arguments, expected) in [
        ("simulate raymnd", "did you mean `raymond`"),
        ("simulate raymond --nodes 0", "from 1 to"),
        ("simulate maekawa --quorums plane --nodes 10", "7 and 13"),
        ("simulate raymond --latency -1ms", "invalid duration"),
        ("simulate central --with coordinator=x", "dedicated, member"),
        ("simulate central --load fast", "light, saturated"),
        ("simulate central --entries 0", "from 1 to"),
        ("simulate central --loss 2", "from 0 to 1"),
        ("simulate central --requesters hot:99", "give 1 to 10"),
        ("simulate central --regions 3,3 --wan 5ms", "add up to 6 processes"),
        ("simulate bully --entries 5", "does not apply to bully"),
        ("simulate bully --load light", "--starters and --crashed"),
        ("simulate bully --app-messages 1ms", "does not apply to bully"),
        ("simulate central --property order", "did you mean `ordering`"),
        ("simulate central --property swift", "ordering, bounded-bypass"),
        ("simulate central --app-messages -1ms", "invalid duration"),
        ("simulate central --load saturated --gap 1ms", "to light load only"),
        ("simulate central --load light --requests 0@1ms", "cannot be used with"),
        ("simulate central --requesters hot:2 --requests 0@1ms", "does not apply to a list"),
        ("simulate central --per-node", "--json"),
        ("simulate dijkstra --with daemon=central --load light", "without messages"),
        ("simulate dijkstra --with daemon=central --hold 1ms", "without messages"),
        ("simulate dijkstra --with daemon=central --latency 1ms", "without messages"),
        ("simulate central --starters 1", "applies to elections"),
        ("simulate central --app-messages 0", "give a time"),
        ("simulate central --partition 1ms..2ms:99", "0 to 10"),
        ("simulate central --entries -5", "give a whole number"),
        ("simulate central --entries abc", "give a whole number"),
        ("simulate central --seed -1", "from 0 to"),
        ("simulate central --runs 0", "from 1 to"),
        ("simulate central --load think", "think:10ms"),
        ("simulate bully --transmission -1ms", "invalid duration"),
        ("compare --loads x", "a number above 0"),
        ("compare --max-events 0", "from 1 to"),
        ("choose --hot x", "give a whole number"),
        ("choose --runs 0", "from 1 to"),
        ("simulate bully --nodes 3 --starters 7", "0 to 2"),
        ("simulate bully --nodes 3 --starters 1,0,1", "duplicate process 1"),
        ("simulate raymond --topology kary:0", "at least 1"),
        ("simulate central --topology star", "applies to raymond and neilsen-mizuno"),
        ("simulate raymond --quorums grid", "applies to maekawa-basic and maekawa"),
        ("simulate central --with queue=clock --with queue=arrival", "give one of them"),
        ("simulate central --nodes -3", "give a whole number from 1"),
        ("simulate central --nodes abc", "give a whole number from 1"),
        ("simulate central --nodes 99999999999", "to 4294967295"),
        ("simulate central --partition 20ms..10ms:0", "must end after it begins"),
        ("simulate maekawa --quorums plane --nodes 3", "the nearest is 7"),
    ] {
        let output = mutua(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{arguments}");
    }
}

#[test]
fn a_daemon_runs_dijkstras_ring_until_it_settles_or_shows_that_it_does_not() {
    let ring = "simulate dijkstra --with daemon=";
    let settled = json(&format!("{ring}central --nodes 6 --runs 5"));
    assert_eq!((&settled["settled"], &settled["runs"]), (&true.into(), &5.into()));
    assert!(settled["settling_steps"].as_f64() > Some(0.0));
    assert_ne!(settled["trace_hash"], json("simulate dijkstra --nodes 6")["trace_hash"]);
    let run = format!("{ring}synchronous --with k=2 --flags 0,1,0,1");
    assert_eq!(mutua(&run).status.code(), Some(1));
    let found = json(&run);
    assert_eq!((&found["settled"], &found["nodes"]), (&false.into(), &4.into()));
    assert_eq!(found["settling_steps"], Value::Null);
    assert_eq!(found["violations"][0]["property"], "convergence");
    for wrong in ["simulate dijkstra --flags 0,1", "simulate raymond --max-steps 5"] {
        assert_eq!(mutua(wrong).status.code(), Some(64), "{wrong}");
    }
    let wrong = mutua(&format!("{ring}central --trace x.jsonl"));
    assert_eq!(wrong.status.code(), Some(64), "{}", stderr(&wrong));
}

#[test]
fn messages_of_the_application_show_who_does_not_keep_the_order() {
    let run = |name: &str, more: &str| {
        let load = "--nodes 5 --load think:exp:4ms --latency exp:1ms --app-messages exp:1ms \
                    --entries 2000";
        format!("simulate {name} {load}{more}")
    };
    for name in ["central", "le-lann"] {
        let found = json(&run(name, ""));
        assert_eq!(found["violations"], Value::Array(Vec::new()), "{name}");
        assert_eq!(found["unclaimed"][0]["property"], "ordering", "{name}");
        assert!(found["app_messages"].as_u64() > Some(0), "{name}");
        assert_eq!(mutua(&run(name, "")).status.code(), Some(0), "{name}");
        let judged = run(name, " --property ordering");
        assert_eq!(mutua(&judged).status.code(), Some(1), "{name}");
        assert_eq!(json(&judged)["violations"][0]["property"], "ordering", "{name}");
    }
    let plain = run("ricart-agrawala", " --with replies=plain");
    assert_eq!(mutua(&plain).status.code(), Some(1));
    assert_eq!(json(&run("ricart-agrawala", ""))["overtakings"], 0);
    assert_eq!(json(&run("lamport", ""))["overtakings"], 0);
}

#[test]
fn a_single_run_has_intervals_and_several_have_the_quantiles_of_all() {
    let run = "simulate naimi-trehel --nodes 20 --load think:20ms --latency exp:1ms";
    let single = json(&format!("{run} --entries 4000"));
    assert_eq!(single["interval_method"], "batch means");
    let interval = &single["intervals"]["messages_per_entry"];
    assert_eq!(interval["mean"], single["messages_per_entry"]);
    assert!(interval["half_width"].as_f64() > Some(0.0));
    let p99 = |seed: u32| {
        let found = json(&format!("{run} --entries 500 --seed {seed}"));
        found["waiting_time"]["p99"].as_f64().expect("a figure")
    };
    let both = json(&format!("{run} --entries 500 --seed 1 --runs 2"));
    assert_eq!(both["interval_method"], "seeds");
    let pooled = both["waiting_time"]["p99"].as_f64().expect("a figure");
    let (low, high) = (p99(1).min(p99(2)), p99(1).max(p99(2)));
    assert!(low <= pooled && pooled <= high, "{low} {pooled} {high}");
    assert_eq!(both["entries"], 1000);
}

#[test]
fn a_failure_is_cut_short_in_json_and_picture_too() {
    let files = tempfile::tempdir().expect("a directory");
    let path = |name: &str| files.path().join(name).to_string_lossy().into_owned();
    let (picture, trace) = (path("short.svg"), path("short.jsonl"));
    let run = "simulate lamport --nodes 20 --reorder --load saturated --entries 200 --shrink";
    let output = mutua(&format!("{run} --diagram {picture} --trace {trace} --json"));
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let short = &found["shrunk"];
    assert!(short["requests"].as_u64() <= Some(4) && short["nodes"].as_u64() <= Some(3), "{short}");
    let lines = fs::read_to_string(&trace).expect("a trace");
    assert!(lines.lines().count() < 100 && lines.contains("violation"), "{lines}");
    assert!(fs::read_to_string(&picture).expect("a picture").contains("</svg>"));
    let command = short["command"].as_str().expect("a command");
    assert!(lines.contains(command), "{lines}");
    let again = mutua(command.strip_prefix("mutua ").expect("the program"));
    assert_eq!(again.status.code(), Some(1), "{command}");
}

#[test]
fn the_command_that_replays_a_failure_can_be_pasted() {
    let files = tempfile::tempdir().expect("a directory");
    let matrix = files.path().join("my matrix.txt");
    fs::write(&matrix, "0ms 1ms 2ms\n3ms 0ms 1ms\n1ms 5ms 0ms\n").expect("a file");
    let words = "simulate lamport --nodes 3 --reorder --load saturated --entries 100 --matrix";
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    let output = command.args(words.split(' ')).arg(&matrix).output().expect("the binary runs");
    let printed = stderr(&output);
    assert!(printed.contains(&format!("--matrix '{}'", matrix.display())), "{printed}");
}

#[test]
fn a_trace_does_not_depend_on_what_else_is_wanted() {
    let files = tempfile::tempdir().expect("a directory");
    let trace = |more: &str| {
        let path = files.path().join("trace.jsonl");
        let run = "simulate raymond --nodes 5 --entries 20";
        mutua(&format!("{run} --trace {}{more}", path.display()));
        fs::read(&path).expect("a trace")
    };
    let plain = trace("");
    assert!(!plain.is_empty());
    assert_eq!(plain, trace(" --json --per-node"));
    assert_eq!(plain, trace(" --runs 2"));
}

#[test]
fn the_summary_names_the_situation() {
    let run = "simulate maekawa --nodes 7 --quorums plane --latency exp:2ms --reorder --entries 20";
    let text = String::from_utf8_lossy(&mutua(run).stdout).into_owned();
    let head = text.lines().next().expect("a head");
    for part in ["7 processes", "quorums plane", "latency exp:2ms", "links reorder", "20 entries"] {
        assert!(head.contains(part), "{head}");
    }
    assert!(head.contains(json(run)["situation"].as_str().expect("text")), "{head}");
    let one = mutua("simulate central --nodes 3 --requests 1@1ms");
    let one = String::from_utf8_lossy(&one.stdout).into_owned();
    assert!(one.contains(", 1 entry,"), "{one}");
}

#[test]
fn one_is_shown_in_the_singular() {
    for (run, one) in [
        ("central --nodes 3 --requests 1@1ms", "1 request as given"),
        ("bully --nodes 1", "1 process,"),
        ("dijkstra --with daemon=central --nodes 4", "1 run from seed 1"),
        ("dijkstra --with daemon=central --nodes 4", "of 1 run\n"),
        ("central --nodes 4 --load think:2ms --partition 3ms..9ms:0,1", "1 VIOLATION ("),
    ] {
        let text = String::from_utf8_lossy(&mutua(&format!("simulate {run}")).stdout).into_owned();
        assert!(text.contains(one), "{run}: {text}");
    }
}

#[test]
fn costs_of_elections_are_shown_by_the_number_of_starters() {
    let printed = |run: &str| String::from_utf8_lossy(&mutua(run).stdout).into_owned();
    assert!(
        printed("simulate bully --nodes 5")
            .contains("worst case N^2-N-1 (highest down; more if all are up)")
    );
    let all = printed("simulate chang-roberts --nodes 10 --starters all --ring random");
    assert!(all.contains("all start: 3N-1 to N(N+3)/2"), "{all}");
    for option in ["--pace 1ms", "--holder 2", "--shrink"] {
        let output = mutua(&format!("simulate bully --nodes 5 {option}"));
        assert_eq!(output.status.code(), Some(64), "{option}");
    }
}

#[test]
fn options_without_effect_are_refused() {
    let files = tempfile::tempdir().expect("a directory");
    let bad = files.path().join("bad.txt");
    fs::write(&bad, "5ms 1\nx y z\n").expect("a file");
    for (run, why) in [
        ("--requesters zipf:1 --load saturated".to_owned(), "light load, think"),
        ("--regions 0,5 --wan 9ms".to_owned(), "region 0 has no process"),
        (
            format!("--load script:{}", bad.display()),
            "bad.txt:2: invalid request `x y z`: use `TIME ID",
        ),
        (format!("--matrix {}", bad.display()), "bad.txt:1"),
    ] {
        let output = mutua(&format!("simulate central --nodes 5 {run}"));
        assert_eq!(output.status.code(), Some(64), "{run}");
        assert!(stderr(&output).contains(why), "{run}: {}", stderr(&output));
    }
}

#[test]
fn a_diagram_shows_the_entries_that_were_wanted() {
    let directory = tempfile::tempdir().expect("a directory");
    let svg = directory.path().join("x.svg");
    // The second one has a warm-up of fifty entries.
    for run in ["--load saturated --warm-up 0", "--load light"] {
        // In one row, so that no bar is in two.
        let run = format!("simulate lamport --nodes 5 {run} --entries 6 --width 50000 --diagram");
        assert!(mutua(&format!("{run} {}", svg.display())).status.success());
        let svg = fs::read_to_string(&svg).expect("a picture");
        // One of the bars is in the legend.
        assert_eq!(svg.matches("class=\"in-cs\"").count(), 6 + 1, "{run}");
        assert!(svg.contains("time is not to scale"));
    }
}

#[test]
fn a_diagram_shows_the_times_that_were_wanted() {
    let directory = tempfile::tempdir().expect("a directory");
    let svg = directory.path().join("x.svg");
    let run = "simulate central --nodes 3 --requests 0@0ms,1@20ms --latency 1ms --warm-up 0";
    let draw = |steps: &str| mutua(&format!("{run} --diagram {} --steps {steps}", svg.display()));
    assert!(draw("15ms..30ms").status.success());
    let picture = fs::read_to_string(&svg).expect("a picture");
    assert_eq!(picture.matches("class=\"in-cs\"").count(), 1 + 1, "{picture}");
    for (wrong, right) in [("5..12", "10ms..25ms"), ("3ms", "5..12"), ("4ms..3ms", "ends before")] {
        let refused = draw(wrong);
        assert_eq!(refused.status.code(), Some(64), "{wrong}");
        assert!(stderr(&refused).contains(right), "{}", stderr(&refused));
    }
}

#[test]
fn a_crash_after_an_election_is_not_a_violation() {
    let output = mutua("simulate bully --nodes 5 --crash 4@1s");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("4, which has crashed since"), "{text}");
}

#[test]
fn what_does_not_fit_the_virtual_clock_is_refused_with_the_reason() {
    let output = mutua("simulate central --nodes 3 --gap 8000h --entries 1000");
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("years of virtual time"), "{}", stderr(&output));
}

#[test]
fn open_arrivals_wait_as_long_as_they_are_served_slower_than_they_come() {
    let run = "simulate central --nodes 300 --entries 4000 --load";
    let text = |load: &str| {
        let output = mutua(&format!("{run} {load}"));
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let fine = text("poisson:100");
    assert!(fine.contains("100 requests per second at random"), "{fine}");
    assert!(!fine.contains("OVERLOADED"), "{fine}");
    // Without waiting in the queue: a request and a reply.
    assert!(fine.contains("waiting time    mean 2.") && fine.contains(" +- "), "{fine}");
    // The coordinator grants one in 3 ms.
    let too_many = text("poisson:1000");
    assert!(too_many.contains("OVERLOADED") && too_many.contains("(333)"), "{too_many}");
    for (wrong, right) in [("poisson", "poisson:100"), ("poisson:-1", "poisson:100")] {
        let refused = mutua(&format!("{run} {wrong}"));
        assert_eq!(refused.status.code(), Some(64));
        assert!(stderr(&refused).contains(right), "{}", stderr(&refused));
    }
    let repaired = mutua(&format!("{run} poisson:10 --repair generic"));
    assert_eq!(repaired.status.code(), Some(64), "{}", stderr(&repaired));
}

#[test]
fn runs_go_on_until_the_intervals_are_narrow() {
    let run = "simulate naimi-trehel --nodes 10 --load think:exp:20ms --entries 300 --json";
    let found = |precision: &str| -> Value {
        let output = mutua(&format!("{run} --precision {precision}"));
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    };
    let (coarse, fine) = (found("20%"), found("2%"));
    assert_eq!(coarse["runs"], 5);
    assert!(fine["runs"].as_u64() > Some(5), "{fine}");
    assert_eq!(
        fine["per_seed"].as_array().map(Vec::len),
        fine["runs"].as_u64().map(|n| n as usize)
    );
    for measure in ["messages_per_entry", "waiting_time", "throughput"] {
        let of = |key: &str| fine["intervals"][measure][key].as_f64().expect("a number");
        assert!(of("half_width") <= 0.02 * of("mean"), "{measure}: {fine}");
    }
    for wrong in ["--precision 0%", "--precision 1", "--precision 1% --runs 3"] {
        assert_eq!(mutua(&format!("{run} {wrong}")).status.code(), Some(64), "{wrong}");
    }
}

#[test]
fn two_algorithms_are_compared_seed_by_seed() {
    let run = "simulate naimi-trehel --nodes 8 --load think:exp:20ms --entries 400";
    let output = mutua(&format!("{run} --against raymond --json"));
    assert!(output.status.success(), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((&found["second"], &found["runs"]), (&"raymond".into(), &10.into()));
    let pairs = found["pairs"].as_array().expect("measures");
    let messages = pairs.iter().find(|pair| pair["measure"] == "messages_per_entry");
    let messages = messages.expect("messages per entry");
    let number = |value: &Value| value.as_f64().expect("a number");
    let (first, second) = (number(&messages["first"]), number(&messages["second"]));
    assert!((number(&messages["difference"]["mean"]) - (first - second)).abs() < 1e-9);
    // The figures of each are those of its own runs with the same seeds.
    let alone = mutua(&format!("{run} --runs 10 --json"));
    let alone: Value = serde_json::from_slice(&alone.stdout).expect("one JSON object");
    assert!((number(&alone["messages_per_entry"]) - first).abs() < 1e-9);
    let text = mutua(&format!("{run} --against raymond --runs 4"));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("over the differences of 4 seeds"), "{text}");
    for (wrong, right) in [
        ("--against naimi-trehel", "with itself"),
        ("--against bully", "not a mutual exclusion algorithm"),
        ("--against raymnd", "did you mean `raymond`"),
        ("--against raymond --precision 1%", "cannot be used with"),
        ("--against raymond --runs 1", "at least 2 --runs"),
    ] {
        let refused = mutua(&format!("{run} {wrong}"));
        assert_eq!(refused.status.code(), Some(64), "{wrong}");
        assert!(stderr(&refused).contains(right), "{}", stderr(&refused));
    }
}

#[test]
fn a_warm_up_that_is_too_short_is_noted() {
    let run = "simulate naimi-trehel --nodes 50 --entries 200";
    let text = |warm_up: &str| {
        String::from_utf8_lossy(&mutua(&format!("{run} {warm_up}")).stdout).into_owned()
    };
    assert!(text("--warm-up 10").contains("takes a warm-up of about 500 entries"));
    assert!(!text("--warm-up 500").contains("takes a warm-up"));
    assert!(!text("").contains("takes a warm-up"));
}

#[test]
fn latencies_come_from_percentiles_and_from_a_file() {
    let file = std::env::temp_dir().join(format!("mutua-latencies-{}", std::process::id()));
    std::fs::write(&file, "# measured\n3ms\n1ms\n2ms\n").unwrap();
    let run = |latency: &str| {
        json(&format!("simulate central --nodes 5 --entries 2000 --latency {latency}"))
    };
    let table = run("percentiles:0=1ms/50=2ms/100=3ms");
    assert!((table["mean_latency"].as_f64().unwrap() - 0.002).abs() < 1e-12);
    let measured = run(&format!("file:{}", file.display()));
    assert_eq!(table["trace_hash"], measured["trace_hash"]);
    for (latency, right) in [
        ("percentiles:50=1ms/100=2ms", "the shortest duration as 0"),
        ("percentiles:0=1ms/100", "use percentiles:0=1ms"),
        ("file:/nowhere/at/all", "cannot read the latencies"),
    ] {
        let output = mutua(&format!("simulate central --latency {latency}"));
        assert_eq!(output.status.code(), Some(64), "{latency}");
        assert!(stderr(&output).contains(right), "{latency}: {}", stderr(&output));
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn fairness_of_a_single_run_has_an_interval_that_agrees_with_seeds() {
    let half_width = |arguments: &str| {
        let common = "simulate suzuki-kasami --nodes 5 --load think:exp:20ms --entries 4000";
        let found = json(&format!("{common} {arguments}"));
        found["intervals"]["jain"]["half_width"].as_f64().expect("an interval")
    };
    // Over so many seeds the half width is that of one run divided by about sqrt(40).
    let (one, many) = (half_width("--runs 1"), half_width("--runs 40"));
    let ratio = one / (many * 40f64.sqrt());
    assert!((0.3..3.0).contains(&ratio), "{one} and {many}: {ratio}");
}

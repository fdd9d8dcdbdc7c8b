//! `mutua simulate` with a repair, as a user runs it: its lines, its pictures, its refusals.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn mutua(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments.split(' ')).output().expect("the binary runs")
}

fn text(arguments: &str) -> String {
    let output = mutua(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", stderr(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The bars of a picture: who waits, who is in the critical section, who has the token.
fn bars(file: &Path) -> Vec<String> {
    let svg = fs::read_to_string(file).expect("a picture");
    // Trees are drawn below where they are known; a trace does not have them.
    let below = ["\"ground\"", "\"box\"", " rx=\"10\""];
    let is_bar = |line: &&str| {
        line.starts_with("<rect class=\"") && !below.iter().any(|sign| line.contains(sign))
    };
    svg.lines().filter(is_bar).map(str::to_owned).collect()
}

/// A run in which all processes wait and one has the token when a process crashes.
const BUSY: &str = "--nodes 5 --load saturated --entries 60 --warm-up 0 --seed 3";

/// The first and the last time of the picture of a repair, in nanoseconds.
fn shown(report: &Value) -> (u64, u64) {
    let repairs = report["repairs"].as_array().expect("repairs");
    let (first, last) = (&repairs[0], &repairs[repairs.len() - 1]);
    let time = |repair: &Value, key: &str| repair[key].as_u64().expect("a time");
    let end = time(last, "entered_at").max(time(last, "resumed_at"));
    (time(first, "changed_at") - 3_000_000, end + 3_000_000)
}

#[test]
fn a_picture_of_a_repair_begins_with_the_state_that_was_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    for algorithm in ["suzuki-kasami", "naimi-trehel", "le-lann", "raymond", "central", "maekawa"] {
        for repair in ["generic", "special"] {
            let run = format!("simulate {algorithm} {BUSY} --crash 2@50ms --repair {repair}");
            let (cut, trace, whole) = (path("cut.svg"), path("run.trace"), path("whole.svg"));
            text(&format!("{run} --diagram {}", cut.display()));
            let report = text(&format!("{run} --trace {} --json", trace.display()));
            let (first, last) = shown(&serde_json::from_str(&report).expect("JSON"));
            let steps = format!("{}us..{}us", first / 1000, last.div_ceil(1000));
            let replay = format!("replay {} --diagram", trace.display());
            text(&format!("{replay} {} --steps {steps}", whole.display()));
            assert_eq!(bars(&cut), bars(&whole), "{algorithm}, {repair}");
            let waiting = bars(&cut).iter().filter(|bar| bar.contains("\"waiting\"")).count();
            assert!(waiting >= 3, "{algorithm}, {repair}: {waiting} wait");
        }
    }
}

#[test]
fn steps_count_from_the_start_of_the_run_also_with_a_repair() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let run = format!("simulate suzuki-kasami {BUSY} --crash 2@50ms --repair generic");
    let (part, trace, whole) = (path("part.svg"), path("run.trace"), path("whole.svg"));
    text(&format!("{run} --diagram {} --steps 10ms..20ms", part.display()));
    text(&format!("{run} --trace {}", trace.display()));
    let replay = format!("replay {} --diagram", trace.display());
    text(&format!("{replay} {} --steps 10ms..20ms", whole.display()));
    assert_eq!(bars(&part), bars(&whole));
}

#[test]
fn steps_without_an_event_are_refused_and_leave_no_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("x.png");
    let run = "simulate central --nodes 9 --crash coordinator@50ms --election bully";
    for steps in ["0ms..10ms", "1000s..2000s"] {
        let output = mutua(&format!("{run} --diagram {} --steps {steps}", file.display()));
        assert_eq!(output.status.code(), Some(64), "{steps}: {}", stderr(&output));
        let refusal = stderr(&output);
        assert!(refusal.contains("the first event of this run is at 50ms"), "{refusal}");
        let last = mutua(&format!("{run} --json"));
        let report: Value = serde_json::from_slice(&last.stdout).expect("JSON");
        let end = report["ended_at"].as_u64().expect("a time") as f64 / 1e9;
        assert!(refusal.contains(&format!("the last at {end:.1}")), "{refusal} {end}");
        assert!(!file.exists(), "{steps}");
    }
    // Nor does a run that cannot start, and what was there before stays.
    fs::write(&file, "before").expect("a file");
    let output = mutua(&format!("{run} --crash 99@1ms --diagram {}", file.display()));
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&file).expect("the file"), "before");
    let left = fs::read_dir(directory.path()).expect("a directory").count();
    assert_eq!(left, 1, "no temporary file is left");
}

#[test]
fn a_late_part_of_a_long_run_is_drawn() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("x.svg");
    let run = "simulate suzuki-kasami --nodes 5 --load saturated --entries 30000 --warm-up 0";
    let show = format!("--diagram {}", file.display());
    text(&format!("{run} {show} --steps 50s..50.02s"));
    assert!(bars(&file).iter().filter(|bar| bar.contains("\"waiting\"")).count() >= 4);
    text(&format!("{run} {show} --crash holder@50s --repair generic"));
    let svg = fs::read_to_string(&file).expect("a picture");
    assert!(svg.contains("class=\"gone\"") && svg.contains("suspended"), "the crash is shown");
}

#[test]
fn many_repairs_are_summed_up() {
    let run = "simulate suzuki-kasami --nodes 4 --load saturated --latency exp:1ms --entries 2000 \
               --detector timeout:6ms";
    let output = mutua(run);
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("view ")).collect();
    assert_eq!(lines.len(), 10, "{text}");
    assert!(lines.iter().all(|line| line.contains("suspicion of P")), "{text}");
    assert!(lines.iter().all(|line| !line.contains("crash of")), "{text}");
    assert!(
        text.contains("further repairs, after") && text.contains("(all with --json)"),
        "{text}"
    );
    let output = mutua(&format!("{run} --json"));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(report["repairs"].as_array().is_some_and(|all| all.len() > 10));
}

#[test]
fn a_special_repair_that_there_is_not_is_named_and_so_is_a_control() {
    let run = "--nodes 4 --entries 50 --crash 2@20ms --repair special";
    let basic = text(&format!("simulate maekawa-basic {run}"));
    assert!(basic.contains("(a negative control)"), "{basic}");
    let no_special = "generic repair (maekawa-basic has no special repair)";
    assert!(basic.contains(no_special), "{basic}");
    assert!(text(&format!("simulate lamport {run}")).contains(", special repair, "));
    for command in ["simulate", "check"] {
        let help = text(&format!("{command} --help"));
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let names = "central, le-lann, lamport, ricart-agrawala, carvalho-roucairol, maekawa, \
                     sanders, bakery, dijkstra";
        assert!(help.contains(names), "{help}");
    }
}

#[test]
fn odd_crashes_are_refused_with_what_is_right() {
    let cases = [
        ("--crash 2@10ms --crash 2@20ms", "process 2 crashes at 10ms and is still down at 20ms"),
        ("--crash 2@10ms..30ms --crash 2@20ms", "still down at 20ms"),
        ("--crash -1@10ms", "invalid crash `-1@10ms`"),
        ("--crash 2@-10ms", "invalid"),
        ("--crash @10ms", "invalid crash `@10ms`"),
        ("--crash 2@", "invalid"),
        ("--crash 2", "invalid crash `2`"),
        ("--crash 2@10ms..10ms", "the restart must follow the crash"),
        ("--crash 9@10ms", "9"),
        ("--crash nobody@10ms", "coordinator, holder, token, quorum-member"),
        ("--crash 2@10ms --detector timeout:0", "a timeout of 0"),
        ("--crash 2@10ms --detector perfect:-1ms", "invalid detector"),
    ];
    for (arguments, why) in cases {
        let output = mutua(&format!("simulate lamport --nodes 4 --repair generic {arguments}"));
        assert_eq!(output.status.code(), Some(64), "{arguments}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{arguments}: {}", stderr(&output));
    }
    let restarts = "--crash 2@10ms..20ms --crash 2@30ms";
    text(&format!("simulate lamport --nodes 4 --entries 20 --repair generic {restarts}"));
}

#[test]
fn a_crash_after_the_end_of_the_run_is_reported_as_missing() {
    let found = text("simulate lamport --nodes 4 --entries 20 --crash 2@1000s --repair generic");
    assert!(found.contains("no crash     2@1000s: the run ended before, after"), "{found}");
    assert!(found.contains("repairs      none: no crash was reported"), "{found}");
}

#[test]
fn a_crash_by_part_names_the_process_and_what_it_waited_for() {
    let run = "simulate suzuki-kasami --nodes 5 --load saturated --entries 300 --warm-up 0";
    let found = text(&format!("{run} --crash token@51.5ms --repair generic"));
    // The token is under way at that time, and comes to the next process half a latency later.
    assert!(found.contains("crash of P1 (token, the first from 51.5ms on) at 52ms"), "{found}");
    assert!(found.contains("view of 4 processes started by P"), "{found}");
    let found = text("simulate central --nodes 9 --entries 50 --crash coordinator@50ms");
    assert!(found.contains("view 1       crash of P9 (coordinator) at 50ms\n"), "{found}");
    assert!(found.contains("view of 9 processes started by P8 after"), "{found}");
    // A time without a unit is in seconds; the output shows what was taken.
    let found = text("simulate central --nodes 9 --entries 50 --crash coordinator@50");
    assert!(found.contains("no crash     coordinator@50s: the run ended before"), "{found}");
    assert!(text("simulate --help").contains("a time without a unit"));
}

/// `MUTUA_REWRITE_SCRIPTS=1` writes the picture again; look at it.
#[test]
fn the_picture_of_the_page_is_that_of_its_command() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("repairs.md")).expect("the page");
    let command = page.lines().find_map(|line| line.strip_prefix("$ mutua simulate central "));
    let command = command.and_then(|line| line.strip_suffix(" --diagram central.svg"));
    let command = command.expect("the page begins with it");
    let directory = tempfile::tempdir().expect("a directory");
    let made = directory.path().join("central.svg");
    text(&format!("simulate central {command} --diagram {}", made.display()));
    let kept = docs.join("pictures/repair-central.svg");
    if std::env::var_os("MUTUA_REWRITE_SCRIPTS").is_some() {
        fs::copy(&made, &kept).expect("the picture can be written");
    }
    let read = |file: &Path| fs::read_to_string(file).expect("a picture");
    assert!(read(&made) == read(&kept), "docs/pictures/repair-central.svg is out of date");
}

/// A view numbers its members by their position: those numbers are not names.
#[test]
fn messages_of_a_later_view_name_its_members() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("run.trace");
    for algorithm in ["neilsen-mizuno", "naimi-trehel", "suzuki-kasami"] {
        let run = format!("simulate {algorithm} {BUSY} --crash 0@50ms --repair generic");
        text(&format!("{run} --trace {}", file.display()));
        let trace = fs::read_to_string(&file).expect("a trace");
        let events = trace.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let later: Vec<_> = events.filter(|event| event["fields"]["view"] == "1").collect();
        let mut named = String::new();
        for event in later.iter().filter(|event| event["kind"] != "view") {
            for field in ["for", "Q"] {
                named += event["fields"][field].as_str().unwrap_or_default();
            }
        }
        assert!(!named.contains("P0"), "{algorithm}: P0 has crashed, {named}");
        assert!(named.contains("P4"), "{algorithm}: P4 requests, {named}");
    }
}

#[test]
fn no_label_begins_left_of_a_picture() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("x.svg");
    let partition = "--detector timeout:8ms --partition 20ms..300ms:0,1";
    let run = "simulate suzuki-kasami --nodes 5 --load saturated --entries 300";
    mutua(&format!("{run} {partition} --diagram {}", file.display()));
    let svg = fs::read_to_string(&file).expect("a picture");
    let marks: Vec<_> =
        svg.lines().filter(|line| line.starts_with("<text class=\"mark\"")).collect();
    assert!(marks.len() > 10 && marks.iter().all(|mark| !mark.contains(" x=\"-")), "{marks:#?}");
}

#[test]
fn wrong_suspicions_without_a_view_are_counted() {
    let run = "simulate central --nodes 9 --detector timeout:1ms --latency exp:1ms --entries 50";
    let output = String::from_utf8(mutua(run).stdout).expect("text");
    assert!(output.contains("messages     election"), "{output}");
    assert!(output.contains(" wrong suspicions no election led to a view"), "{output}");
    assert!(!output.contains("no crash was reported"), "{output}");
}

#[test]
fn a_check_names_the_repair_that_there_is() {
    let check = "check raymond --nodes 3 --contenders 1 --crashes 1 --repair special";
    let output = text(check);
    assert!(output.contains("generic repair (raymond has no special repair)"), "{output}");
    let output = text(&check.replace("raymond", "central"));
    assert!(output.contains(", special repair with bully"), "{output}");
}

#[test]
fn a_crash_during_an_election_is_named() {
    let output = text("simulate bully --nodes 5 --crashed 1 --crash 4@10ms");
    assert!(output.contains("crashed: 1, 4 at 10ms\n"), "{output}");
    let stuck = mutua("simulate chang-roberts --nodes 5 --crash 4@1ms");
    let stuck = String::from_utf8(stuck.stdout).expect("text");
    assert!(stuck.contains("0 never learns the coordinator; 4 has crashed"), "{stuck}");
}

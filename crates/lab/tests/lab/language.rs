//! The error messages of the script language.

use mutua_algorithms::Links;
use mutua_lab::Script;

const HEAD: &str = "algorithm ricart-agrawala\nprocesses P1 P2 P3\n";

fn not_read(text: &str) -> String {
    Script::parse("test", text).unwrap_err().to_string()
}

fn failures(steps: &str) -> Vec<String> {
    let script = Script::parse("test", &format!("{HEAD}{steps}")).unwrap();
    script.play().unwrap().failures()
}

#[test]
fn a_failed_expectation_names_its_line_the_expectation_and_the_state() {
    assert_eq!(
        failures("P2 requests\nexpect P2 in_cs\nexpect P2 missing = [P1]\n"),
        [
            "line 4: expected P2 in_cs; found requesting",
            "line 5: expected P2 missing = [P1]; found P2 missing = [P1, P3]"
        ]
    );
    assert_eq!(
        failures("P2 requests\ndeliver all\nexpect entries P1\n"),
        ["line 5: expected entries P1; found entries P2"]
    );
    assert_eq!(
        failures("P2 requests\nexpect P1 queue = []\n"),
        ["line 4: expected P1 queue = []; found no variable `queue`, only request, missing, DR, \
          clock"]
    );
    assert_eq!(
        failures("P2 requests\nexpect no messages\n"),
        ["line 4: expected no messages; found in flight: request P2 -> P1, request P2 -> P3"]
    );
    assert_eq!(failures("expect deadlock\n"), ["line 3: expected deadlock; found no deadlock"]);
    assert_eq!(
        failures("P1 requests\nexpect in flight request P1 -> P2 with time = 7\n"),
        ["line 4: expected in flight request P1 -> P2 with time = 7; found on that link: \
          request(time=1)"]
    );
}

#[test]
fn a_step_that_cannot_be_taken_ends_the_run_with_a_reason() {
    let refused = |steps: &str| {
        let failures = failures(steps);
        assert_eq!(failures.len(), 1, "{failures:?}");
        failures.into_iter().next().unwrap()
    };
    assert_eq!(
        refused("P2 requests\nP2 requests\nexpect P2 in_cs\n"),
        "line 4: cannot `P2 requests`: P2 requests, but is requesting; it must be idle"
    );
    assert_eq!(
        refused("deliver P1 -> P2\n"),
        "line 3: cannot `deliver P1 -> P2`: no message is in flight P1 -> P2"
    );
    assert_eq!(
        refused("P1 requests\ndeliver reply P1 -> P2\n"),
        "line 4: cannot `deliver reply P1 -> P2`: no reply is in flight P1 -> P2, only request"
    );
    assert_eq!(
        refused("links fifo\nP1 requests\nP1 sends app to P2\ndeliver app P1 -> P2\n"),
        "line 6: cannot `deliver app P1 -> P2`: the link P1 -> P2 is FIFO and `request` comes \
         first"
    );
    assert_eq!(
        refused("clock P1 5\nclock P1 4\n"),
        "line 4: cannot `clock P1 4`: the clock of P1 is at 5 and cannot go back to 4"
    );
    assert_eq!(refused("crash P1\nP1 requests\n"), "line 4: cannot `P1 requests`: P1 has crashed");
    let coordinator = "algorithm central\nprocesses A B\nB requests\n";
    assert_eq!(
        Script::parse("test", coordinator).unwrap().play().unwrap().failures(),
        ["line 3: cannot `B requests`: B only coordinates"]
    );
    assert_eq!(refused("P1 starts\n"), "line 3: cannot `P1 starts`: only elections have this step");
}

#[test]
fn a_violation_that_no_line_expects_fails_the_script() {
    let central = "algorithm central\nprocesses P1 P2 P3\nP1 requests\nP1 sends app to P2\n\
                   deliver app P1 -> P2\nP2 requests\ndeliver request P2 -> P3\n\
                   deliver reply P3 -> P2\n";
    let failures = |script: &str| Script::parse("test", script).unwrap().play().unwrap().failures();
    assert_eq!(
        failures(central),
        ["at the end: ordering was violated at step 6 by P2: P1, which requested before, still \
          waits, and no line expects it"]
    );
    assert!(failures(&format!("{central}expect ordering violated\n")).is_empty());
}

#[test]
fn an_invalid_script_is_refused_with_the_line_of_the_error() {
    assert_eq!(
        not_read("P1 requests\n"),
        "line 1: a script begins with `algorithm NAME` and `processes A B C`"
    );
    assert_eq!(not_read("processes A\n"), "line 1: `algorithm NAME` comes first");
    assert_eq!(
        not_read("algorithm central\nprocesses A B A\n"),
        "line 2: two processes are called `A`"
    );
    let read_after_head = |line: &str| not_read(&format!("{HEAD}\n# a comment\n{line}\n"));
    assert_eq!(read_after_head("P4 requests"), "line 5: unknown process `P4`: use P1, P2, P3");
    assert_eq!(
        read_after_head("dance"),
        "line 5: unknown step `dance`; `mutua replay --language` lists all"
    );
    assert_eq!(
        read_after_head("deliver P1 P2"),
        "line 5: invalid message `P1 P2`: use `A -> B` or `KIND A -> B`"
    );
    assert_eq!(
        read_after_head("expect luck violated"),
        "line 5: unknown property `luck`: use mutual-exclusion, ordering, fencing, agreement"
    );
    assert_eq!(read_after_head("repeat 3"), "line 5: `repeat` without `end`");
    assert_eq!(read_after_head("end"), "line 5: `end` without `repeat N`");
    let unknown = "slow".parse::<Links>().unwrap_err();
    assert_eq!(read_after_head("links slow"), format!("line 5: {unknown}"));
    assert_eq!(
        not_read(&format!("{HEAD}P1 requests\nlinks any\n")),
        "line 4: `links any` is too late: the system is described before the first step"
    );
}

#[test]
fn a_system_that_cannot_start_gives_the_reason() {
    let script = |text: &str| Script::parse("test", text).unwrap().play().unwrap_err().to_string();
    assert_eq!(script("algorithm luck\nprocesses A\n"), "unknown algorithm `luck`");
    assert_eq!(
        script("algorithm central\nprocesses A B\nwith luck=yes\n"),
        "central has no option `luck`; it has: coordinator, refusal, queue"
    );
    assert_eq!(
        script("algorithm dijkstra\nprocesses A B\nwith k=3 daemon=central\nflags 1 5\n"),
        "a flag of 5; with k=3 they are 0 to 2"
    );
}

#[test]
fn lines_of_sets_imply_that_the_algorithm_takes_them() {
    let sets = "request_set A: A\ninform_set A: A\nrequest_set B: B\ninform_set B: B\n";
    let head = "algorithm sanders\nprocesses A B\n";
    let settings = |with: &str| {
        let script = Script::parse("test", &format!("{head}{with}{sets}")).unwrap();
        script.play().map(|played| played.header.settings.get("sets").map(str::to_owned))
    };
    // These do not keep the two processes apart.
    let refused = settings("").unwrap_err().to_string();
    assert!(refused.contains("could be in the critical section together"), "{refused}");
    for with in ["with check=off\n", "with check=off sets=own\n"] {
        assert_eq!(settings(with).unwrap().as_deref(), Some("own"), "{with}");
    }
    assert_eq!(
        not_read(&format!("{head}with sets=central\n{sets}")),
        "line 7: the option sets=central names other sets than the lines `request_set` and \
         `inform_set`: leave it out, or the lines"
    );
    assert_eq!(
        not_read(&format!("algorithm lamport\nprocesses A B\n{sets}")),
        "line 6: lamport has no request sets and no inform sets; sanders has"
    );
}

//! `mutua compare` from outside.

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Output},
};

fn mutua(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments.split_whitespace()).output().expect("the binary runs")
}

fn directory(name: &str) -> PathBuf {
    env::temp_dir().join(format!("mutua-{name}-{}", std::process::id()))
}

#[test]
fn a_comparison_is_written_and_goes_on_where_it_was_stopped() {
    let out = directory("compare");
    let run = format!(
        "compare central raymond bully --nodes 3,5 --at 4 --loads 0.5,2 --entries 200 --runs 2 \
         --out {}",
        out.display()
    );
    let run: Vec<_> = run.split_whitespace().collect();
    let run = run.join(" ");
    assert!(mutua(&run).status.success());
    let page = fs::read_to_string(out.join("report.html")).expect("the page");
    assert!(page.contains("<svg") && page.contains("raymond") && page.contains("bully, lowest"));
    assert!(!page.contains("src=") && !page.contains("href="), "nothing is loaded");
    let table = fs::read_to_string(out.join("results.csv")).expect("the table");
    assert_eq!(table.lines().count(), 1 + 2 * (2 * 2 + 2));
    assert!(
        fs::read_to_string(out.join("messages-light.svg")).expect("a plot").starts_with("<svg")
    );

    // Half of the results, the last line cut: the rest is measured again, and nothing else.
    let results = fs::read_to_string(out.join("results.jsonl")).expect("the results");
    fs::write(out.join("results.jsonl"), &results[..results.len() / 2]).expect("cut");
    let again = mutua(&run);
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(told.contains("cells are known from before"), "{told}");
    assert_eq!(fs::read_to_string(out.join("results.csv")).expect("the table"), table);
    fs::remove_dir_all(out).expect("cleaned up");
}

#[test]
fn a_control_that_fails_is_noted_and_what_is_cut_off_is_marked() {
    let out = directory("cut");
    let run = "compare maekawa-basic bakery central --nodes 4,16 --at 4 --loads 3 --runs 2 \
               --hold 1ms,lognormal:2ms,0.5 --entries 300 --max-events 20000 --out";
    let run: Vec<_> = run.split_whitespace().collect();
    let output = mutua(&format!("{} {}", run.join(" "), out.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(out.join("report.html")).expect("the page");
    assert!(page.contains("The negative controls failed, as they should: maekawa-basic"));
    assert!(page.contains("lognormal:2ms,0.5 inside") && page.contains("cut off after"));
    let table = fs::read_to_string(out.join("results.csv")).expect("the table");
    let names = table.lines().next().expect("a header");
    assert!(names.contains("sync_delay,sync_delay_95,") && names.contains("jain,jain_95,"));
    let cut = |line: &&str| line.starts_with("bakery,16,saturated,1ms,");
    let cut = table.lines().find(cut).expect("the cell");
    assert!(cut.ends_with(",cut off,") && cut.contains(",,,,,,,,,,,,"), "{cut}");
    fs::remove_dir_all(out).expect("cleaned up");
}

#[test]
fn bad_grids_are_refused() {
    for (arguments, expected) in [
        ("compare raymnd", "did you mean"),
        ("compare --nodes 0", "at least 1"),
        ("compare --loads 0", "above 0"),
        ("compare --hold never", "such as 1ms"),
        ("compare --hold 1ms,never", "such as 1ms"),
        ("compare --nodes 3,abc", "a whole number is wanted"),
    ] {
        let output = mutua(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{arguments}: {told}");
        assert!(told.contains(expected), "{arguments}: {told}");
    }
}

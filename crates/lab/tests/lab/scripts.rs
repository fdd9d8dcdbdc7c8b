//! The worked examples: each is played on the real machines, must meet its expectations, and must
//! give the trace below it byte for byte.
//!
//! `MUTUA_REWRITE_SCRIPTS=1 cargo test -p mutua-lab scripts` writes the traces anew; read
//! the difference before you commit it.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use mutua_lab::{EXAMPLES, Script, script::with_observed};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

/// The files on disk, not those compiled in, so that a run reads the files that it rewrites.
fn files() -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    for algorithm in fs::read_dir(folder()).unwrap() {
        for script in fs::read_dir(algorithm.unwrap().path()).unwrap() {
            let path = script.unwrap().path();
            let name = path.strip_prefix(folder()).unwrap().with_extension("");
            files.push((name.to_str().unwrap().to_owned(), path));
        }
    }
    files.sort();
    files
}

#[test]
fn every_example_meets_its_expectations() {
    let mut failures = Vec::new();
    for (name, path) in files() {
        let text = fs::read_to_string(&path).unwrap();
        let script = Script::parse(&name, &text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let played = script.play().unwrap_or_else(|error| panic!("{name}: {error}"));
        failures.extend(played.failures().iter().map(|failure| format!("{name}: {failure}")));
        let observed = played.observed();
        if env::var_os("MUTUA_REWRITE_SCRIPTS").is_some() {
            fs::write(&path, with_observed(&text, &observed)).unwrap();
        } else if script.observed.as_deref() != Some(observed.as_str()) {
            failures.push(format!(
                "{name}: the trace has changed:\n{}",
                difference(script.observed.as_deref().unwrap_or(""), &observed,)
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The first lines that differ.
fn difference(before: &str, now: &str) -> String {
    let lines = before.lines().chain(std::iter::repeat("(nothing)"));
    let (place, (before, now)) = lines
        .zip(now.lines().chain(["(nothing)"]))
        .enumerate()
        .find(|(_, (before, now))| before != now)
        .unwrap_or((0, ("(the same lines)", "(other ends of lines)")));
    format!("  line {} below the script\n  before: {before}\n  now:    {now}", place + 1)
}

#[test]
fn every_example_is_compiled_in_and_has_a_source_and_a_lesson() {
    let on_disk: Vec<_> = files().into_iter().map(|(name, _)| name).collect();
    let mut in_program: Vec<_> = EXAMPLES.iter().map(|example| example.name.to_owned()).collect();
    in_program.sort();
    assert_eq!(in_program, on_disk);
    for example in EXAMPLES {
        let script = example.script().unwrap();
        assert!(!script.source.is_empty(), "{} has no `# source:`", example.name);
        assert!(!script.shows.is_empty(), "{} has no `# shows:`", example.name);
        assert_eq!(example.name.split('/').next(), Some(script.system.algorithm.as_str()));
        let expects = script.text().lines().any(|line| line.starts_with("expect "));
        assert!(expects, "{} expects nothing", example.name);
    }
}

#[test]
fn an_example_that_is_written_and_read_again_gives_the_same_trace() {
    for example in EXAMPLES {
        let script = example.script().unwrap();
        let again = Script::parse(example.name, &script.text()).unwrap();
        assert_eq!(again.text(), script.text(), "{}", example.name);
        let (once, twice) = (script.play().unwrap(), again.play().unwrap());
        assert_eq!(once.events, twice.events, "{}", example.name);
    }
}

//! What users read is written in the field's words: no word of the ban list is in the help of any
//! command, in the documents and kept reports, in the `.proto` files, in the gate's script, or in a
//! string of the program and of its benchmarks.

#[path = "vocabulary/strings.rs"]
mod strings;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The banned words and phrases, with what to write instead. A phrase is found in lower-case text
/// between characters that are not letters.
const BANNED: [(&str, &str); 16] = [
    ("inside", "in the critical section, held, holder"),
    ("outside", "idle, not held"),
    ("brain", "protocol"),
    ("desk", "leases"),
    ("chair", "view coordinator"),
    ("council", "voters"),
    ("guardian", "custodian"),
    ("mend", "fix"),
    ("is no", "is not, invalid, unknown"),
    ("who is", "the holder, the waiters"),
    ("whoever", "the holder, the client that"),
    ("in line", "waiting, next"),
    ("these are", "name them"),
    ("told", "reported, configured"),
    ("how-manieth", "position"),
    ("stays ours", "expires this long after the last renewal"),
];

#[derive(Debug)]
struct Finding {
    source: String,
    line: usize,
    phrase: &'static str,
    instead: &'static str,
    text: String,
}

/// The banned phrases in a text.
fn findings(source: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // "No longer" is plain English.
        let lower = line.to_lowercase().replace("is no longer", "");
        for (phrase, instead) in BANNED {
            if has_phrase(&lower, phrase) {
                found.push(Finding {
                    source: source.to_owned(),
                    line: index + 1,
                    phrase,
                    instead,
                    text: line.trim().to_owned(),
                });
            }
        }
    }
    found
}

/// Whether a phrase is in a text, not as a part of a longer word.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        !is_letter(text[..at].chars().next_back())
            && !is_letter(text[at + phrase.len()..].chars().next())
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// All files below a directory with this ending.
fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn refuse(findings: &[Finding]) {
    let lines = findings.iter().map(|found| {
        format!(
            "{}:{}: `{}` (write: {}): {}\n",
            found.source, found.line, found.phrase, found.instead, found.text
        )
    });
    let lines: String = lines.collect();
    assert!(findings.is_empty(), "{} banned words:\n{lines}", findings.len());
}

/// The help of a command and of all its subcommands, as the program prints it.
fn help(words: &[String], helps: &mut Vec<(String, String)>) {
    let output = Command::new(env!("CARGO_BIN_EXE_mutua"))
        .args(words)
        .arg("--help")
        .output()
        .expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success() && text.contains("Usage:"), "{words:?}: {text}");
    let commands = subcommands(&text);
    helps.push((format!("mutua {} --help", words.join(" ")), text));
    for command in commands.into_iter().filter(|command| command != "help") {
        let words = [words, &[command]].concat();
        help(&words, helps);
    }
}

/// The names below the headings that are not of arguments or options: a group of commands.
fn subcommands(help: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_group = false;
    for line in help.lines() {
        if !line.starts_with(' ') {
            let heading = line.strip_suffix(':');
            is_group = heading.is_some_and(|heading| {
                !["Arguments", "Options", "Accepted as in flock"].contains(&heading)
            });
        } else if is_group
            && let Some(command) = line.strip_prefix("  ")
            && !command.starts_with(' ')
        {
            names.extend(command.split(' ').next().map(str::to_owned));
        }
    }
    names
}

#[test]
fn the_help_of_every_command_is_in_the_fields_words() {
    let mut helps = Vec::new();
    help(&[], &mut helps);
    assert!(helps.len() >= 20, "{} commands", helps.len());
    let findings: Vec<_> = helps.iter().flat_map(|(name, text)| findings(name, text)).collect();
    refuse(&findings);
}

#[test]
fn every_command_and_option_starts_with_a_capital_and_no_question_word() {
    let mut helps = Vec::new();
    help(&[], &mut helps);
    for (name, text) in &helps {
        for sentence in text.split(['\n', '.']).flat_map(|line| line.split("  ")) {
            let first = sentence.split_whitespace().next().unwrap_or_default();
            assert!(!["Who", "What", "Whoever", "Whom"].contains(&first), "{name}: {sentence}");
        }
        let about = text.lines().next().unwrap_or_default();
        assert!(about.starts_with(char::is_uppercase), "{name}: {about}");
    }
}

#[test]
fn the_documents_are_in_the_fields_words() {
    let root = root();
    let docs = root.join("docs");
    let mut paths: Vec<_> =
        ["md", "txt", "svg", "html"].iter().flat_map(|ending| files(&docs, ending)).collect();
    paths.extend(files(&root.join("crates/client/proto"), "proto"));
    let single = ["README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "verify"];
    let benchmarks = ["README.md", "NOTES.md", "run", "src/guarantees.toml"];
    paths.extend(single.map(|name| root.join(name)));
    paths.extend(benchmarks.map(|name| root.join("side-by-side").join(name)));
    let read =
        |path: &PathBuf| findings(&shown(path), &fs::read_to_string(path).expect("a document"));
    refuse(&paths.iter().flat_map(read).collect::<Vec<_>>());
}

#[test]
fn the_strings_of_the_program_are_in_the_fields_words() {
    let mut all = Vec::new();
    let benchmarks = files(&root().join("side-by-side/src"), "rs");
    for path in files(&root().join("crates"), "rs").into_iter().chain(benchmarks) {
        let name = shown(&path);
        let is_source = name.split('/').any(|part| part == "src");
        if !is_source || name.contains("/tests") || name.contains("/harness") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        for (line, string) in strings::literals(&text) {
            let found = findings(&name, &string);
            all.extend(found.into_iter().map(|found| Finding { line, ..found }));
        }
    }
    refuse(&all);
}

#[test]
fn a_phrase_is_not_found_within_a_word() {
    assert!(has_phrase("nobody is inside", "inside") && has_phrase("told.", "told"));
    assert!(!has_phrase("recommended", "mend") && !has_phrase("this is nothing", "is no"));
    assert!(has_phrase("there is no node", "is no"));
}

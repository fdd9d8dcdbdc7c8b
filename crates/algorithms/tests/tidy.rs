//! The rules of form that no compiler checks, over all crates of the workspace.
//!
//! A function that has to be long, such as one dispatch over many cases, has its reason in a
//! comment that begins with `tidy:` just above it.

use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

const LINES_PER_FILE: usize = 600;
const LINES_PER_FUNCTION: usize = 70;
const COLUMNS: usize = 100;

/// Signs of unfinished work. (Put together here, so that this file has none of them.)
const UNFINISHED: [&str; 6] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("db", "g!"),
    concat!("#[ig", "nore"),
];

/// The only files with unsafe code: one counts allocations, which needs an allocator of its own,
/// the other exports names from a WebAssembly module.
const UNSAFE: [&str; 2] = ["algorithms/benches/handlers.rs", "module/src/lib.rs"];

#[test]
fn every_file_keeps_the_rules_of_form() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates are in a directory");
    let mut files = Vec::new();
    find_sources(crates, &mut files);
    assert!(files.len() > 20, "only {} files in {}", files.len(), crates.display());
    let mut faults = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("a source is text");
        let name = path.strip_prefix(crates).expect("below the crates").display().to_string();
        let name = name.replace('\\', "/");
        faults.extend(faults_of(&name, &text).into_iter().map(|fault| format!("{name}:{fault}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn find_sources(directory: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(directory)
        .expect("the directory can be read")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        let hidden =
            |name: &str| name.starts_with('.') || name == "target" || name == "node_modules";
        if path.file_name().and_then(|name| name.to_str()).is_none_or(hidden) {
            continue;
        }
        if path.is_dir() {
            find_sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The violations of the rules in one file, each with its line.
fn faults_of(name: &str, text: &str) -> Vec<String> {
    // Generated code has the form that its tool gives it.
    if text.lines().take(3).any(|line| line.contains("@generated")) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let lines = text.lines().count();
    if lines > LINES_PER_FILE {
        faults.push(format!("{lines}: {lines} lines; split it at {LINES_PER_FILE}"));
    }
    let verbatim = verbatim_lines(text);
    for (number, line) in (1..).zip(text.lines()) {
        let columns = line.chars().count();
        if columns > COLUMNS && !verbatim.contains(&number) {
            faults.push(format!("{number}: {columns} columns; at most {COLUMNS}"));
        }
        for sign in UNFINISHED.iter().filter(|sign| line.contains(**sign)) {
            faults.push(format!("{number}: `{sign}`; finish it"));
        }
    }
    let code = without_literals(text);
    if !UNSAFE.contains(&name) {
        let unsafe_lines = (1..).zip(code.lines()).filter(|(_, line)| has_word(line, "unsafe"));
        faults.extend(unsafe_lines.map(|(number, _)| format!("{number}: unsafe code")));
    }
    let long = functions(&code).into_iter().filter(|(_, lines)| *lines > LINES_PER_FUNCTION);
    faults.extend(long.filter(|(start, _)| !is_excused(text, *start)).map(|(start, lines)| {
        format!("{}: a function of {lines} lines; at most {LINES_PER_FUNCTION}", start + 1)
    }));
    faults
}

/// Whether a comment above this line gives the reason why the function is long.
fn is_excused(text: &str, start: usize) -> bool {
    let above: Vec<_> = text.lines().take(start).collect();
    let attached = |line: &&&str| line.trim().starts_with("//") || line.trim().starts_with("#[");
    above.iter().rev().take_while(attached).any(|line| line.contains("// tidy:"))
}

/// Every function with a body: the line it starts in, from 0, and how many lines it has.
fn functions(code: &str) -> Vec<(usize, usize)> {
    let lines: Vec<_> = code.lines().collect();
    // A name follows; the type of a function pointer has none.
    let names = |line: &str| line.contains("fn ") && has_word(line, "fn");
    let starts = (0..lines.len()).filter(|&at| names(lines[at]));
    starts.filter_map(|start| Some((start, body_length(&lines[start..])?))).collect()
}

/// How many lines there are to the end of the first pair of braces; none if a semicolon is first.
fn body_length(lines: &[&str]) -> Option<usize> {
    let (mut depth, mut parentheses) = (0, 0);
    for (at, line) in lines.iter().enumerate() {
        for letter in line.chars() {
            match letter {
                '(' | '[' => parentheses += 1,
                ')' | ']' => parentheses -= 1,
                '{' => depth += 1,
                '}' => depth -= 1,
                ';' if depth == 0 && parentheses == 0 => return None,
                _ => continue,
            }
            if letter == '}' && depth == 0 {
                return Some(at + 1);
            }
        }
    }
    None
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.split(|letter| !is_part(letter)).any(|part| part == word)
}

/// The code with comments, strings and characters left out, line for line.
fn without_literals(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut end = 0;
    for literal in literals(text) {
        code.push_str(&text[end..literal.start]);
        // The lines it spans stay lines.
        code.extend(text[literal.clone()].chars().filter(|&letter| letter == '\n'));
        code.push(' ');
        end = literal.end;
    }
    code.push_str(&text[end..]);
    code
}

/// The lines, from 1, of strings that are written as they are read: raw ones, and ones with lines
/// of their own. Nothing in them can violate a rule.
fn verbatim_lines(text: &str) -> BTreeSet<usize> {
    let line_of = |at: usize| text[..at].matches('\n').count() + 1;
    let is_verbatim = |literal: &Range<usize>| {
        let string = &text[literal.clone()];
        let breaks = |string: &str| string.matches('\n').count();
        string.starts_with('r')
            || (string.starts_with('"') && breaks(string) > breaks_continued(string))
    };
    let verbatim = literals(text).into_iter().filter(is_verbatim);
    verbatim.flat_map(|literal| line_of(literal.start)..=line_of(literal.end)).collect()
}

fn breaks_continued(string: &str) -> usize {
    string.matches("\\\n").count()
}

/// Where the comments, strings and characters are.
fn literals(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut at, mut before) = (Vec::new(), 0, None);
    while let Some(letter) = text[at..].chars().next() {
        let length = literal_length(&text[at..], before);
        if length > 0 {
            found.push(at..at + length);
        }
        at += length.max(letter.len_utf8());
        before = Some(letter);
    }
    found
}

/// How long the comment, string or character is that begins here; 0 if none does.
fn literal_length(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    let in_word = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    if rest.starts_with('r') && !in_word {
        let hashes = rest[1..].chars().take_while(|&letter| letter == '#').count();
        if rest[1 + hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = 2 + hashes;
            return rest[body..].find(&end).map_or(rest.len(), |at| body + at + end.len());
        }
    }
    if rest.starts_with('"') {
        return quoted_length(rest, '"');
    }
    // A quote begins a character only if one follows: a lifetime has no second quote.
    let is_character =
        rest.starts_with("'\\") || (rest.starts_with('\'') && rest.chars().nth(2) == Some('\''));
    if is_character { quoted_length(rest, '\'') } else { 0 }
}

fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[test]
fn a_violated_rule_is_found() {
    let long = |lines: usize| format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines));
    let found = |text: &str| faults_of("a.rs", text).len();
    assert_eq!(found(&long(LINES_PER_FUNCTION - 2)), 0);
    assert_eq!(found(&long(LINES_PER_FUNCTION - 1)), 1);
    assert_eq!(found(&format!("// tidy: one dispatch.\n{}", long(100))), 0);
    assert_eq!(found(&"// line\n".repeat(LINES_PER_FILE + 1)), 1);
    assert_eq!(found(&format!("// {}\n", "x".repeat(COLUMNS))), 1);
    assert_eq!(found(&format!("fn later() {{ {}() }}\n", UNFINISHED[0])), 1);
    assert_eq!(found(concat!("un", "safe fn raw() {}\n")), 1);
}

#[test]
fn braces_in_strings_and_comments_are_none_of_the_code() {
    let text = "fn a<'x>() { b('{', '\\'', \"}\\\"{\", r#\"\"}\"#); /* { */ } // }\n";
    assert_eq!(functions(&without_literals(text)), [(0, 1)]);
    assert!(without_literals(text).contains("fn a<'x>() { b("));
}

#[test]
fn only_strings_that_can_be_broken_must_be() {
    let verbatim = verbatim_lines("f(\"a\");\nf(\"a \\\n b\");\nf(\"a\n b\");\nf(r\"c\");\n");
    assert_eq!(verbatim, BTreeSet::from([4, 5, 6]));
}

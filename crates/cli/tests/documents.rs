//! The documents are true: their commands run and print what is written below them, their Rust is
//! a piece of an example that is compiled, and the links and files that they name exist.
//!
//! In the documents of [`RUN`] every fenced block is either `console`, which this test runs, or
//! `sh`, which is listed in [`NOT_RUN`] with the reason. In a `console` block a line that
//! starts with `$ ` is a command (`> ` continues it), and what follows is its expected output. A
//! line `...` stands for any lines, `[..]` for any text within a line. Numbers that differ from run
//! to run (pids, view numbers, fencing tokens, times) and the host's name match any other.
//!
//! `MUTUA_REWRITE_DOCUMENTS=1 cargo test -p mutua --test documents` replaces outputs that do not
//! match by the real ones; read the difference.

use std::{
    env, fs,
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// The documents whose commands are run.
const RUN: [&str; 3] = ["README.md", "docs/tutorial.md", "docs/repairs.md"];

/// The `sh` blocks of these documents: a line of each, and why it cannot run in a test.
const NOT_RUN: [(&str, &str, &str); 3] = [
    ("README.md", "cargo install --path crates/cli", "builds and installs the program"),
    ("README.md", "./verify", "builds the program, and runs this test"),
    ("docs/tutorial.md", "cargo install --path crates/cli", "builds and installs the program"),
];

/// The longest that one command may take.
const PATIENCE: Duration = Duration::from_secs(15);

#[test]
fn the_commands_of_the_documents_print_what_is_written() {
    let failed: Vec<_> = thread::scope(|scope| {
        let documents = RUN.map(|document| scope.spawn(move || run_document(document)));
        documents.into_iter().flat_map(|one| one.join().expect("a document ran")).collect()
    });
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn every_block_of_a_document_that_is_run_is_run_or_excused() {
    let mut excuses = NOT_RUN.to_vec();
    for document in RUN {
        let text = read(document);
        for block in blocks(&text) {
            let at = format!("{document}:{}", block.line);
            match &*block.kind {
                "console" => assert!(
                    block.lines[0].starts_with("$ "),
                    "{at}: a console block begins with a command"
                ),
                "sh" => {
                    let is_its = |(of, line, _): &(&str, &str, &str)| {
                        *of == document && block.lines.iter().any(|one| one == line)
                    };
                    let found = excuses.iter().position(is_its);
                    excuses.remove(found.unwrap_or_else(|| panic!("{at}: not in NOT_RUN")));
                }
                kind => panic!("{at}: a block of kind `{kind}`, which nobody runs"),
            }
        }
        let indented = prose(&text).into_iter().find(|(_, line)| line.starts_with("    "));
        assert!(indented.is_none(), "{document}: a block without a fence: {indented:?}");
    }
    assert!(excuses.is_empty(), "blocks that are not there: {excuses:?}");
}

#[test]
fn the_readme_has_at_most_120_lines() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 120, "{lines} lines");
}

#[test]
fn rust_in_the_documents_is_a_piece_of_an_example() {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let examples: Vec<_> = files_below(&root().join("crates"))
        .into_iter()
        .filter(|path| path.components().any(|part| part.as_os_str() == "examples"))
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .map(|path| squeezed(&fs::read_to_string(path).expect("an example")))
        .collect();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        for block in blocks(&text).into_iter().filter(|block| block.kind == "rust") {
            let wanted = squeezed(&block.lines.join("\n"));
            let found = examples.iter().any(|example| example.contains(&wanted));
            assert!(found, "{}:{}: in no example", document.display(), block.line);
        }
    }
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        let directory = document.parent().expect("a directory");
        for (line, target) in links(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let to = if path.is_empty() { document.clone() } else { directory.join(path) };
            let has_anchor = |to: &Path| {
                anchor.is_empty()
                    || fs::read_to_string(to).is_ok_and(|text| anchors(&text).contains(anchor))
            };
            if !to.exists() || !has_anchor(&to) {
                broken.push(format!("{}:{line}: {target}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_file_that_a_document_names_is_there() {
    let mut missing = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        for (line, code) in prose(&text).into_iter().flat_map(|(line, text)| {
            text.split('`').skip(1).step_by(2).map(move |code| (line, code))
        }) {
            let is_path = code.starts_with("crates/") || code.starts_with("docs/");
            // Names in capitals stand for others.
            let is_pattern = code.contains(['*', ' ']) || code.contains("NAME");
            if is_path && !is_pattern && !root().join(code).exists() {
                missing.push(format!("{}:{line}: {code}", document.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_file_in_the_map_is_there() {
    let text = read("ARCHITECTURE.md");
    let (mut crates, mut missing) = (PathBuf::new(), Vec::new());
    for (line, text) in prose(&text) {
        if let Some(heading) = text.strip_prefix("### `") {
            crates = root().join(heading.trim_end_matches('`'));
        }
        let Some(row) = text.strip_prefix("| `") else { continue };
        let files = row.split('|').next().unwrap_or_default().split('`').step_by(2);
        let is_file = |name: &&str| name.ends_with(".rs") || name.ends_with('/');
        missing.extend(
            files
                .filter(is_file)
                .filter(|name| !crates.join(name).exists())
                .map(|name| format!("ARCHITECTURE.md:{line}: {name}")),
        );
    }
    assert!(crates.ends_with("src"), "the map has sections for crates");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// A fenced block.
struct Block {
    /// Where its first line is, from 1.
    line: usize,
    kind: String,
    lines: Vec<String>,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        match line.trim_start().strip_prefix("```") {
            Some(kind) if !open => {
                let kind = kind.trim().to_owned();
                blocks.push(Block { line: number + 1, kind, lines: Vec::new() });
                open = true;
            }
            Some(_) => open = false,
            None if open => blocks.last_mut().expect("open").lines.push(line.to_owned()),
            None => {}
        }
    }
    blocks
}

/// The lines that are in no block, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut open = false;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| {
        let fence = line.trim_start().starts_with("```");
        open ^= fence;
        !open && !fence
    });
    lines.collect()
}

/// A command and the output that is written below it.
struct Written {
    /// The last line of the command, from 1.
    line: usize,
    command: String,
    output: Vec<String>,
}

fn commands(text: &str) -> Vec<Written> {
    let mut written: Vec<Written> = Vec::new();
    for block in blocks(text).into_iter().filter(|block| block.kind == "console") {
        for (line, text) in (block.line..).zip(block.lines) {
            let (command, more) = (text.strip_prefix("$ "), text.strip_prefix("> "));
            match (command, written.last_mut()) {
                (Some(command), _) => {
                    let command = command.to_owned();
                    written.push(Written { line, command, output: Vec::new() });
                }
                (None, Some(last)) => match more {
                    // The next line of the command, as a shell prompts for it.
                    Some(more) if last.output.is_empty() => {
                        last.command += &format!("\n{more}");
                        last.line = line;
                    }
                    _ => last.output.push(text),
                },
                (None, None) => panic!("line {line}: an output of no command"),
            }
        }
    }
    written
}

/// Runs a document's commands in one shell; what went wrong.
fn run_document(document: &str) -> Vec<String> {
    let text = read(document);
    let mut shell = Shell::start();
    let mut failed = Vec::new();
    let mut real = Vec::new();
    for written in commands(&text) {
        let (code, output) = shell.run(&written.command);
        let at = format!("{document}:{}: $ {}", written.line, written.command);
        if code != Some(0) {
            let what = code.map_or("no end in time".to_owned(), |code| format!("exit code {code}"));
            failed.push(format!("{at}\n{what}:\n{}", output.join("\n")));
        }
        if !matches(&written.output, &output) {
            let (wanted, got) = (written.output.join("\n"), output.join("\n"));
            failed.push(format!("{at}\nwritten:\n{wanted}\nprinted:\n{got}"));
            real.push((written, output));
        }
    }
    if env::var_os("MUTUA_REWRITE_DOCUMENTS").is_some() {
        fs::write(root().join(document), rewritten(&text, &real)).expect("a document to write");
    }
    failed
}

/// The text with these outputs in place of the written ones. Lines left out stay left out.
fn rewritten(text: &str, real: &[(Written, Vec<String>)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (written, output) in real.iter().rev() {
        let old = written.line..written.line + written.output.len();
        let new = match written.output.iter().position(|line| line == "...") {
            Some(gap) => {
                let after = written.output.len() - gap - 1;
                let end = output.len().saturating_sub(after);
                let begin = gap.min(end);
                let gap = ["...".to_owned()];
                [&output[..begin], &gap, &output[end..]].concat()
            }
            None => output.clone(),
        };
        lines.splice(old, new);
    }
    lines.join("\n") + "\n"
}

/// A shell in a scratch directory, with a node of its own.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
    unread: Vec<u8>,
    directory: tempfile::TempDir,
}

impl Shell {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path();
        let mutua = Path::new(env!("CARGO_BIN_EXE_mutua"));
        let path = env::var_os("PATH").unwrap_or_default();
        let path = [mutua.parent().expect("a directory").to_owned()]
            .into_iter()
            .chain(env::split_paths(&path));
        let mut child = Command::new("bash")
            .current_dir(place)
            .env("PATH", env::join_paths(path).expect("a path"))
            .env("HOME", place)
            .env("XDG_RUNTIME_DIR", place)
            .env("USER", "ann")
            .env("LOGNAME", "ann")
            // The user's node is at one path for all tests of a user, so this names another.
            .env("MUTUA_SOCKET", place.join("s"))
            .env("MUTUA_IDLE_MS", "2000")
            .env_remove("MUTUA_CONFIG")
            .env_remove("MUTUA_CLUSTER")
            .env_remove("MUTUA_HELD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("bash is there");
        let mut input = child.stdin.take().expect("a pipe");
        let mut stdout = child.stdout.take().expect("a pipe");
        input.write_all(b"exec 2>&1\n").expect("the shell reads");
        let (send, output) = channel();
        // Ends when the last process has closed the pipe.
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, input, output, unread: Vec::new(), directory }
    }

    /// Runs a command; its exit code, if it ended in time, and the lines that it printed.
    fn run(&mut self, command: &str) -> (Option<i32>, Vec<String>) {
        const MARK: &str = "--- the command has ended with ";
        // Its input is not the shell's, which is the rest of the commands.
        let line = format!("{{ {command}\n}} </dev/null\nprintf '%s%s\\n' '{MARK}' $?\n");
        self.input.write_all(line.as_bytes()).expect("the shell reads");
        let deadline = Instant::now() + PATIENCE;
        let code = loop {
            let text = String::from_utf8_lossy(&self.unread).into_owned();
            if let Some((output, rest)) = text.split_once(MARK)
                && let Some((code, rest)) = rest.split_once('\n')
            {
                let (output, code) = (output.to_owned(), code.parse().expect("an exit code"));
                self.unread = rest.as_bytes().to_vec();
                break (Some(code), output);
            }
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.unread.extend(bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    break (None, text);
                }
            }
        };
        (code.0, code.1.lines().map(str::to_owned).collect())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // A document ends what it starts; this is for one that did not get that far.
        if self.directory.path().join("mutua-cluster").exists() {
            let mut down = Command::new(env!("CARGO_BIN_EXE_mutua"));
            down.args(["cluster", "down"]).current_dir(self.directory.path());
            let _ = down.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

/// Whether the output is what is written, but for what differs from run to run.
fn matches(written: &[String], output: &[String]) -> bool {
    match (written, output) {
        ([], []) => true,
        ([gap, rest @ ..], _) if gap == "..." => {
            (0..=output.len()).any(|skipped| matches(rest, &output[skipped..]))
        }
        ([one, written @ ..], [other, output @ ..]) => {
            line_matches(&steady(one), &steady(other)) && matches(written, output)
        }
        _ => false,
    }
}

/// Whether a line fits a pattern in which `[..]` is any text.
fn line_matches(pattern: &str, line: &str) -> bool {
    let Some((before, after)) = pattern.split_once("[..]") else { return pattern == line };
    let Some(rest) = line.strip_prefix(before) else { return false };
    let mut starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    starts.any(|at| line_matches(after, &rest[at..]))
}

/// A line with a word in place of each number that differs from run to run, and of the host. The
/// width of columns depends on them, so words are one space apart.
fn steady(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches(|letter: char| "(),;:.".contains(letter)).to_owned();
    let is_number = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    let mut steady: Vec<String> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let own = bare(word);
        let before = at.checked_sub(1).map(|before| bare(words[before])).unwrap_or_default();
        let next = words.get(at + 1).map(|next| bare(next)).unwrap_or_default();
        let unit = ["ms", "s", "us", "min", "h"].contains(&&*next);
        let name = match &*own {
            _ if is_number(&own) && ["pid", "process", "view", "epoch"].contains(&&*before) => {
                "NUMBER"
            }
            _ if is_number(&own) && own.len() >= 15 => "TOKEN",
            _ if is_number(&own) && unit => "TIME",
            "ms" | "s" | "us" | "min" | "h" if is_number(&before) => "UNIT",
            _ if before == "on" && at >= 3 && bare(words[at - 3]) == "pid" => "HOST",
            _ => "",
        };
        match name {
            "" => steady.push((*word).to_owned()),
            name => steady.push(word.replacen(&own, name, 1)),
        }
    }
    // `1 min 2 s` is as good as `900 ms`.
    steady.join(" ").replace("TIME UNIT TIME UNIT", "TIME UNIT")
}

fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        // What is between backticks is code.
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        for part in plain.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                links.push((number, target.to_owned()));
            }
        }
    }
    links
}

/// The anchors of a document's headings.
fn anchors(text: &str) -> std::collections::BTreeSet<String> {
    let headings = prose(text).into_iter().filter(|(_, line)| line.starts_with('#'));
    let anchor = |(_, line): (usize, &str)| {
        let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
        let words = line.trim_start_matches('#').trim().to_lowercase();
        words.chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

fn documents() -> Vec<PathBuf> {
    let is_document = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "md");
    let mut found: Vec<_> = files_below(&root()).into_iter().filter(is_document).collect();
    found.sort();
    assert!(found.len() > 5, "only {} documents", found.len());
    found
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') || name == "target" || name == "node_modules" {
            continue;
        }
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).expect("a document")
}

#[test]
fn an_output_matches_but_for_what_differs_from_run_to_run() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let fits = |written: &str, output: &str| matches(&lines(written), &lines(output));
    let written = "held by ann (pid 7 on vm) `sleep 3` for 2 s; you are next";
    assert!(fits(written, "held by ann (pid 81 on box) `sleep 3` for 441 ms; you are next"));
    assert!(fits(written, "held by ann (pid 81 on box) `sleep 3` for 1 min 2 s; you are next"));
    assert!(!fits(written, "held by bob (pid 81 on box) `sleep 3` for 441 ms; you are next"));
    assert!(!fits(written, "held by ann (pid 81 on box) `sleep 4` for 441 ms; you are next"));
    assert!(fits("token 253177015339843586", "token 253177015339843999"));
    assert!(!fits("exit code 75", "exit code 69"));
    assert!(fits("a\n...\nd", "a\nb\nc\nd") && fits("a\n...", "a"));
    assert!(!fits("a\n...\nd", "a\nb\nc"));
    assert!(fits("a[..]c", "abc") && !fits("a[..]c", "ab"));
}

#[test]
fn an_output_is_replaced_and_its_gaps_stay() {
    let text = "```console\n$ a\nold\n...\nend\n$ b\nold\n```\n";
    let output = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut written = commands(text).into_iter();
    let real = vec![
        (written.next().expect("a"), output("1 2 3 4")),
        (written.next().expect("b"), output("5 6")),
    ];
    assert_eq!(rewritten(text, &real), "```console\n$ a\n1\n...\n4\n$ b\n5\n6\n```\n");
}

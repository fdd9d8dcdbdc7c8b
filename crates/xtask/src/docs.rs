//! Generates the tables of the documents.
//!
//! A document has marks `<!-- generated: NAME -->` and `<!-- end -->`. What stands between them is
//! replaced by the block of that name, which is made from what `mutua` prints, or from a kept
//! report: `docs/check-all.txt`, or `docs/side-by-side`. So every fact has one source, and a test
//! of the command line fails when a document is stale.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The command that brings the documents up to date.
pub const COMMAND: &str = "cargo run -p xtask -- docs";

/// The first mark of a block, up to its name.
const BEGIN: &str = "<!-- generated: ";
/// The end of the first mark.
const AFTER_NAME: &str = " -->";
/// The last mark of a block.
const END: &str = "<!-- end -->";

/// The small table of the kept benchmark report, written by `side-by-side`.
const SIDE_BY_SIDE: &str = "docs/side-by-side/table.md";

/// The commands whose helps list exit codes.
const COMMANDS: &str = "lock, elect, ls, show, watch, verify, break, node, cluster, status, top, \
    cert, config, lab, demo bank, demo failover, simulate, compare, choose, check, replay, \
    quorums, algorithms, man, completions";

/// A document that is not up to date, and its new text.
#[derive(Debug)]
pub struct Stale {
    /// The file.
    pub path: PathBuf,
    /// The text that it should have.
    pub text: String,
}

/// The documents below `root` that are stale. `mutua` runs the program with arguments, and returns
/// its standard output.
///
/// # Errors
///
/// If a document cannot be read, a mark is wrong, or the program fails.
pub fn stale(root: &Path, mutua: &dyn Fn(&[&str]) -> Result<String>) -> Result<Vec<Stale>> {
    let mut stale = Vec::new();
    for path in documents(root)? {
        let old = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        let block = |name: &str| block(name, root, mutua);
        let new = fill(&old, &block).with_context(|| format!("{}", path.display()))?;
        if new != old {
            stale.push(Stale { path, text: new });
        }
    }
    Ok(stale)
}

/// The markdown files at the root and below `docs`.
fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = markdown(root)?;
    let mut directories = vec![root.join("docs")];
    while let Some(directory) = directories.pop() {
        files.extend(markdown(&directory)?);
        let entries = fs::read_dir(&directory)?.flatten().map(|entry| entry.path());
        directories.extend(entries.filter(|path| path.is_dir()));
    }
    files.sort();
    Ok(files)
}

/// The markdown files of a directory.
fn markdown(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("{}", directory.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect())
}

/// The text with every block between marks replaced.
fn fill(text: &str, block: &dyn Fn(&str) -> Result<String>) -> Result<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(AFTER_NAME).context("a mark without a name")?;
        let (old, after) =
            after.split_once(END).with_context(|| format!("no `{END}` after the mark {name}"))?;
        if old.contains(BEGIN) {
            bail!("no `{END}` after the mark {name}");
        }
        let new = block(name)?;
        filled += &format!("{before}{BEGIN}{name}{AFTER_NAME}\n{}\n{END}", new.trim_end());
        rest = after;
    }
    Ok(filled + rest)
}

/// The block of this name.
fn block(name: &str, root: &Path, mutua: &dyn Fn(&[&str]) -> Result<String>) -> Result<String> {
    let algorithms =
        || Ok::<_, anyhow::Error>(serde_json::from_str(&mutua(&["algorithms", "--json"])?)?);
    let report = || fs::read_to_string(root.join("docs/check-all.txt")).context("check-all.txt");
    Ok(match name {
        "algorithms-table" => algorithms_table(&algorithms()?),
        "algorithms-pages" => algorithms_pages(&algorithms()?),
        "exit-codes" => {
            let help = |command: &'static str| {
                let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
                Ok((command, mutua(&words)?))
            };
            exit_codes(&COMMANDS.split(", ").map(help).collect::<Result<Vec<_>>>()?)?
        }
        "config-keys" => {
            config_keys(&serde_json::from_str(&mutua(&["config", "keys", "--json"])?)?)
        }
        "controls" => controls(&report()?)?,
        "script-language" => {
            script_language(&serde_json::from_str(&mutua(&["replay", "--language", "--json"])?)?)
        }
        "invariant-language" => {
            let forms = serde_json::from_str(&mutua(&["check", "--language", "--json"])?)?;
            invariant_language(&forms)
        }
        "checked-repairs" => checked_repairs(&report()?)?,
        "check-all-summary" => summary(&report()?)?,
        "repairs-table" => {
            let file = root.join("docs/repairs.csv");
            repairs(&fs::read_to_string(file).context("repairs.csv")?)?
        }
        "side-by-side" => fs::read_to_string(root.join(SIDE_BY_SIDE)).context(SIDE_BY_SIDE)?,
        other => bail!("unknown block `{other}`"),
    })
}

/// A markdown table.
fn table(header: &[&str], alignments: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n| {} |\n", header.join(" | "), alignments.join(" | "));
    for row in rows {
        let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text
}

/// Messages and time of every repair by size, from the table that `mutua compare` writes.
fn repairs(csv: &str) -> Result<String> {
    let mut sizes: Vec<&str> = Vec::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in csv.lines().skip(1) {
        let columns: Vec<_> = line.split(',').collect();
        let [name, nodes, kind, election, repair, time, lost, wrong] = columns.as_slice() else {
            bail!("{} columns in the line `{line}` of repairs.csv", columns.len());
        };
        if *lost != "0" || !wrong.is_empty() {
            bail!("a repair failed: `{line}` of repairs.csv");
        }
        if !sizes.contains(nodes) {
            sizes.push(nodes);
        }
        let messages = election.parse::<u64>()? + repair.parse::<u64>()?;
        let time: f64 = time.parse()?;
        let head = [format!("`{name}`"), (*kind).to_owned()];
        let cell = format!("{messages}, {} T", (100.0 * time).round() / 100.0);
        match rows.iter_mut().find(|row| row[..2] == head) {
            Some(row) => row.push(cell),
            None => rows.push(head.into_iter().chain([cell]).collect()),
        }
    }
    let titles: Vec<_> = sizes.iter().map(|nodes| format!("N = {nodes}")).collect();
    let mut header = vec!["algorithm", "repair"];
    header.extend(titles.iter().map(String::as_str));
    let alignment = |name: &&str| if name.contains('=') { "--:" } else { "---" };
    let alignments: Vec<_> = header.iter().map(alignment).collect();
    Ok(table(&header, &alignments, &rows))
}

/// The string of a JSON object's field, empty if it has none.
fn field<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_default()
}

/// The elements of a JSON object's field that is a list.
fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object[name].as_array().map_or(&[], Vec::as_slice)
}

/// The forms of a script's lines, a table for each part.
fn script_language(sections: &Value) -> String {
    let mut text = String::new();
    for section in sections.as_array().map_or(&[][..], Vec::as_slice) {
        text += &format!("## {}\n\n", field(section, "title"));
        let code = |form: &Value, name: &str| format!("`{}`", field(form, name));
        let rows: Vec<_> = list(section, "forms")
            .iter()
            .map(|form| {
                let meaning = field(form, "meaning").to_owned();
                vec![code(form, "syntax"), meaning, code(form, "example")]
            })
            .collect();
        text += &table(&["line", "meaning", "example"], &["---", "---", "---"], &rows);
        text.push('\n');
    }
    text
}

fn invariant_language(forms: &Value) -> String {
    let forms = forms.as_array().map_or(&[][..], Vec::as_slice);
    let row = |form: &Value| {
        vec![format!("`{}`", field(form, "form")), field(form, "meaning").to_owned()]
    };
    let rows: Vec<_> = forms.iter().map(row).collect();
    table(&["form", "meaning"], &["---", "---"], &rows)
}

fn config_keys(keys: &Value) -> String {
    let row = |key: &Value| {
        let table = Some(field(key, "table")).filter(|table| !table.is_empty());
        let default = match &key["default"] {
            Value::String(default) => format!("`{default}`"),
            _ => "required".to_owned(),
        };
        vec![
            table.map(|table| format!("`{table}`")).unwrap_or_default(),
            format!("`{}`", field(key, "name")),
            field(key, "type").to_owned(),
            default,
            field(key, "meaning").to_owned(),
        ]
    };
    let rows: Vec<_> = keys.as_array().map_or(&[][..], Vec::as_slice).iter().map(row).collect();
    table(&["table", "key", "type", "default", "meaning"], &["---"; 5], &rows)
}

fn algorithms_table(algorithms: &Value) -> String {
    let header = [
        "name",
        "kind",
        "light",
        "saturated",
        "worst",
        "client delay",
        "sync delay",
        "links",
        "order",
    ];
    let row = |about: &Value| {
        let name = field(about, "name");
        let control = if about["control"] == true { " \\*" } else { "" };
        let costs = &about["costs"];
        let cost = |name| field(costs, name).to_owned();
        vec![
            format!("[`{name}`](algorithms.md#{name}){control}"),
            field(about, "family").to_owned(),
            cost("light"),
            cost("saturated"),
            cost("worst"),
            cost("client_delay"),
            cost("sync_delay"),
            links(about),
            field(about, "order").to_owned(),
        ]
    };
    let rows: Vec<_> = algorithms.as_array().into_iter().flatten().map(row).collect();
    table(&header, &["---"; 9], &rows)
}

fn links(about: &Value) -> String {
    match field(about, "links") {
        "fifo" => "FIFO".to_owned(),
        other => other.to_owned(),
    }
}

fn algorithms_pages(algorithms: &Value) -> String {
    let pages = algorithms.as_array().into_iter().flatten().map(page);
    pages.collect::<Vec<_>>().join("\n")
}

fn is_election(about: &Value) -> bool {
    field(about, "family") == "election"
}

/// The costs of one entry, or of one election.
fn costs(about: &Value) -> String {
    let cost = |name| field(&about["costs"], name);
    let [light, saturated, worst] = ["light", "saturated", "worst"].map(cost);
    if is_election(about) {
        return format!(
            "Costs: messages per election {light} in the best case, {saturated} if all start, \
             {worst} at worst."
        );
    }
    let [client, sync] = ["client_delay", "sync_delay"].map(cost);
    format!(
        "Costs: messages per entry {light} at light load, {saturated} at saturated load, {worst} \
         at worst; client delay {client}; sync delay {sync}."
    )
}

/// One algorithm: the heading is its name, so that the table can link to it.
fn page(about: &Value) -> String {
    let source = field(about, "source").trim_end_matches('.');
    let mut page = format!(
        "## {}\n\n{}\n{}\n",
        field(about, "name"),
        wrapped("", &format!("**{}.** {source}.", field(about, "title"))),
        wrapped("", field(about, "idea"))
    );
    let bullets = |items: &[Value]| -> String {
        items.iter().filter_map(Value::as_str).map(|item| wrapped("- ", item)).collect()
    };
    page += &bullets(list(about, "rules"));
    page += &format!("\n{}", wrapped("", &costs(about)));
    let claims: Vec<_> = list(about, "claims").iter().filter_map(Value::as_str).collect();
    let claims = match claims.as_slice() {
        [] => "none, a negative control".to_owned(),
        claims => claims.join(", "),
    };
    let claims = format!(
        "Claims: {claims}. Links: {}. {}: {}.",
        links(about),
        if is_election(about) { "Elects" } else { "Order of entry" },
        field(about, "order")
    );
    page += &format!("\n{}", wrapped("", &claims));
    page += &variants(list(about, "options"));
    let stated = list(about, "invariants");
    if !stated.is_empty() {
        page += "\nInvariants, judged by `mutua check --stated-invariants`:\n\n";
        for one in stated {
            let (name, formula) = (field(one, "name"), field(one, "formula"));
            let item = format!("{name}: {}. `{formula}`", field(one, "meaning"));
            page += &wrapped("- ", &item);
        }
    }
    let failures = list(about, "known_failures");
    if !failures.is_empty() {
        page += &format!("\nKnown failures:\n\n{}", bullets(failures));
    }
    page
}

/// A paragraph in lines of at most 120 columns. The first begins with `first`, the others with as
/// many spaces.
fn wrapped(first: &str, text: &str) -> String {
    let (mut lines, mut line) = (String::new(), first.to_owned());
    for word in text.split_whitespace() {
        if line.trim_end().chars().count() + 1 + word.chars().count() > 120 {
            lines += &format!("{}\n", line.trim_end());
            line = " ".repeat(first.len());
        }
        line += &format!("{word} ");
    }
    lines + &format!("{}\n", line.trim_end())
}

/// The variants of an algorithm, as a table.
fn variants(options: &[Value]) -> String {
    let rows = options.iter().flat_map(|option| {
        list(option, "values").iter().enumerate().map(|(index, value)| {
            let default = if index == 0 { " (default)" } else { "" };
            let drops: Vec<_> = list(value, "drops").iter().filter_map(Value::as_str).collect();
            let drops = match drops.as_slice() {
                [] => String::new(),
                drops => format!("; negative control: not {}", drops.join(", ")),
            };
            vec![
                format!("`--with {}={}`{default}", field(option, "key"), field(value, "name")),
                format!("{}{drops}", field(value, "meaning")),
            ]
        })
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("\n{}", table(&["variant", "effect"], &["---", "---"], &rows))
}

/// The exit codes of the helps: `Exit codes: CODE meaning; CODE meaning.` Commands that mean the
/// same by a code share a row.
fn exit_codes(helps: &[(&str, String)]) -> Result<String> {
    let mut rows: Vec<(String, String, Vec<&str>)> = Vec::new();
    for (command, help) in helps {
        let (_, codes) = help.split_once("Exit codes: ").context("no exit codes in a help")?;
        let codes = codes.split_once(".\n").map_or(codes, |(codes, _)| codes);
        let codes = codes.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in codes.split("; ") {
            let (code, meaning) = match part.split_once(' ') {
                Some((code, meaning)) if code.starts_with(|one: char| one.is_ascii_digit()) => {
                    (code, meaning)
                }
                // Not a number: the exit code of the command that runs under the lock.
                _ => ("its own", part),
            };
            match rows.iter_mut().find(|row| row.0 == code && row.1 == meaning) {
                Some(row) => row.2.push(command),
                None => rows.push((code.to_owned(), meaning.to_owned(), vec![command])),
            }
        }
    }
    let number = |code: &str| code.split('+').next().and_then(|code| code.parse::<u32>().ok());
    rows.sort_by_key(|(code, _, commands)| (number(code), commands.len() < helps.len()));
    let row = |(code, meaning, commands): (String, String, Vec<&str>)| {
        let all = commands.len() == helps.len();
        vec![code, meaning, if all { "all".to_owned() } else { commands.join(", ") }]
    };
    let rows: Vec<_> = rows.into_iter().map(row).collect();
    Ok(table(&["code", "meaning", "commands"], &["--:", "---", "---"], &rows))
}

/// The rows of the negative controls in the report of `mutua check --all`.
fn controls(report: &str) -> Result<String> {
    const CONTROL: &str = "  negative control: ";
    let mut rows = Vec::new();
    for line in report.lines().filter(|line| line.contains(CONTROL)) {
        let (left, found) = line.split_once(CONTROL).context("a control")?;
        let columns: Vec<_> =
            left.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [algorithm, system, states, _seconds] = columns.as_slice() else {
            bail!("{} columns in the line `{line}` of check-all.txt", columns.len());
        };
        let violated = found.replace(" violated in ", ", ");
        rows.push(vec![
            format!("`{algorithm}`"),
            (*system).to_owned(),
            thousands(states),
            violated,
        ]);
    }
    if rows.is_empty() {
        bail!("check-all.txt has no negative controls");
    }
    let header = ["algorithm", "system", "states", "violated"];
    Ok(table(&header, &["---", "---", "--:", "---"], &rows))
}

/// The columns of the table of checked repairs: the beginning of a system's title, and whether a
/// process restarts.
const CHECKED: [(&str, &str, bool); 5] = [
    ("generic, bully", "repair with bully: 3 processes", false),
    ("generic, chang-roberts", "repair with chang-roberts: 3 processes", false),
    ("with a restart, bully", "repair with bully: 3 processes", true),
    ("with a restart, chang-roberts", "repair with chang-roberts: 3 processes", true),
    ("special", "special repair: 3 processes", false),
];

/// The states of the repairs in the report of `mutua check --all`: of three processes and one
/// crash as a table, of other systems as a list.
fn checked_repairs(report: &str) -> Result<String> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut others = Vec::new();
    let is_repair = |line: &&str| line.contains(" repair") && line.contains("  holds: agreement");
    for line in report.lines().filter(is_repair) {
        let columns: Vec<_> =
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [algorithm, system, states, ..] = columns.as_slice() else {
            bail!("{} columns in the line `{line}` of check-all.txt", columns.len());
        };
        let (name, states) = (format!("`{algorithm}`"), thousands(states));
        if rows.last().is_none_or(|row| row[0] != name) {
            let mut row = vec![String::new(); CHECKED.len() + 1];
            row[0].clone_from(&name);
            rows.push(row);
        }
        let is_it = |&(_, start, restarts): &(_, &str, bool)| {
            let one_crash = system.starts_with(start) && system.contains("1 crash");
            one_crash && system.contains("restart") == restarts
        };
        let Some(column) = CHECKED.iter().position(is_it) else {
            others.push(format!("- {name}, {system}: {states} states"));
            continue;
        };
        let parts = system.split(", ");
        let notes: Vec<_> =
            parts.filter(|part| part.contains("contend") || *part == "FIFO").collect();
        let notes = match notes.as_slice() {
            [] => String::new(),
            notes => format!(" ({})", notes.join(", ")),
        };
        if let Some(cell) = rows.last_mut().and_then(|row| row.get_mut(column + 1)) {
            *cell = format!("{states}{notes}");
        }
    }
    if rows.is_empty() {
        bail!("check-all.txt has no repairs");
    }
    let mut header = vec!["algorithm"];
    header.extend(CHECKED.map(|(title, ..)| title));
    let table = table(&header, &["---", "--:", "--:", "--:", "--:", "--:"], &rows);
    Ok(format!("{table}\n{}", others.join("\n")))
}

/// A number with commas.
fn thousands(number: &str) -> String {
    let mut text = String::new();
    for (index, digit) in number.char_indices() {
        if index > 0 && (number.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The last line of the report of `mutua check --all`.
fn summary(report: &str) -> Result<String> {
    report.lines().last().map(str::to_owned).context("check-all.txt is empty")
}

#[cfg(test)]
mod tests {
    use super::{checked_repairs, controls, exit_codes, fill, summary, wrapped};

    const TEXT: &str = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n";

    #[test]
    fn checked_repairs_are_taken_from_the_report() {
        let report = "x  repair with bully: 3 processes, 1 crash  1234  0.1  holds: agreement\n\
                      x  special repair: 3 processes, 1 contends, 1 crash, FIFO  5  0.1  holds: \
                      agreement\n\
                      x  repair with bully: 3 processes, 2 crashes  7  0.1  holds: agreement\n";
        let text = checked_repairs(report).expect("repairs");
        assert!(text.contains("| `x` | 1,234 |  |  |  | 5 (1 contends, FIFO) |"), "{text}");
        assert!(text.ends_with("- `x`, repair with bully: 3 processes, 2 crashes: 7 states"));
        assert!(checked_repairs("").is_err());
    }

    #[test]
    fn the_text_between_marks_is_replaced_and_the_rest_stays() {
        let block = |name: &str| Ok(format!("new {name}\n"));
        let new = "a\n<!-- generated: x -->\nnew x\n<!-- end -->\nb\n";
        assert_eq!(fill(TEXT, &block).unwrap(), new);
        assert_eq!(fill(new, &block).unwrap(), new);
        assert_eq!(fill("no marks", &block).unwrap(), "no marks");
    }

    #[test]
    fn a_paragraph_is_wrapped_at_120_columns_and_indented() {
        let text = wrapped("- ", &"word ".repeat(50));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() <= 120) && lines[0].len() > 115, "{text}");
        assert!(lines[0].starts_with("- word") && lines[1].starts_with("  word"), "{text}");
    }

    #[test]
    fn a_mark_without_an_end_is_an_error() {
        let block = |_: &str| Ok(String::new());
        fill("<!-- generated: x -->\n", &block).unwrap_err();
        fill(&format!("<!-- generated: y -->\n{TEXT}"), &block).unwrap_err();
    }

    #[test]
    fn equal_exit_codes_of_several_commands_are_one_row() {
        let lock =
            "Exit codes: the command's own if it\nexited; 64 bad usage; 75 busy.\n".to_owned();
        let ls = "Exit codes: 0 success; 64 bad usage.\n".to_owned();
        let table = exit_codes(&[("lock", lock), ("ls", ls)]).unwrap();
        let rows: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| its own | the command's own if it exited | lock |",
                "| 0 | success | ls |",
                "| 64 | bad usage | all |",
                "| 75 | busy | lock |"
            ]
        );
    }

    #[test]
    fn the_report_of_the_checker_gives_its_controls_and_its_summary() {
        let report = "central  2 processes, 3 entries  1072  0.0  holds: liveness\n\
                      lamport  links that reorder  12345  0.1  negative control: mutual-exclusion \
                      violated in 4 steps\n\n2 rows: all as expected\n";
        assert_eq!(summary(report).unwrap(), "2 rows: all as expected");
        let table = controls(report).unwrap();
        let expected = "| `lamport` | links that reorder | 12,345 | mutual-exclusion, 4 steps |";
        assert_eq!(table.lines().last(), Some(expected));
        controls("nothing").unwrap_err();
    }
}

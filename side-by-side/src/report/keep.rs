//! Keeps a report in the repository, with a small table of it that the README includes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{
    JSON, files, number, read, read_json,
    summary::Summary,
    targets,
    text::{self, Table},
    texts, write,
};

/// The small table. The README has its text between marks, which the documents' generator fills.
const SMALL: &str = "table.md";

/// The systems in the README, one for each kind.
const SHOWN: [&str; 9] = [
    "mutua-naimi-trehel",
    "mutua-client-1",
    "mutua-client-3",
    "mutua-grpc-3-naimi-trehel",
    "etcd-3",
    "zookeeper-3",
    "redis-blpop",
    "postgres",
    "flock",
];

/// Writes the kept report again from its kept figures.
pub(crate) fn rewrite() -> Result<()> {
    let docs = kept()?;
    let summary = kept_figures(&docs)?;
    fs::write(docs.join(JSON), serde_json::to_string_pretty(&summary)? + "\n")?;
    for (name, text) in texts(&summary).into_iter().chain([(SMALL, section(&summary))]) {
        fs::write(docs.join(name), text)?;
    }
    eprintln!("{} is written again; {README}", docs.display());
    Ok(())
}

/// What is left to do after the small table was written.
const README: &str = "`cargo run -p xtask -- docs` in the repository updates the README";

/// The directory of the kept report.
fn kept() -> Result<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a repository")?;
    Ok(repository.join("docs/side-by-side"))
}

fn kept_figures(docs: &Path) -> Result<Summary> {
    let missing = || format!("{} has no {JSON}", docs.display());
    let mut summary: Summary = read_json(&docs.join(JSON))?.with_context(missing)?;
    // The kept ones have the words of the program that measured.
    summary.targets = targets::all(&summary.rows);
    Ok(summary)
}

/// Copies the report of a directory to `docs/side-by-side` of the repository, and writes its small
/// table there.
pub(crate) fn keep(directory: &Path) -> Result<()> {
    let summary = read(directory)?;
    ensure!(!summary.meta.quick, "a quick run is not kept: its figures are of one short round");
    write(directory)?;
    let docs = kept()?;
    fs::create_dir_all(&docs)?;
    for file in files() {
        fs::copy(directory.join(file), docs.join(file))?;
    }
    fs::write(docs.join(SMALL), section(&summary))?;
    eprintln!("kept in {}; {README}", docs.display());
    Ok(())
}

fn section(summary: &Summary) -> String {
    let meta = &summary.meta;
    let (least, most) = summary.load;
    let rounds = summary.rows.iter().map(|row| row.rounds).max().unwrap_or(0);
    format!(
        "{}\n\nMeasured {} on {},\nmedian of {rounds} rounds in turns, load {} to {}.\n",
        text::markdown_table(&small_table(summary)),
        meta.date,
        meta.machine,
        number(least),
        number(most),
    )
}

/// One line for each kind of lock: the figures beside what the lock guarantees.
fn small_table(summary: &Summary) -> Table {
    let mut table = Table::new(&[
        "lock",
        "hand-overs/s",
        "release to next grant, us",
        "lock and unlock again, us",
        "durable",
        "survives a crash of",
        "fencing token",
    ]);
    for id in SHOWN {
        let Some(row) = summary.rows.iter().find(|row| row.system.id == id) else { continue };
        let handovers = row.empty.get(&3).map(|figures| figures.handovers_per_s);
        let figures = [handovers, targets::delay_of_three(row), targets::pair(row)];
        let figures = figures.map(|value| value.map_or("-".to_owned(), number));
        let words = row.system.guarantees.in_short.clone();
        let cells = [row.title.clone()].into_iter().chain(figures).chain(words);
        table.rows.push(cells.collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_report_has_the_texts_of_this_program() {
        let docs = kept().unwrap();
        let summary = kept_figures(&docs).unwrap();
        for (name, text) in texts(&summary).into_iter().chain([(SMALL, section(&summary))]) {
            let kept = fs::read_to_string(docs.join(name)).unwrap();
            assert!(kept == text, "{name} is stale: run `side-by-side rewrite`");
        }
    }
}

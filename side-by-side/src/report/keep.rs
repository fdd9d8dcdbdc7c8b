//! Keeps a report in the repository, and its main table and plot in the README.

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};

use super::{
    files, number, read, summary::Summary, tables::main_table, targets::Target, text, write,
};

const BEGIN: &str = "<!-- side by side: begin -->";
const END: &str = "<!-- side by side: end -->";

/// Copies the report of a directory to `docs/side-by-side` of the repository, and writes the part
/// of the README between two marks anew.
pub(crate) fn keep(directory: &Path) -> Result<()> {
    let summary = read(directory)?;
    ensure!(!summary.meta.quick, "a quick run is not kept: its figures are of one short round");
    write(directory)?;
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a repository")?;
    let docs = repository.join("docs/side-by-side");
    fs::create_dir_all(&docs)?;
    for file in files() {
        fs::copy(directory.join(file), docs.join(file))?;
    }
    let readme = repository.join("README.md");
    let text = fs::read_to_string(&readme)?;
    fs::write(&readme, replace(&text, &section(&summary))?)?;
    eprintln!("kept in {} and {}", docs.display(), readme.display());
    Ok(())
}

fn section(summary: &Summary) -> String {
    let mut table = main_table(summary);
    // A README shows one line for each kind.
    let shown = |id: &str| {
        !["-suzuki", "-ricart", "-maekawa", "tasks", "memory", "grpc-3-central", "-1"]
            .iter()
            .any(|part| id.contains(part))
    };
    let shown: Vec<_> = summary.rows.iter().map(|row| shown(&row.id)).collect();
    let mut keep = shown.iter();
    table.rows.retain(|_| *keep.next().unwrap_or(&false));
    let meta = &summary.meta;
    let (least, most) = summary.load;
    let rounds = summary.rows.iter().map(|row| row.rounds).max().unwrap_or(0);
    format!(
        "![hand-overs per second, 3 contenders](docs/side-by-side/handovers.svg)\n\n{}\n\n{}\n\
         Measured {} on {}, median of {rounds} rounds in turns, load {} to {}.",
        text::markdown_table(&table),
        missed(&summary.targets),
        meta.date,
        meta.machine,
        number(least),
        number(most),
    )
}

/// What was meant to be and is not.
fn missed(targets: &[Target]) -> String {
    let missed: Vec<_> = targets
        .iter()
        .filter(|target| target.holds() == Some(false))
        .map(|target| {
            let (ratio, wanted) = (number(target.ratio), target.wanted.unwrap_or(0.0));
            format!("{} against {}: {ratio}x, {wanted}x wanted", target.what, target.theirs)
        })
        .collect();
    match missed.is_empty() {
        true => "All that was meant to hold does.".to_owned(),
        false => format!(
            "Meant to hold and not reached ([why](side-by-side/NOTES.md)): {}.",
            missed.join("; ")
        ),
    }
}

fn replace(text: &str, section: &str) -> Result<String> {
    let no_marks = || format!("the README has no `{BEGIN}` and `{END}`");
    let (before, rest) = text.split_once(BEGIN).with_context(no_marks)?;
    let (_, after) = rest.split_once(END).with_context(no_marks)?;
    Ok(format!("{before}{BEGIN}\n{section}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replace(&text, "new").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert!(replace("no marks", "new").is_err());
    }
}

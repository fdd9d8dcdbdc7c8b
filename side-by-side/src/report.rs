//! The report: one JSON, one Markdown, one HTML page with its plots in it, and the plots.

mod keep;
mod plot;
mod summary;
mod tables;
mod targets;
mod text;

pub(crate) use keep::{keep, rewrite};

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use crate::{drive::read_pieces, halves::Halves, meta::Meta};
use summary::Summary;
use text::{Block, Table};

/// The report without its plots.
const JSON: &str = "report.json";
const MARKDOWN: &str = "report.md";
const PAGE: &str = "report.html";

/// All files of a report.
fn files() -> impl Iterator<Item = &'static str> {
    [JSON, MARKDOWN, PAGE].into_iter().chain(plot::files())
}

/// Writes the report of what is in the directory.
pub(crate) fn write(directory: &Path) -> Result<()> {
    let summary = read(directory)?;
    let json = serde_json::to_string_pretty(&summary)?;
    fs::write(directory.join(JSON), json + "\n")?;
    for (name, text) in texts(&summary) {
        fs::write(directory.join(name), text)?;
    }
    eprintln!("report: {}", directory.join(PAGE).display());
    Ok(())
}

/// The files of a report beside its figures: the texts and the plots.
fn texts(summary: &Summary) -> Vec<(&'static str, String)> {
    let blocks = tables::blocks(summary);
    let plots = plot::all(summary);
    let page = text::html(&blocks, &plots);
    let mut texts = vec![(MARKDOWN, text::markdown(&blocks)), (PAGE, page)];
    texts.extend(plots);
    texts
}

/// What the results in the directory begin with, if there are any.
pub(crate) fn read_meta(directory: &Path) -> Result<Option<Meta>> {
    read_json(&directory.join("meta.json"))
}

fn read(directory: &Path) -> Result<Summary> {
    let nothing = || format!("nothing was measured in {}", directory.display());
    let meta = read_meta(directory)?.with_context(nothing)?;
    let pieces = read_pieces(&directory.join("results.jsonl"))?;
    let halves: Option<Halves> = read_json(&directory.join("halves.json"))?;
    Ok(summary::summarise(meta, &pieces, halves))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Ok(text) = fs::read_to_string(path) else { return Ok(None) };
    let parsed = serde_json::from_str(&text);
    Ok(Some(parsed.with_context(|| format!("{} is of another version", path.display()))?))
}

/// A figure with three digits that count.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    if digits > 0 {
        return format!("{value:.*}", usize::try_from(digits.min(4)).unwrap_or(0));
    }
    let scale = 10_f64.powi(-digits);
    let whole = ((value / scale).round() * scale) as i64;
    let text = whole.abs().to_string();
    let mut grouped = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if whole < 0 { format!("-{grouped}") } else { grouped }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn three_digits_count() {
        assert_eq!(number(1234567.0), "1,230,000");
        assert_eq!(number(999.6), "1,000");
        assert_eq!(number(123.4), "123");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(0.1234), "0.123");
        assert_eq!(number(0.0), "0");
    }
}

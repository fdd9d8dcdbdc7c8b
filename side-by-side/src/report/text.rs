//! Headings, paragraphs, tables and plots, as Markdown and as a page.

use mutua_lab::escape;

/// A part of the report.
#[derive(Clone, Debug)]
pub(super) enum Block {
    Heading(u8, String),
    Paragraph(String),
    List(Vec<String>),
    Table(Table),
    /// A plot, by the name of its file, and what it shows.
    Plot(&'static str, &'static str),
}

/// A table; the first column is text, the others are figures unless `words` says otherwise.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    pub(super) words: bool,
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(|name| (*name).to_owned()).collect();
        Self { head, rows: Vec::new(), words: false }
    }
}

pub(super) fn markdown(blocks: &[Block]) -> String {
    let mut text = String::new();
    for block in blocks {
        text += &match block {
            Block::Heading(level, words) => format!("{} {words}", "#".repeat(usize::from(*level))),
            Block::Paragraph(words) => words.clone(),
            Block::List(items) => {
                items.iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
            }
            Block::Table(table) => markdown_table(table),
            Block::Plot(file, shows) => format!("![{shows}]({file})"),
        };
        text += "\n\n";
    }
    text.trim_end().to_owned() + "\n"
}

pub(super) fn markdown_table(table: &Table) -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let rule = |index| if index == 0 || table.words { "---" } else { "--:" };
    let rules: Vec<_> = (0..table.head.len()).map(|index| rule(index).to_owned()).collect();
    let mut lines = vec![line(&table.head), line(&rules)];
    lines.extend(table.rows.iter().map(|row| line(row)));
    lines.join("\n")
}

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2430; background: #fff; }
h1, h2, h3 { line-height: 1.2; margin-top: 2rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table:not(.words) td:first-child { white-space: nowrap; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #d5dae1; text-align: right;
         vertical-align: top; }
th:first-child, td:first-child, .words th, .words td { text-align: left; }
th { border-bottom: 2px solid #8b95a5; }
svg { max-width: 100%; height: auto; }
";

pub(super) fn html(blocks: &[Block], plots: &[(&'static str, String)]) -> String {
    let mut body = String::new();
    for block in blocks {
        body += &match block {
            Block::Heading(level, words) => format!("<h{level}>{}</h{level}>", inline(words)),
            Block::Paragraph(words) => format!("<p>{}</p>", inline(words)),
            Block::List(items) => {
                let items = items.iter().map(|item| format!("<li>{}</li>", inline(item)));
                format!("<ul>{}</ul>", items.collect::<Vec<_>>().join("\n"))
            }
            Block::Table(table) => html_table(table),
            Block::Plot(file, _) => {
                let plot = plots.iter().find(|(name, _)| name == file);
                plot.map(|(_, svg)| svg.clone()).unwrap_or_default()
            }
        };
        body.push('\n');
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Side by side</title>\n\
         <style>{STYLE}</style>\n{body}</html>\n"
    )
}

fn html_table(table: &Table) -> String {
    let cells = |tag: &str, row: &[String]| {
        let cells = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", inline(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let rows: Vec<_> = table.rows.iter().map(|row| cells("td", row)).collect();
    let class = if table.words { " class=\"words\"" } else { "" };
    format!(
        "<div class=\"wide\"><table{class}><thead>{}</thead><tbody>\n{}\n</tbody></table></div>",
        cells("th", &table.head),
        rows.join("\n")
    )
}

/// Code and bold of Markdown.
fn inline(text: &str) -> String {
    let escaped = escape(text);
    let coded = pairs(&escaped, "`", "code");
    pairs(&coded, "**", "strong")
}

fn pairs(text: &str, mark: &str, tag: &str) -> String {
    let mut result = String::new();
    for (index, part) in text.split(mark).enumerate() {
        match index {
            0 => {}
            odd if odd % 2 == 1 => result += &format!("<{tag}>"),
            _ => result += &format!("</{tag}>"),
        }
        result += part;
    }
    result
}

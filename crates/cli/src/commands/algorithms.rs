//! `mutua algorithms`: the table of all algorithms, and the description of each.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use mutua_algorithms::{About, Claim, Costs, Kind, Other, registry};

use crate::{names, words::links};

/// List the algorithms, or describe one.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Algorithm to describe; without it, all are listed.
    name: Option<String>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let chosen = arguments.name.as_deref().map(names::algorithm).transpose()?;
    match (chosen, arguments.json) {
        (None, true) => println!("{}", serde_json::to_string_pretty(registry::ALGORITHMS)?),
        (None, false) => println!("{}", table()),
        (Some(about), true) => println!("{}", serde_json::to_string_pretty(about)?),
        (Some(about), false) => print!("{}", page(about)),
    }
    Ok(ExitCode::SUCCESS)
}

/// A column: its title, and its text for an algorithm.
type Column = (&'static str, fn(&About) -> String);

const COLUMNS: &[Column] = &[
    ("name", name),
    ("kind", |about| about.family.to_owned()),
    ("light", |about| about.costs.light.to_string()),
    ("saturated", |about| about.costs.saturated.to_string()),
    ("client delay", |about| about.costs.client_delay.to_string()),
    ("sync delay", |about| about.costs.sync_delay.to_string()),
    ("links", |about| links(about).to_owned()),
];

/// Additional columns on a wide terminal.
const MORE_COLUMNS: &[Column] = &[
    ("worst", |about| about.costs.worst.to_string()),
    ("order", |about| about.order.to_owned()),
    ("source", |about| about.source.to_owned()),
];

/// The minimal width of a terminal for all columns.
const WIDE: u16 = 200;
/// The width where there is no terminal.
const NO_TERMINAL: u16 = 120;

/// What the letters of the formulas stand for.
const SYMBOLS: &str = "\
N: processes; T: latency of a message; K: size of a quorum, with oneself; D: diameter of the tree;
H(k) = 1 + 1/2 + ... + 1/k; |R|, |I|: sizes of the request set and the inform set.
Messages are per entry, and of elections per election: in the best case, and if all start.";

fn table() -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(NO_TERMINAL);
    }
    let narrow = table.width().is_some_and(|width| width < WIDE);
    let more = if narrow { &[] } else { MORE_COLUMNS };
    let columns = || COLUMNS.iter().chain(more);
    table.set_header(columns().map(|(title, _)| *title));
    for about in registry::ALGORITHMS {
        table.add_row(columns().map(|(_, text)| text(about)));
    }
    if let Some(names) = table.column_mut(0) {
        // A name that is broken over two lines cannot be copied.
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    let hint = "\nFor worst case, order of entry and source use a wider terminal or `mutua \
                algorithms NAME`.";
    format!("{table}\n\n{SYMBOLS}{}", if narrow { hint } else { "" })
}

fn name(about: &About) -> String {
    if about.control { format!("{} (control)", about.name) } else { about.name.to_owned() }
}

fn page(about: &About) -> String {
    let mut page =
        format!("{} ({})\n{}\n\n{}\n", about.title, about.name, about.source, about.idea);
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            page += &format!("\n{title}\n");
            for line in lines {
                page += &format!("  {line}\n");
            }
        }
    };
    section("Rules", about.rules.iter().map(|rule| format!("- {rule}")).collect());
    section("Costs", costs(about));
    let claims: Vec<_> = about.claims.iter().copied().map(Claim::name).collect();
    section(
        "Claims",
        vec![if claims.is_empty() {
            "none: a negative control".to_owned()
        } else {
            claims.join(", ")
        }],
    );
    section(
        "Assumes",
        vec![format!("links: {}", links(about)), format!("{}: {}", order(about), about.order)],
    );
    let variants = about.options.iter().flat_map(|choice| {
        let line = move |value: &str, meaning: &str| {
            format!("--with {}={value:<14} {meaning}", choice.key)
        };
        let named = choice.values.iter().map(move |variant| line(variant.name, variant.meaning));
        named.chain((choice.other == Other::File).then(|| line("FILE", OWN_SETS)))
    });
    section("Variants (the first of each is the default)", variants.collect());
    let stated = about.invariants.iter();
    section(
        "Invariants (mutua check --stated-invariants)",
        stated.map(|one| format!("- {}: {}\n  {}", one.name, one.meaning, one.formula)).collect(),
    );
    section(
        "Known failures",
        about.known_failures.iter().map(|failure| format!("- {failure}")).collect(),
    );
    page
}

/// The meaning of a file of sets, and where a script has them.
const OWN_SETS: &str = "\
the sets in this file; in a script its lines request_set and inform_set, which imply sets=own";

/// The costs of one entry, or of one election.
fn costs(about: &About) -> Vec<String> {
    let costs = &about.costs;
    let Costs { light, saturated, worst, client_delay, sync_delay, .. } = costs;
    if about.kind == Kind::Election {
        return vec![format!(
            "messages per election   best {light}, all start {saturated}, worst {worst}"
        )];
    }
    vec![
        format!("messages per entry   light {light}, saturated {saturated}, worst {worst}"),
        format!("client delay         {client_delay}"),
        format!("sync delay           {sync_delay}"),
    ]
}

fn order(about: &About) -> &'static str {
    if about.kind == Kind::Election { "elects" } else { "order of entry" }
}

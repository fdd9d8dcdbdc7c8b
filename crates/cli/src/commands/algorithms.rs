//! `mutua algorithms`: the table of all algorithms, and a page for each.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use mutua_algorithms::{About, Claim, Links, registry};

use crate::names;

/// List the algorithms, or show one's page.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The algorithm whose page to show; without it, the table of all.
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

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header([
        "name",
        "family",
        "light",
        "saturated",
        "worst",
        "client delay",
        "sync delay",
        "links",
        "order",
        "source",
    ]);
    for about in registry::ALGORITHMS {
        let name =
            if about.control { format!("{} (control)", about.name) } else { about.name.to_owned() };
        let costs = &about.costs;
        table.add_row([
            name.as_str(),
            about.family,
            costs.light,
            costs.saturated,
            costs.worst,
            costs.client_delay,
            costs.sync_delay,
            links(about),
            about.order,
            about.source,
        ]);
    }
    table
}

fn links(about: &About) -> &'static str {
    match about.links {
        Links::Any => "any",
        Links::Fifo => "FIFO",
    }
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
    let costs = &about.costs;
    section(
        "Costs",
        vec![
            format!(
                "messages per entry   light {}, saturated {}, worst {}",
                costs.light, costs.saturated, costs.worst
            ),
            format!("client delay         {}", costs.client_delay),
            format!("sync delay           {}", costs.sync_delay),
        ],
    );
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
        vec![format!("links: {}", links(about)), format!("order of entry: {}", about.order)],
    );
    let variants = about.options.iter().flat_map(|choice| {
        choice.values.iter().map(move |variant| {
            format!("--with {}={:<14} {}", choice.key, variant.name, variant.meaning)
        })
    });
    section("Variants (the first of each is the default)", variants.collect());
    section(
        "Known failures",
        about.known_failures.iter().map(|failure| format!("- {failure}")).collect(),
    );
    page
}

//! Mutation testing of the algorithms: `cargo run -- COPY [JOBS]`, see CONTRIBUTING.md.

mod mutants;
mod runner;
mod switches;

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let jobs = |text: &String| text.parse().ok().filter(|jobs| *jobs > 0);
    match arguments.as_slice() {
        [copy] => mutants::run(copy.as_ref(), 2)?,
        [copy, text] if jobs(text).is_some() => {
            mutants::run(copy.as_ref(), jobs(text).unwrap_or(1))?;
        }
        _ => {
            eprintln!("usage: mutation COPY [JOBS]: COPY is a copy of the workspace to change");
            return Ok(ExitCode::from(64));
        }
    }
    Ok(ExitCode::SUCCESS)
}

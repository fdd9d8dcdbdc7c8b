//! Chores of the repository, run as `cargo run -p xtask -- generate`.

use std::{path::Path, process::ExitCode};

fn main() -> anyhow::Result<ExitCode> {
    match std::env::args().nth(1).as_deref() {
        Some("generate") => {
            xtask::generate(&xtask::service(), &xtask::service().join("src/generated"))?;
            println!("{} is up to date", Path::new("crates/service/src/generated").display());
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprintln!("usage: cargo run -p xtask -- generate");
            Ok(ExitCode::from(64))
        }
    }
}

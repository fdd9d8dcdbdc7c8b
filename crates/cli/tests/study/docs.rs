//! The generated parts of the documents are what the program prints now.

#[path = "../../../xtask/src/docs.rs"]
#[allow(dead_code, unreachable_pub, reason = "a module of xtask, which writes the files too")]
mod generator;

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

fn mutua(arguments: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_mutua")).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).context("text")
}

#[test]
fn the_generated_parts_of_the_documents_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let stale = generator::stale(&root, &mutua).expect("the documents can be generated");
    let names: Vec<_> = stale.iter().map(|document| document.path.display()).collect();
    assert!(stale.is_empty(), "{names:?} are stale: run `{}`", generator::COMMAND);
}

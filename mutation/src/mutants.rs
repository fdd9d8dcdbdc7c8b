//! `cargo run -- COPY`: mutation testing of the algorithms with all mutants built at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{
    runner::{self, Binary},
    switches::{Mutant, switch},
};

const CRATE: &str = "crates/algorithms/src";
/// The packages whose tests must notice.
const PACKAGES: [&str; 4] = ["mutua-algorithms", "mutua-lab", "mutua-checker", "mutua-simulator"];

pub fn run(copy: &Path, jobs: usize) -> Result<()> {
    let state = copy.join("target/mutants");
    fs::create_dir_all(&state)?;
    let list = state.join("list.json");
    if !list.exists() {
        let json = cargo(copy, &["mutants", "--list", "--json", "-p", "mutua-algorithms"])?;
        fs::write(&list, json)?;
    }
    let mutants = Mutant::list(&fs::read_to_string(&list)?)?;
    let unviable = state.join("unviable.txt");
    if !unviable.exists() {
        let dropped = write_sources(copy, &mutants)?;
        let lines: String = dropped.iter().map(|(id, why)| format!("{id} {why}\n")).collect();
        fs::write(&unviable, lines)?;
    }
    let binaries = build(copy)?;
    let left: BTreeSet<u32> = fs::read_to_string(&unviable)?
        .lines()
        .filter_map(|line| line.split_once(' ')?.0.parse().ok())
        .collect();
    println!("{} mutants, {} not built", mutants.len(), left.len());
    if std::env::var_os("MUTANTS_BUILD_ONLY").is_some() {
        return Ok(());
    }
    let tests = runner::measure(&state, &binaries)?;
    runner::run(&state, &tests, &mutants, &left, jobs)
}

/// Writes the sources with switches, until they build; returns the mutants that have none.
fn write_sources(copy: &Path, mutants: &[Mutant]) -> Result<BTreeMap<u32, String>> {
    let mut files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        files.entry(&mutant.file).or_default().push(mutant);
    }
    let originals: BTreeMap<&str, String> = files
        .keys()
        .map(|&file| Ok((file, fs::read_to_string(copy.join(file))?)))
        .collect::<Result<_>>()?;
    fs::write(copy.join(CRATE).join("mutant.rs"), include_str!("../switch.rs.txt"))?;
    let lib = copy.join(CRATE).join("lib.rs");
    let text = fs::read_to_string(&lib)?;
    if !text.contains("mod mutant;") {
        fs::write(&lib, format!("#![allow(warnings)]\n{text}\nmod mutant;\n"))?;
    }
    let mut dropped = BTreeMap::new();
    for round in 1.. {
        for (&file, mutants) in &files {
            let kept: Vec<&Mutant> =
                mutants.iter().copied().filter(|m| !dropped.contains_key(&m.id)).collect();
            let (text, left) = switch(&originals[file], &kept).with_context(|| file.to_owned())?;
            dropped.extend(left.into_iter().map(|id| (id, "no switch".to_owned())));
            fs::write(copy.join(file), text)?;
        }
        let failing = failing(copy)?;
        println!("round {round}: {} mutants do not build", failing.len());
        if failing.is_empty() {
            break;
        }
        dropped.extend(failing);
    }
    Ok(dropped)
}

/// The mutants at which the compiler reports errors.
fn failing(copy: &Path) -> Result<BTreeMap<u32, String>> {
    let output = Command::new("cargo")
        .args(["check", "-p", "mutua-algorithms", "--message-format=json"])
        .current_dir(copy)
        .stderr(Stdio::inherit())
        .output()?;
    let mut failing = BTreeMap::new();
    let mut elsewhere = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        let message = &message["message"];
        if message["level"] != "error" {
            continue;
        }
        let text = message["message"].as_str().unwrap_or_default();
        let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
        let found = spans
            .iter()
            .filter(|span| span["is_primary"] == true)
            .filter_map(|span| mutant_at(copy, span))
            .next();
        match found {
            Some(id) => {
                failing.insert(id, text.to_owned());
            }
            None => elsewhere.push(message["rendered"].as_str().unwrap_or(text).to_owned()),
        }
    }
    if failing.is_empty() && !output.status.success() {
        bail!("the copy does not build:\n{}", elsewhere.join("\n"));
    }
    Ok(failing)
}

/// The mutant whose switch is the last before a place.
fn mutant_at(copy: &Path, span: &Value) -> Option<u32> {
    let text = fs::read_to_string(copy.join(span["file_name"].as_str()?)).ok()?;
    let place = |key: &str| usize::try_from(span[key].as_u64()?).ok();
    let mut before = &text[..place("byte_end")?];
    let rest = &text[place("byte_start")?..];
    if rest.starts_with("impl ") {
        // A return type that no longer fits: the last of the values of this function.
        let line = rest.lines().next()?;
        let last = line.rfind(" crate::mutant::Either::One(")?;
        before = &text[..place("byte_start")? + last];
    }
    let at = before.rfind("mutant::is(")? + "mutant::is(".len();
    text[at..].split(')').next()?.parse().ok()
}

fn build(copy: &Path) -> Result<Vec<Binary>> {
    let mut arguments = vec!["test", "--no-run", "--message-format=json"];
    if std::env::var_os("MUTANTS_WORKSPACE").is_some() {
        // The features of the whole workspace, so that its build directory is used.
        arguments.extend([
            "--workspace",
            "--lib",
            "--test",
            "algorithms",
            "--test",
            "lab",
            "--test",
            "checker",
            "--test",
            "simulator",
            "--test",
            "queueing",
            "--test",
            "second_simulator",
        ]);
    } else {
        for package in PACKAGES {
            arguments.extend(["-p", package]);
        }
        arguments.extend(["--lib", "--tests"]);
    }
    let output = cargo(copy, &arguments)?;
    let mut binaries = Vec::new();
    for line in output.lines() {
        let message: Value = serde_json::from_str(line)?;
        let (Some(program), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        let package = message["package_id"].as_str().unwrap_or_default();
        if message["profile"]["test"] != true
            || message["target"]["name"] == "tidy"
            || !PACKAGES.iter().any(|p| package.contains(&p.replace("mutua-", "crates/")))
        {
            continue;
        }
        let directory = Path::new(manifest).parent().context("a manifest is in a directory")?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        binaries.push(Binary {
            name: format!("{name}/{}", message["target"]["name"].as_str().unwrap_or_default()),
            program: program.into(),
            directory: directory.to_owned(),
        });
    }
    Ok(binaries)
}

fn cargo(copy: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("cargo")
        .args(arguments)
        .current_dir(copy)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    Ok(String::from_utf8(output.stdout)?)
}

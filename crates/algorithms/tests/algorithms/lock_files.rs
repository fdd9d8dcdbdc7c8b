//! The workspaces beside this one lock what its crates depend on, and are built with `--locked`:
//! a change that gives a crate a dependency has to bring their lock files up to date too.

use std::{collections::BTreeSet, fs, path::Path};

/// Where they are, and what does it.
const BESIDE: [&str; 2] = ["side-by-side", "fuzz"];

#[test]
fn lock_files_beside_the_workspace_know_what_its_crates_depend_on() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for beside in BESIDE {
        // Not every workspace keeps its lock file.
        let Ok(lock) = fs::read_to_string(root.join(beside).join("Cargo.lock")) else { continue };
        for package in lock.split("[[package]]") {
            let Some(short) = named(package).and_then(|name| name.strip_prefix("mutua-")) else {
                continue;
            };
            let manifest = root.join("crates").join(short).join("Cargo.toml");
            // A package of the workspace beside this one may be called so too.
            let Ok(manifest) = fs::read_to_string(&manifest) else { continue };
            let locked = locked(package);
            let missing: Vec<_> = dependencies(&manifest).difference(&locked).copied().collect();
            assert!(
                missing.is_empty(),
                "{beside}/Cargo.lock lacks {missing:?} of mutua-{short}: run `cargo update \
                 --workspace` in {beside}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 5, "only {seen} crates were found");
}

fn named(package: &str) -> Option<&str> {
    package.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// Names in `dependencies = [...]`, without versions.
fn locked(package: &str) -> BTreeSet<&str> {
    let words = package.lines().filter_map(|line| line.trim().strip_prefix('"'));
    words.filter_map(|word| word.split(['"', ' ']).next()).collect()
}

/// Names in `[dependencies]`, which is what others build.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines =
        lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    // What a feature needs is locked where the feature is on.
    let lines = lines.filter(|line| !line.contains("optional = true"));
    lines.filter_map(|line| line.split([' ', '.']).next()).filter(|name| !name.is_empty()).collect()
}

//! A copy of the workspace in which a test changes files before it builds them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Files of the workspace, changed in memory until they are built.
pub(crate) struct WorkspaceCopy {
    root: PathBuf,
    /// By path below the root.
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl WorkspaceCopy {
    /// The manifests, the lock file and these crates, to be written below `root`.
    pub(crate) fn new(root: PathBuf, crates: &[&str]) -> Self {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut copy = Self { root, files: BTreeMap::new() };
        for name in crates {
            copy.read(&workspace, &Path::new("crates").join(name));
        }
        if crates.contains(&"cli") {
            // It contains the files of the page.
            copy.read(&workspace, Path::new("web"));
        }
        copy.read(&workspace, Path::new("Cargo.toml"));
        copy.read(&workspace, Path::new("Cargo.lock"));
        // Small systems need no optimised build, and the crate that `cargo run` runs may be
        // missing.
        copy.change("Cargo.toml", |manifest| {
            let is_kept =
                |line: &&str| !line.contains("opt-level") && !line.starts_with("default-members");
            manifest.split_inclusive('\n').filter(is_kept).collect()
        });
        copy
    }

    /// Adds a file, or replaces one.
    pub(crate) fn add(&mut self, path: &str, text: &str) {
        self.files.insert(path.into(), text.into());
    }

    /// Replaces a text that a file has exactly once.
    pub(crate) fn replace(&mut self, path: &str, text: &str, by: &str) {
        self.change(path, |file| {
            assert_eq!(file.matches(text).count(), 1, "{path} does not have `{text}` once");
            file.replace(text, by)
        });
    }

    /// Changes the text of a file.
    pub(crate) fn change(&mut self, path: &str, change: impl FnOnce(&str) -> String) {
        let file = self.files.get_mut(Path::new(path)).unwrap_or_else(|| panic!("no file {path}"));
        *file = change(std::str::from_utf8(file).expect("text")).into();
    }

    /// Writes the files and builds a package; the path of its program.
    pub(crate) fn build(&self, package: &str, target: &Path) -> PathBuf {
        self.write();
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--offline", "--package", package])
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", target)
            .output()
            .expect("cargo runs");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        target.join("debug").join(package)
    }

    fn read(&mut self, workspace: &Path, path: &Path) {
        let from = workspace.join(path);
        if from.is_dir() {
            for entry in fs::read_dir(&from).expect("a directory") {
                let name = entry.expect("an entry").file_name();
                if name != "node_modules" {
                    self.read(workspace, &path.join(name));
                }
            }
        } else {
            self.files.insert(path.to_owned(), fs::read(&from).expect("a file"));
        }
    }

    /// Leaves a file alone that is as it should be, so that cargo builds again only what differs.
    fn write(&self) {
        remove_others(&self.root, Path::new("crates"), &self.files);
        for (path, text) in &self.files {
            let to = self.root.join(path);
            if fs::read(&to).ok().as_ref() != Some(text) {
                fs::create_dir_all(to.parent().expect("a directory")).expect("a directory");
                fs::write(&to, text).expect("a file");
            }
        }
    }
}

/// Removes what an earlier copy had and this one has not.
fn remove_others(root: &Path, directory: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    let Ok(entries) = fs::read_dir(root.join(directory)) else { return };
    for entry in entries {
        let path = directory.join(entry.expect("an entry").file_name());
        if !files.keys().any(|file| file.starts_with(&path)) {
            let old = root.join(&path);
            let removed = if old.is_dir() { fs::remove_dir_all(old) } else { fs::remove_file(old) };
            removed.expect("the old copy can be removed");
        } else if root.join(&path).is_dir() {
            remove_others(root, &path, files);
        }
    }
}

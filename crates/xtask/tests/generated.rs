//! The committed code is what its `.proto` files give.

use std::{collections::BTreeMap, path::Path};

#[test]
fn the_committed_code_is_what_regeneration_gives() {
    let fresh = tempfile::tempdir().expect("a directory for the test");
    xtask::generate(&xtask::client(), fresh.path()).expect("the files compile");
    let committed = files(&xtask::client().join("src/generated"));
    let fresh = files(fresh.path());
    let names: Vec<_> = committed.keys().collect();
    assert_eq!(names, fresh.keys().collect::<Vec<_>>(), "run `cargo run -p xtask -- generate`");
    for (name, text) in fresh {
        assert!(committed[&name] == text, "{name} is stale: run `cargo run -p xtask -- generate`");
    }
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).expect("the directory is there");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read(&path).expect("a file"))
    };
    entries.map(read).collect()
}

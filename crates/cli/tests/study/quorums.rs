//! `mutua quorums`.

use std::{fs, process::Command};

use serde_json::Value;

fn mutua(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_mutua")).args(arguments).output();
    let output = output.expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_plane_has_all_four_properties() {
    let (code, text, _) = mutua(&["quorums", "--nodes", "13", "--kind", "plane"]);
    assert_eq!(code, Some(0));
    assert!(
        text.starts_with("plane: 13 processes, quorums of K = 4; K = 1.109 sqrt(N)\n"),
        "{text}"
    );
    assert_eq!(text.matches(": yes\n").count(), 4, "{text}");
    assert!(text.contains("      4  0 4 5 7\n"), "{text}");
    let (_, json, _) = mutua(&["quorums", "--nodes", "13", "--kind", "plane", "--json"]);
    let found: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&found["size"], &found["safe"]), (&4.0.into(), &true.into()));
    assert_eq!(found["quorums"].as_array().map(Vec::len), Some(13));
}

#[test]
fn quorums_from_a_file_that_do_not_meet_exit_with_1() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("quorums.txt");
    let name = file.to_str().expect("text");
    fs::write(&file, "# mine\n1: 1\n0: 0 2\n2: 0 2\n").expect("a file");
    let (code, text, _) = mutua(&["quorums", "--file", name]);
    assert_eq!(code, Some(1));
    assert!(text.contains("any two quorums meet: NO: the quorums of processes 0 and 1"), "{text}");
    for (wrong, why) in [
        ("0 1\n", "such as 0: 0 1 3"),
        ("1: 1\n", "process 0 has no quorum"),
        ("0: 0\n0: 0\n", "has two quorums"),
        ("0: 0 7\n", "process 7"),
        ("", "no quorum"),
    ] {
        fs::write(&file, wrong).expect("a file");
        let (code, _, error) = mutua(&["quorums", "--file", name]);
        assert!(code == Some(64) && error.contains(why), "{wrong}: {error}");
    }
}

#[test]
fn a_size_without_a_plane_names_the_nearest_and_a_picture_is_drawn() {
    let (code, _, error) = mutua(&["quorums", "--nodes", "8", "--kind", "plane"]);
    assert!(code == Some(64) && error.contains("the nearest are 7 and 13"), "{error}");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("grid.svg");
    let name = file.to_str().expect("text");
    assert_eq!(mutua(&["quorums", "--nodes", "9", "--picture", name]).0, Some(0));
    assert!(fs::read_to_string(&file).expect("a picture").starts_with("<svg"));
    let page = directory.path().join("grid.html");
    let (code, _, error) = mutua(&["quorums", "--picture", page.to_str().expect("text")]);
    assert!(code == Some(64) && error.contains("ends in .svg, .png or .pdf"), "{error}");
}

#[test]
fn one_process_is_one_process() {
    let (code, text, _) = mutua(&["quorums", "--nodes", "1"]);
    assert_eq!(code, Some(0));
    assert!(text.starts_with("grid: 1 process, quorums of K = 1;"), "{text}");
}

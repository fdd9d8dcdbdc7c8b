//! The rules of locks, shown and changed by command.

use std::{fs, process::Output};

use crate::nodes::Cluster;
use crate::scene::Scene;

fn rules(scene: &Scene, cluster: &Cluster, at: usize, file: Option<&str>) -> (i32, String) {
    let endpoint = cluster.endpoint(at);
    let file: Vec<_> = file.into_iter().collect();
    let arguments = [&["cluster", "rules"], &file[..], &["--endpoint", &endpoint]].concat();
    let Output { status, stdout, stderr } = scene.command(&arguments).output().expect("run");
    let text = String::from_utf8([stdout, stderr].concat()).expect("text");
    (status.code().unwrap_or(-1), text)
}

#[test]
fn rules_are_shown_and_changed_for_all_members_while_a_lock_is_held() {
    let scene = Scene::new();
    let cluster = Cluster::start_many(&scene, 3);
    let endpoint = cluster.endpoint(0);
    let _holder = scene.holder_with("votes/1", &["--endpoint", &endpoint]);
    let token = cluster.token(&scene, 0, "votes/1").expect("held");
    let (code, text) = rules(&scene, &cluster, 1, None);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with("# no rules, as the cluster was founded: all locks use"), "{text}");
    let file = scene.path().join("rules.toml");
    let name = file.to_str().expect("text");
    fs::write(&file, "[[locks]]\nnames = \"votes/*\"\nalgorithm = \"maekawa\"\n").expect("written");
    let (code, text) = rules(&scene, &cluster, 1, Some(name));
    assert_eq!(code, 0, "{text}");
    assert_eq!(text, "change 1 of the rules is in force at all members\n");
    let (_, text) = rules(&scene, &cluster, 2, None);
    assert!(text.contains("change 1") && text.contains("algorithm = \"maekawa\""), "{text}");
    let show = ["show", "--json", "--endpoint", &endpoint, "votes/1"];
    let shown = String::from_utf8(scene.command(&show).output().expect("run").stdout);
    let shown = shown.expect("text");
    assert!(shown.contains("\"algorithm\":\"maekawa\""), "{shown}");
    assert_eq!(cluster.token(&scene, 2, "votes/1"), Some(token), "the holder is not disturbed");
    for (wrong, why) in [
        ("[[lock]]\nnames = \"x\"\n", "rules.toml:1: unknown key `lock`"),
        ("[[locks]]\nnames = \"x\"\nalgorithm = \"bakery-naive\"\n", "negative control"),
    ] {
        fs::write(&file, wrong).expect("written");
        let (code, text) = rules(&scene, &cluster, 0, Some(name));
        assert_eq!(code, 64, "{text}");
        assert!(text.contains(why), "{text}");
    }
    assert!(rules(&scene, &cluster, 0, None).1.contains("change 1"));
}

//! The pictures and scripts of the negative controls in `docs/pictures/controls` are those that the
//! checker makes now. After a change, `MUTUA_REWRITE_SCRIPTS=1 cargo test -p mutua-checker
//! pictures` writes them again, as `mutua check --all --counterexample docs/pictures/controls`
//! does; look at them.

use std::{collections::BTreeSet, env, fs, path::Path};

use mutua_checker::{Limits, NoClock, Task, check, table::small};
use mutua_lab::{counterexample::script, diagram};

#[test]
fn the_pictures_of_the_controls_are_up_to_date() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/controls");
    let mut made = BTreeSet::new();
    for row in small().into_iter().filter(|row| row.violated.is_some()) {
        // As the command does it, on one core or several.
        let limits = Limits { threads: 2, ..Limits::default() };
        let task = Task { limits, ..row.tasks[0].clone() };
        let report = check(&task, &mut NoClock).expect("the system starts");
        for verdict in &report.verdicts {
            let Some(trail) = &verdict.trail else { continue };
            let scripted = script(&task, &verdict.name, trail).expect("the system starts");
            let (header, events) = (&scripted.played.header, &scripted.played.events);
            let drawing = scripted.script.drawing(&scripted.played);
            let picture = diagram::draw(header, events, &drawing);
            for (ending, text) in [("script", scripted.script.text()), ("svg", picture)] {
                let name = format!("{}.{ending}", task.file_name(&verdict.name));
                if env::var_os("MUTUA_REWRITE_SCRIPTS").is_some() {
                    fs::write(kept.join(&name), &text).expect("the directory can be written");
                }
                let old = fs::read_to_string(kept.join(&name)).unwrap_or_default();
                assert!(old == text, "{name} is out of date; see the head of this test");
                assert!(made.insert(name.clone()), "two systems would write {name}");
            }
        }
    }
    let page =
        |name| fs::read_to_string(kept.join("../..").join(name)).expect("a page of controls");
    let page = page("checker.md") + &page("repairs.md");
    for name in made.iter().filter(|name| name.ends_with(".svg")) {
        assert!(page.contains(&format!("(pictures/controls/{name})")), "{name} is not shown");
    }
    let files = fs::read_dir(&kept).expect("the directory of the pictures");
    let files: BTreeSet<_> = files
        .map(|file| file.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, made, "a picture that no control makes, or one that is missing");
}

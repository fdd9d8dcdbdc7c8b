//! The pictures and scripts of the controls in `docs/pictures/controls` are what the checker makes
//! now. After a change, make them anew and look at them:
//! `mutua check --all --counterexample docs/pictures/controls`

use std::{collections::BTreeSet, fs, path::Path};

use mutua_checker::{Limits, Task, check, table::small};

#[test]
fn the_pictures_of_the_controls_are_up_to_date() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/controls");
    let mut made = BTreeSet::new();
    for row in small().into_iter().filter(|row| row.broken.is_some()) {
        // As the command does it, on one core or several.
        let limits = Limits { threads: 2, ..Limits::default() };
        let task = Task { limits, ..row.tasks[0].clone() };
        let report = check(&task, &mut |_| ()).expect("the system starts");
        for verdict in &report.verdicts {
            let Some(trail) = &verdict.trail else { continue };
            let scripted = task.script(verdict.name, trail).expect("the system starts");
            let (header, events) = (&scripted.played.header, &scripted.played.events);
            let picture = mutua_trace::diagram::svg(header, events);
            for (ending, text) in [("script", scripted.script.text()), ("svg", picture)] {
                let name = format!("{}.{ending}", task.file_name(verdict.name));
                let old = fs::read_to_string(kept.join(&name)).unwrap_or_default();
                assert!(old == text, "{name} is out of date; see the head of this test");
                assert!(made.insert(name.clone()), "two systems would write {name}");
            }
        }
    }
    let page =
        fs::read_to_string(kept.join("../../controls.md")).expect("the page of the controls");
    for name in made.iter().filter(|name| name.ends_with(".svg")) {
        assert!(page.contains(&format!("(pictures/controls/{name})")), "{name} is not shown");
    }
    let files = fs::read_dir(&kept).expect("the directory of the pictures");
    let files: BTreeSet<_> = files
        .map(|file| file.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, made, "a picture that no control makes, or one that is missing");
}

//! Pictures can be read: no words lie on other words; and each format is what its name says.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

fn mutua(arguments: &str) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(arguments.split(' ')).output().expect("the binary runs").stdout
}

/// The picture that a command draws.
fn drawn(directory: &Path, command: &str) -> String {
    let file = directory.join("picture.svg");
    mutua(&format!("{command} --diagram {}", file.display()));
    let picture = fs::read_to_string(&file).expect("a picture");
    // The next one must not be taken for this one.
    fs::remove_file(file).expect("removed");
    picture
}

/// Words in a picture, and the middles of their letters.
struct Words {
    text: String,
    letters: Vec<(f64, f64)>,
}

/// About as wide as a letter is, and as high.
const WIDE: f64 = 6.3;
const HIGH: f64 = 9.0;

/// Letters whose middles are nearer than this lie on each other.
const NEAR: f64 = 7.0;

/// All words but those of head and foot.
fn words(svg: &str) -> Vec<Words> {
    svg.lines().filter_map(read).collect()
}

fn read(line: &str) -> Option<Words> {
    let (attributes, text) = line.strip_prefix("<text class=\"")?.split_once('>')?;
    let text = text.strip_suffix("</text>")?.to_owned();
    let number = |name: &str| {
        let (_, rest) = attributes.split_once(&format!(" {name}=\""))?;
        rest.split('"').next()?.parse::<f64>().ok()
    };
    let half = WIDE * text.chars().count() as f64 / 2.0;
    let (x, y, angle, begin) = match attributes.split(['"', ' ']).next()? {
        "mark" => (number("x")?, number("y")?, 0.0, 0.0),
        "fence" | "violated" => (number("x")?, number("y")?, 0.0, -half),
        "label" => {
            let (_, rest) = attributes.split_once("translate(")?;
            let numbers = rest.replace([')', '('], " ").replace("rotate", " ").replace('"', " ");
            let mut numbers = numbers.split_whitespace().map(|one| one.parse::<f64>().ok());
            let (x, y, angle) = (numbers.next()??, numbers.next()??, numbers.next()??);
            (x, y, angle.to_radians(), -half)
        }
        _ => return None,
    };
    let letters = (0..text.chars().count()).map(|index| {
        let (along, up) = (begin + (index as f64 + 0.5) * WIDE, HIGH / 2.0);
        (x + along * angle.cos() + up * angle.sin(), y + along * angle.sin() - up * angle.cos())
    });
    Some(Words { letters: letters.collect(), text })
}

/// The pairs of words that lie on each other.
fn covered(svg: &str) -> Vec<String> {
    let words = words(svg);
    let mut covered = Vec::new();
    for (index, one) in words.iter().enumerate() {
        for other in &words[..index] {
            let near = |a: &(f64, f64), b: &(f64, f64)| (a.0 - b.0).hypot(a.1 - b.1) < NEAR;
            if one.letters.iter().any(|a| other.letters.iter().any(|b| near(a, b))) {
                covered.push(format!("`{}` and `{}`", other.text, one.text));
            }
        }
    }
    covered
}

#[test]
fn in_a_crowd_no_words_lie_on_others() {
    let index = tempfile::tempdir().expect("a directory");
    for run in [
        "maekawa --nodes 4 --load saturated --entries 8",
        "maekawa --nodes 9 --load saturated --entries 6 --latency exp:1ms",
        "lamport --nodes 6 --load saturated --entries 8",
        "ricart-agrawala --nodes 5 --load saturated --entries 9 --partition 3ms..9ms:0,1",
        "central --nodes 4 --load think:2ms --entries 9 --partition 3ms..9ms:0,1",
        "suzuki-kasami --nodes 12 --load saturated --entries 20",
        "bakery --nodes 4 --load saturated --entries 4",
        "raymond --nodes 20 --load saturated --entries 40",
    ] {
        let svg = drawn(index.path(), &format!("simulate {run} --warm-up 0"));
        assert_eq!(covered(&svg), Vec::<String>::new(), "{run}");
        assert!(words(&svg).len() > 5, "{run}");
    }
    for algorithm in ["central", "lamport", "maekawa", "naimi-trehel", "suzuki-kasami"] {
        let run = "--nodes 5 --load saturated --entries 60 --warm-up 0 --crash 4@50ms";
        let run = format!("simulate {algorithm} {run} --repair generic --election bully");
        let svg = drawn(index.path(), &run);
        assert_eq!(covered(&svg), Vec::<String>::new(), "{run}");
        assert!(svg.contains("class=\"gone\""), "the crash is shown: {run}");
    }
    let election = drawn(index.path(), "simulate bully --nodes 6 --starters all --crashed 5");
    assert_eq!(covered(&election), Vec::<String>::new());
}

#[test]
fn variables_and_clocks_do_not_lie_on_each_other() {
    let index = tempfile::tempdir().expect("a directory");
    for run in [
        "simulate suzuki-kasami --nodes 5 --load saturated --entries 6 --warm-up 0 --linear \
         --variables Q",
        "simulate raymond --nodes 5 --load saturated --entries 6 --warm-up 0 --linear \
         --variables HOLDER",
        "replay raymond/line --captions --variables HOLDER,queue --width 900",
    ] {
        let svg = drawn(index.path(), run);
        assert_eq!(covered(&svg), Vec::<String>::new(), "{run}");
        let capitals = svg.lines().filter(|line| line.contains("class=\"mark\""));
        assert!(capitals.filter(|line| line.contains('=')).count() > 3, "{svg}");
    }
}

#[test]
fn a_label_in_capitals_has_room_before_the_next_one() {
    let index = tempfile::tempdir().expect("a directory");
    let run = "replay raymond/line --captions --variables HOLDER,queue --width 900";
    let svg = drawn(index.path(), run);
    let x = |label: &str| -> f64 {
        let end = format!(">{label}</text>");
        let line = svg.lines().find(|line| line.ends_with(&end));
        let (_, rest) = line.and_then(|line| line.split_once(" x=\"")).expect("a label");
        rest.split('"').next().and_then(|x| x.parse().ok()).expect("a number")
    };
    // In the fonts of most systems HOLDER=P2 is 76 wide.
    assert!(x("3 queue=[P1]") - x("HOLDER=P2") > 76.0 + 15.0, "{svg}");
}

/// What is lost as soon as it is sent goes towards its receiver, aside from what else is.
#[test]
fn messages_into_a_partition_are_distinguished() {
    let index = tempfile::tempdir().expect("a directory");
    let run = "ricart-agrawala --nodes 5 --load saturated --partition 3ms..9ms:0,1 --warm-up 0";
    let svg = drawn(index.path(), &format!("simulate {run} --entries 9"));
    let lost: BTreeSet<_> =
        svg.lines().filter(|line| line.starts_with("<path class=\"message lost\"")).collect();
    // Two processes send a request and a reply to each of three.
    assert_eq!(lost.len(), 12, "{svg}");
    for line in lost {
        let numbers = line.split("d=\"M").nth(1).expect("a way").replace('Q', " ");
        let numbers = numbers.split(['"', ' ']).map_while(|one| one.parse::<f64>().ok());
        let numbers: Vec<_> = numbers.collect();
        assert!(numbers[4] > numbers[0] + 20.0, "{line}");
    }
}

#[test]
fn in_worked_examples_no_words_lie_on_others() {
    let index = tempfile::tempdir().expect("a directory");
    let examples: Vec<Value> =
        serde_json::from_slice(&mutua("replay --json")).expect("a list of examples");
    for example in &examples {
        let name = example["name"].as_str().expect("a name");
        let svg = drawn(index.path(), &format!("replay {name}"));
        assert_eq!(covered(&svg), Vec::<String>::new(), "{name}");
        assert!(!svg.contains("without words"), "{name}: every message says what it is");
    }
}

#[test]
fn png_and_pdf_are_what_their_names_say() {
    let directory = tempfile::tempdir().expect("a directory");
    let draw = |name: &str, options: &str| {
        let file = directory.path().join(name);
        let output = Command::new(env!("CARGO_BIN_EXE_mutua"))
            .args(["replay", "chain-of-three", "--diagram"])
            .arg(&file)
            .args(options.split_whitespace())
            .output()
            .expect("the binary runs");
        let refusal = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), refusal, fs::read(file).unwrap_or_default())
    };
    let size = |png: &[u8]| {
        assert!(png.starts_with(b"\x89PNG\r\n"));
        let number =
            |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
        (number(16), number(20))
    };
    let (_, _, small) = draw("x.png", "");
    let (_, _, large) = draw("x.png", "--scale 2");
    let ((width, height), (wide, high)) = (size(&small), size(&large));
    assert!(width > 500 && wide.abs_diff(2 * width) <= 2 && high.abs_diff(2 * height) <= 2);
    let (_, _, pdf) = draw("x.pdf", "");
    assert!(pdf.starts_with(b"%PDF-1.4") && pdf.ends_with(b"%%EOF\n"));
    let (code, refusal, _) = draw("x.gif", "");
    assert_eq!(code, Some(64));
    assert!(refusal.contains("ends in .svg, .png, .pdf or .html"), "{refusal}");
    for wrong in [
        "--scale 0",
        "--width 3",
        "--steps 9..2",
        "--steps 900..901",
        "--steps 1ms..2ms",
        "--variables luck",
    ] {
        assert_eq!(draw("y.svg", wrong).0, Some(64), "{wrong}");
    }
}

/// A browser opens the page, goes to a step and shows it. Without one the test only says so.
#[test]
fn a_browser_goes_through_the_steps_of_a_page() {
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let runs = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
    let Some(browser) = browsers.iter().find(runs) else {
        eprintln!("no browser found: the page with the slider was not opened");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("page.html");
    mutua(&format!("replay ricart-agrawala/chain-of-three --diagram {}", file.display()));
    let open = |step: u32| {
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .arg(format!("--user-data-dir={}", directory.path().join("browser").display()))
            .arg(format!("file://{}#{step}", file.display()))
            .output()
            .expect("the browser runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (early, late) = (open(1), open(8));
    assert!(early.contains("step 1 of 18") && early.contains("P2 requests"), "{early}");
    assert!(late.contains("P2 gets reply from P3") && late.contains("enters"), "{late}");
    // What is still to come is covered.
    let curtain = |page: &str| -> f64 {
        let rect = page.split("fill-opacity=\"0.93\"").nth(1).expect("a curtain");
        let width = rect.split("width=\"").nth(1).expect("a width");
        width.split('"').next().and_then(|width| width.parse().ok()).expect("a number")
    };
    assert!(curtain(&early) > curtain(&late) && curtain(&late) > 0.0);
}

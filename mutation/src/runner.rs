//! Runs the tests that reach a mutant, the cheapest first, until one fails.
//!
//! A test that does not reach the place of a mutant runs as without it, so it need not be run.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::Write as _,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use anyhow::{Context, Result, bail};

use crate::switches::Mutant;

/// A test program.
#[derive(Debug)]
pub struct Binary {
    pub name: String,
    pub program: PathBuf,
    pub directory: PathBuf,
}

/// A test, what it costs, and the mutants whose place it reaches.
#[derive(Debug)]
pub struct Test<'a> {
    binary: &'a Binary,
    name: String,
    seconds: f64,
    reaches: BTreeSet<u32>,
}

/// Tests that `MUTUA_ALGORITHM` limits to one algorithm.
const WALKS: &str = "random_schedules::every_claim_holds";
/// Tests of one program that run together cost at most so many seconds.
const TOGETHER: f64 = 0.3;
/// A mutant may cost so many times what the test costs without, and so many seconds more.
const FACTOR: f64 = 4.0;
const MORE: f64 = 3.0;
/// A mutant may wait for something that never happens, which costs no processor time. In seconds,
/// and many, since the machine may have other work.
const WAIT: &str = "1800";
/// What a test reaches is noted for so many seconds of its run.
const RECORD: f64 = 60.0;
/// The address space of a test, in bytes: a mutant may collect without end.
const MEMORY: &str = "6000000000";

/// Runs each test once and notes its cost and what it reaches; a test that is kept is not run.
pub fn measure<'a>(state: &Path, binaries: &'a [Binary]) -> Result<Vec<Test<'a>>> {
    let mut tests = Vec::new();
    let kept = state.join("reach");
    fs::create_dir_all(&kept)?;
    for binary in binaries {
        let list = Command::new(&binary.program)
            .args(["--list", "--format", "terse"])
            .current_dir(&binary.directory)
            .output()?;
        for line in String::from_utf8(list.stdout)?.lines() {
            let Some(name) = line.strip_suffix(": test") else { continue };
            // It builds a copy of the sources.
            if name == "mutants::every_mutant_is_caught" {
                continue;
            }
            let file = kept.join(format!("{}::{name}", binary.name.replace('/', "-")));
            if !file.exists() {
                let part = kept.join("part");
                let _ = fs::remove_file(&part);
                fs::write(&part, "")?;
                let before = children()?;
                let status = command(binary, &[name], Some(RECORD))
                    .env("MUTANTS_REACHED", &part)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()?;
                let seconds = children()? - before;
                if !status.success() && seconds < RECORD - 3.0 {
                    bail!("{} {name} fails without a mutant", binary.name);
                }
                let reached = fs::read_to_string(&part)?;
                fs::write(&file, format!("{seconds}\n{reached}"))?;
                println!("{seconds:7.2} {} {name}", binary.name);
            }
            let text = fs::read_to_string(&file)?;
            let (seconds, reached) = text.split_once('\n').context("a cost and numbers")?;
            tests.push(Test {
                binary,
                name: name.to_owned(),
                seconds: seconds.parse()?,
                reaches: reached.lines().map(str::parse).collect::<Result<_, _>>()?,
            });
        }
    }
    tests.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(tests)
}

/// The processor seconds of the children that have ended.
fn children() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<f64>();
    Ok((ticks(13)? + ticks(14)?) / 100.0)
}

fn command(binary: &Binary, names: &[&str], seconds: Option<f64>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", WAIT, "prlimit"]);
    command.arg(format!("--as={MEMORY}")).arg("--core=0");
    if let Some(seconds) = seconds {
        command.arg(format!("--cpu={seconds:.0}"));
    }
    command.arg(&binary.program).args(["--exact", "--test-threads=1"]).args(names);
    command.current_dir(&binary.directory).env("CARGO_MANIFEST_DIR", &binary.directory);
    command.stdin(Stdio::null());
    command
}

/// Runs every mutant that has no line in `results.txt` yet.
pub fn run(
    state: &Path,
    tests: &[Test<'_>],
    mutants: &[Mutant],
    left: &BTreeSet<u32>,
    jobs: usize,
) -> Result<()> {
    let path = state.join("results.txt");
    let done: BTreeSet<u32> = fs::read_to_string(&path)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split('\t').next()?.parse().ok())
        .collect();
    let seconds =
        |variable, default| std::env::var(variable).map_or(Ok(default), |text| text.parse::<f64>());
    let bounds = seconds("MUTANTS_ABOVE", 0.0)?..=seconds("MUTANTS_BOUND", f64::MAX)?;
    let only = std::env::var("MUTANTS_ONLY").unwrap_or_default();
    let to_do: Vec<&Mutant> = mutants
        .iter()
        .filter(|mutant| !done.contains(&mutant.id) && !left.contains(&mutant.id))
        .filter(|mutant| mutant.name.contains(&only))
        .collect();
    let results = Mutex::new(OpenOptions::new().create(true).append(true).open(&path)?);
    let next = Mutex::new(to_do.iter());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    loop {
                        let Some(mutant) = next.lock().expect("no panic").next() else {
                            return Ok(());
                        };
                        let outcome = try_one(tests, mutant, &bounds)?;
                        let line = format!("{}\t{outcome}\t{}\n", mutant.id, mutant.name);
                        results.lock().expect("no panic").write_all(line.as_bytes())?;
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })
}

/// The algorithm whose file the mutant changes, and the random schedules that reach it: those of
/// one algorithm are much cheaper than those of all.
fn walks_of<'a>(mutant: &Mutant, reaching: &[&'a Test<'a>]) -> Option<(String, Vec<&'a Test<'a>>)> {
    let file = mutant.file.strip_prefix("crates/algorithms/src/mutexes/")?;
    let algorithm = file.split(['/', '.']).next()?.replace('_', "-");
    let walks: Vec<_> =
        reaching.iter().copied().filter(|test| test.name.starts_with(WALKS)).collect();
    // Parts that algorithms share have no schedules of their own.
    (!walks.is_empty() && !matches!(&*algorithm, "state" | "serial")).then_some((algorithm, walks))
}

fn try_one(tests: &[Test<'_>], mutant: &Mutant, bounds: &RangeInclusive<f64>) -> Result<String> {
    let mut reaching: Vec<&Test<'_>> =
        tests.iter().filter(|test| test.reaches.contains(&mutant.id)).collect();
    if reaching.is_empty() {
        return Ok("unreached".to_owned());
    }
    let mut walks = walks_of(mutant, &reaching);
    reaching.retain(|test| test.seconds >= *bounds.start());
    while !reaching.is_empty() {
        let first = reaching[0];
        if first.seconds > TOGETHER
            && let Some((algorithm, walks)) = walks.take()
        {
            let names: Vec<&str> = walks.iter().map(|test| test.name.as_str()).collect();
            let seconds: f64 = walks.iter().map(|test| test.seconds).sum();
            let status = command(walks[0].binary, &names, Some(seconds * FACTOR))
                .env("MUTANT", mutant.id.to_string())
                .env("MUTUA_ALGORITHM", &algorithm)
                .output()?
                .status;
            if !status.success() {
                return Ok(format!("killed {} {} of {algorithm}", walks[0].binary.name, WALKS));
            }
        }
        if first.seconds > *bounds.end() {
            return Ok(format!("survived {} s", bounds.end()));
        }
        let mut cost = 0.0;
        let (group, rest): (Vec<_>, Vec<_>) = reaching.into_iter().partition(|test| {
            let with = test.binary.name == first.binary.name
                && (cost == 0.0 || cost + test.seconds <= TOGETHER);
            cost += if with { test.seconds.max(0.005) } else { 0.0 };
            with
        });
        reaching = rest;
        let names: Vec<&str> = group.iter().map(|test| test.name.as_str()).collect();
        let output = command(first.binary, &names, Some((cost * FACTOR + MORE).ceil()))
            .env("MUTANT", mutant.id.to_string())
            .env("RUST_BACKTRACE", "0")
            .output()?;
        if output.status.success() {
            continue;
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        let failed = printed.lines().find_map(|line| {
            line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned)
        });
        return Ok(match failed {
            Some(test) => format!("killed {} {test}", first.binary.name),
            None if out_of_time(&output.status) => {
                format!("timeout {} {}", first.binary.name, names[0])
            }
            None => format!("crashed {} {}", first.binary.name, names[0]),
        });
    }
    Ok("survived".to_owned())
}

/// Killed by SIGXCPU, by SIGKILL at the hard limit, or after the wait; `timeout` says the same of
/// the test by its exit code.
fn out_of_time(status: &std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    matches!(status.signal(), Some(24 | 9)) || matches!(status.code(), Some(137 | 152))
}

//! `cargo xtask campaign`: many faults of whole nodes, in slices whose counts are kept.
//!
//! A slice is a run of a test over some seeds of one algorithm, in a release build: of
//! `decided_views` in simulated time (with `--churn` of worlds whose members and rules also
//! change), or of `real_faults` with real processes (`--real`). Its line is appended to a file in
//! `docs/campaigns`, with the date and the commit; the next call goes on where the file ends. The
//! commit is that of the program, of which the campaign has a copy, so that the tree may change
//! meanwhile. A seed that fails is printed with its events, and is kept as a line with one
//! violation.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{Mutex, PoisonError},
    thread,
};

use anyhow::{Context, Result, bail};

/// A kind of campaign.
#[derive(Debug)]
struct Kind {
    /// Where its lines are kept.
    kept: &'static str,
    package: &'static str,
    test: &'static str,
    /// The part of the test's name that chooses it.
    filter: &'static str,
    /// The first seed, and the seeds of a slice.
    first: u64,
    seeds: u64,
    /// Variables of its environment.
    variables: &'static [(&'static str, &'static str)],
}

/// Smaller seeds are short worlds, for the gate. A slice is some 65,000 faults, and takes some
/// 20 s of a processor.
const SIMULATED: Kind = Kind {
    kept: "docs/campaigns/simulated.txt",
    package: "mutua-protocol",
    test: "decided_views",
    filter: "never_two",
    first: 1000,
    seeds: 1000,
    variables: &[],
};

/// The same worlds, in which members also join, leave, are replaced and change their roles.
const CHURN: Kind =
    Kind { kept: "docs/campaigns/churn.txt", filter: "come_and_go", seeds: 300, ..SIMULATED };

/// A slice is about a minute, most of which it waits: several run at the same time (`--jobs`).
const REAL: Kind = Kind {
    kept: "docs/campaigns/real.txt",
    package: "mutua",
    test: "real_faults",
    filter: "survives_faults",
    first: 1,
    seeds: 1,
    variables: &[("MUTUA_FAULTS", "40"), ("MUTUA_HOLD", "0.2")],
};

/// The algorithms that real processes run.
const REAL_ALGORITHMS: [&str; 4] = ["naimi-trehel", "suzuki-kasami", "ricart-agrawala", "maekawa"];

/// What a campaign runs.
#[derive(Debug, Eq, PartialEq)]
pub struct Options {
    /// One algorithm, or all.
    algorithm: Option<String>,
    /// Until each algorithm has had so many faults in all.
    faults: u64,
    /// From this seed on; without it, where the kept lines end.
    from: Option<u64>,
    /// Only add up what is kept.
    sum: bool,
    /// Real processes.
    real: bool,
    /// Members come and go.
    churn: bool,
    /// So many slices at the same time.
    jobs: u64,
}

impl Options {
    /// Reads the arguments behind `campaign`.
    ///
    /// # Errors
    ///
    /// If there is an unknown one, or a value is missing or not a number.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let (algorithm, faults, from) = (None, 1_000_000, None);
        let (sum, real, churn) = (false, false, false);
        let mut options = Self { algorithm, faults, from, sum, real, churn, jobs: 1 };
        while let Some(option) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{option} needs a value"));
            let number =
                |text: String| text.parse().with_context(|| format!("`{text}` is not a number"));
            match option.as_str() {
                "--algorithm" => options.algorithm = Some(value()?),
                "--faults" => options.faults = number(value()?)?,
                "--from" => options.from = Some(number(value()?)?),
                "--jobs" => options.jobs = number(value()?)?,
                "--sum" => options.sum = true,
                "--real" => options.real = true,
                "--churn" => options.churn = true,
                _ => bail!("unknown option `{option}`"),
            }
        }
        if options.real && options.churn {
            bail!("--churn is of simulated worlds: use it without --real");
        }
        if options.jobs == 0 {
            bail!("--jobs 0 would run nothing: use at least 1");
        }
        Ok(options)
    }

    fn kind(&self) -> &'static Kind {
        match (self.real, self.churn) {
            (true, _) => &REAL,
            (false, true) => &CHURN,
            (false, false) => &SIMULATED,
        }
    }
}

/// The counts of some slices of one algorithm.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Sum {
    slices: u64,
    seeds: u64,
    /// The seed behind the last one.
    next: u64,
    counts: BTreeMap<String, u64>,
    kinds: BTreeMap<String, u64>,
}

impl Sum {
    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    fn add(&mut self, slice: &Slice) {
        self.slices += 1;
        self.seeds += slice.seeds.1 - slice.seeds.0;
        self.next = self.next.max(slice.seeds.1);
        for (sums, counts) in [(&mut self.counts, &slice.counts), (&mut self.kinds, &slice.kinds)] {
            for (name, count) in counts {
                *sums.entry(name.clone()).or_default() += count;
            }
        }
    }
}

/// One line of the file behind its date and commit, as the test prints it.
struct Slice {
    algorithm: String,
    seeds: (u64, u64),
    counts: BTreeMap<String, u64>,
    kinds: BTreeMap<String, u64>,
}

impl Slice {
    /// `ALGORITHM seeds A..B NAME COUNT ...; KIND COUNT, KIND COUNT, ...`
    fn parse(line: &str) -> Option<Self> {
        let (head, kinds) = line.split_once("; ")?;
        let mut words = head.split_whitespace();
        let algorithm = words.next()?.to_owned();
        let seeds = (words.next()? == "seeds").then(|| words.next()).flatten()?;
        let (from, to) = seeds.split_once("..")?;
        let mut counts = BTreeMap::new();
        while let Some(name) = words.next() {
            counts.insert(name.to_owned(), words.next()?.parse().ok()?);
        }
        let kind = |text: &str| {
            let (kind, count) = text.trim().rsplit_once(' ')?;
            Some((kind.to_owned(), count.parse().ok()?))
        };
        let kinds = kinds.split(", ").map(kind).collect::<Option<_>>()?;
        Some(Self { algorithm, seeds: (from.parse().ok()?, to.parse().ok()?), counts, kinds })
    }
}

/// Adds up the lines of the file, by algorithm.
///
/// # Errors
///
/// If a line is not one of a slice.
pub fn sums(text: &str) -> Result<BTreeMap<String, Sum>> {
    let mut sums = BTreeMap::<_, Sum>::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        // The date and the commit are for the reader.
        let slice = line.splitn(3, ' ').nth(2).and_then(Slice::parse);
        let slice = slice.with_context(|| format!("not a slice: `{line}`"))?;
        sums.entry(slice.algorithm.clone()).or_default().add(&slice);
    }
    Ok(sums)
}

/// Runs slices, or adds up those that are kept.
///
/// # Errors
///
/// If the test cannot be built or run, or the file not be read or written.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let kind = options.kind();
    let kept = root.join(kind.kept);
    let known = sums(&fs::read_to_string(&kept).unwrap_or_default())?;
    if options.sum {
        print!("{}", table(&known));
        return Ok(ExitCode::SUCCESS);
    }
    let campaign = Campaign { kind, test: build(root, kind)?, kept, commit: commit()? };
    let test = &campaign.test;
    let all = match options.real {
        true => REAL_ALGORITHMS.map(str::to_owned).to_vec(),
        false => algorithms(test)?,
    };
    if let Some(name) = options.algorithm.as_ref().filter(|name| !all.contains(name)) {
        bail!("unknown algorithm `{name}`: use one of {}", all.join(", "));
    }
    let wanted = |name: &&String| options.algorithm.as_ref().is_none_or(|one| one == *name);
    let goal = |name: &String| {
        let mut sum = known.get(name).cloned().unwrap_or_default();
        sum.next = options.from.unwrap_or(sum.next).max(kind.first);
        Goal { algorithm: name.clone(), wanted: options.faults, sum, running: 0 }
    };
    let goals = Mutex::new(all.iter().filter(wanted).map(goal).collect::<Vec<_>>());
    let results: Vec<Result<bool>> = thread::scope(|scope| {
        let jobs: Vec<_> =
            (0..options.jobs).map(|_| scope.spawn(|| campaign.run_slices(&goals))).collect();
        jobs.into_iter().map(|job| job.join().expect("a job does not panic")).collect()
    });
    let passed = results.into_iter().collect::<Result<Vec<_>>>()?.into_iter().all(|passed| passed);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How far an algorithm has got.
struct Goal {
    algorithm: String,
    /// The faults that it is to have in all; none once a slice has failed.
    wanted: u64,
    sum: Sum,
    /// Slices that run now.
    running: u64,
}

impl Goal {
    /// The faults of all slices, with those that run now counted as long as the others.
    fn expected(&self) -> u64 {
        let faults = self.sum.count("faults");
        faults + self.running * (faults / self.sum.slices.max(1)).max(1)
    }
}

/// A campaign that runs.
struct Campaign {
    kind: &'static Kind,
    /// The program of the test.
    test: PathBuf,
    kept: PathBuf,
    /// The commit that the program is of: the tree may change while it runs.
    commit: String,
}

impl Campaign {
    /// Runs slice after slice of the algorithm that has the fewest faults, so that all of them get
    /// equally far. True if no slice of this job failed.
    fn run_slices(&self, goals: &Mutex<Vec<Goal>>) -> Result<bool> {
        let goals = || goals.lock().unwrap_or_else(PoisonError::into_inner);
        let next = || {
            let mut goals = goals();
            let open = goals.iter_mut().enumerate();
            let (index, goal) = open
                .filter(|(_, goal)| goal.expected() < goal.wanted)
                .min_by_key(|(_, goal)| goal.expected())?;
            let from = goal.sum.next;
            goal.running += 1;
            goal.sum.next += self.kind.seeds;
            Some((index, goal.algorithm.clone(), from))
        };
        while let Some((index, algorithm, from)) = next() {
            let slice = self.run_slice(&algorithm, from);
            let mut goals = goals();
            let goal = &mut goals[index];
            goal.running -= 1;
            let Some(slice) = slice? else {
                goals.iter_mut().for_each(|goal| goal.wanted = 0);
                return Ok(false);
            };
            goal.sum.add(&slice);
            println!("{algorithm}: {} faults, {} seeds", goal.sum.count("faults"), goal.sum.seeds);
        }
        Ok(true)
    }

    /// Runs a slice and keeps its line; none if there was a violation.
    fn run_slice(&self, algorithm: &str, from: u64) -> Result<Option<Slice>> {
        let kind = self.kind;
        let mut command = Command::new(&self.test);
        command.args([kind.filter, "--nocapture"]).envs(kind.variables.iter().copied());
        command.env("MUTUA_ALGORITHM", algorithm).env_remove("MUTUA_SEED");
        // A test that runs several seeds prints the events of one that is chosen alone.
        match kind.seeds {
            1 => command.env("MUTUA_SEED", from.to_string()),
            seeds => {
                command.env("MUTUA_FROM", from.to_string()).env("MUTUA_SEEDS", seeds.to_string())
            }
        };
        let output = command.output().context("cannot run the test")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let head = format!("{algorithm} seeds ");
        let slice = text.lines().find(|line| line.starts_with(&head));
        if let Some(line) = slice.filter(|_| output.status.success()) {
            self.append(line)?;
            let slice = Slice::parse(line).context("the test prints another line than expected");
            return slice.map(Some);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        println!("{text}\n{errors}");
        let failed = errors.split("MUTUA_SEED=").nth(1).and_then(|rest| rest.split(' ').next());
        let failed: u64 = failed.and_then(|seed| seed.parse().ok()).unwrap_or(from);
        let seeds = format!("{algorithm} seeds {failed}..{}", failed + 1);
        self.append(&format!("{seeds} faults 0 violations 1; violation 1"))?;
        Ok(None)
    }

    fn append(&self, line: &str) -> Result<()> {
        let (kept, commit) = (&self.kept, &self.commit);
        let cannot = || format!("cannot write {}", kept.display());
        let file = OpenOptions::new().create(true).append(true).open(kept);
        let date = first_line(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%MZ"]))?;
        writeln!(file.with_context(cannot)?, "{date} {commit} {line}").with_context(cannot)
    }
}

/// The commit of the tree, marked if files differ from it. The kept lines do not count: another
/// campaign may be adding to them.
fn commit() -> Result<String> {
    let git = |arguments: &[&str]| {
        first_line(Command::new("git").args(arguments).current_dir(crate::root()))
    };
    let commit = git(&["describe", "--always", "--exclude=*"])?;
    let changed = git(&["status", "--porcelain", "--", ".", ":(exclude)docs/campaigns"])?;
    Ok(if changed.is_empty() { commit } else { format!("{commit}-dirty") })
}

fn first_line(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Builds the test; the path of its program.
fn build(root: &Path, kind: &Kind) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var("CARGO").as_deref().unwrap_or("cargo"));
    cargo.args(["test", "--release", "-p", kind.package, "--test", kind.test]);
    cargo.args(["--no-run", "--message-format=json"]).current_dir(root);
    let output = cargo.output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the test does not compile: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let path = |message: serde_json::Value| {
        let is_test = message["target"]["name"] == kind.test;
        message["executable"].as_str().filter(|_| is_test).map(PathBuf::from)
    };
    let program = messages.filter_map(path).next_back();
    let program = program.context("cargo names no program of the test")?;
    // Later builds must not replace what runs.
    let own = program.with_file_name(format!("campaign-{}-{}", kind.test, std::process::id()));
    fs::copy(&program, &own).with_context(|| format!("cannot copy {}", program.display()))?;
    Ok(own)
}

/// The algorithms, as the test names them.
fn algorithms(test: &Path) -> Result<Vec<String>> {
    let mut command = Command::new(test);
    command.args([SIMULATED.filter, "--nocapture"]).env("MUTUA_SEEDS", "1");
    for variable in ["MUTUA_ALGORITHM", "MUTUA_FROM", "MUTUA_SEED"] {
        command.env_remove(variable);
    }
    let output = command.output().context("cannot run the test")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(Slice::parse).map(|slice| slice.algorithm).collect())
}

/// The sums as a table, and all faults by kind.
fn table(sums: &BTreeMap<String, Sum>) -> String {
    let columns = ["faults", "violations", "grants", "external", "custodies", "lost", "views"];
    let mut text = format!("{:<22} {:>7} {:>9}", "algorithm", "slices", "seeds");
    for column in columns {
        text += &format!(" {column:>10}");
    }
    let mut kinds = BTreeMap::<_, u64>::new();
    for (name, sum) in sums {
        text += &format!("\n{name:<22} {:>7} {:>9}", sum.slices, sum.seeds);
        for column in columns {
            text += &format!(" {:>10}", sum.count(column));
        }
        for (kind, count) in &sum.kinds {
            *kinds.entry(kind).or_default() += count;
        }
    }
    text.push('\n');
    for (kind, count) in kinds {
        text += &format!("\n{count:>10} {kind}");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::{Options, sums, table};

    const LINES: &str = "\
# date commit algorithm
2026-01-01T00:00Z abc lamport seeds 1000..1250 faults 7 violations 0 grants 5; crash 3, cut: one way 4
2026-01-01T00:01Z abc lamport seeds 1250..1500 faults 9 violations 0 grants 6; crash 9
2026-01-01T00:02Z abc raymond seeds 1000..1001 faults 0 violations 1; violation 1
";

    #[test]
    fn slices_add_up() {
        let sums = sums(LINES).expect("slices");
        let lamport = &sums["lamport"];
        assert_eq!((lamport.slices, lamport.seeds, lamport.next), (2, 500, 1500));
        assert_eq!((lamport.count("faults"), lamport.count("grants")), (16, 11));
        assert_eq!((lamport.kinds["crash"], lamport.kinds["cut: one way"]), (12, 4));
        assert_eq!(sums["raymond"].count("violations"), 1);
        let table = table(&sums);
        assert!(table.contains("        12 crash\n"), "{table}");
    }

    #[test]
    fn a_line_that_is_not_a_slice_is_an_error() {
        for line in ["x", "a b lamport seeds 1..2 faults; crash 1", "a b lamport seeds 1..2"] {
            assert!(sums(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_kept_slices_have_no_violation() {
        for kind in [super::SIMULATED, super::CHURN, super::REAL] {
            let kept = std::fs::read_to_string(crate::root().join(kind.kept)).expect("kept");
            for (name, sum) in sums(&kept).expect("slices") {
                assert_eq!(sum.count("violations"), 0, "{}: {name}", kind.kept);
                assert!(sum.count("faults") > 0, "{}: {name}", kind.kept);
            }
        }
    }

    #[test]
    fn arguments_are_checked() {
        let parse = |text: &str| Options::parse(text.split_whitespace().map(str::to_owned));
        let options = parse("--algorithm raymond --faults 5 --from 7 --jobs 3").expect("options");
        let algorithm = Some("raymond".to_owned());
        assert_eq!(
            options,
            Options {
                algorithm,
                faults: 5,
                from: Some(7),
                sum: false,
                real: false,
                churn: false,
                jobs: 3
            }
        );
        for wrong in ["--faults", "--faults many", "--unknown", "--real --churn", "--jobs 0"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

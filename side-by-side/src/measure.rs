//! One measure: starts contenders, lets them begin together, reads their reports, and ends them.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result, anyhow, bail};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{
    contender::read_records,
    machine::{busy_ns, family, now, shares_kib},
    servers::Servers,
    spec::{Done, Record, Spec, Work},
    statistics::{self, Contended, Pairs},
};

/// How long contenders may take to connect, and to end when the time is up.
const READY: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(20);

/// From the signal to the beginning, so that it has reached all.
const LEAD_NS: u64 = 30_000_000;

/// What contenders did.
struct Outcome {
    dones: Vec<Done>,
    records: Vec<Vec<Record>>,
    start: u64,
    end: u64,
    server_cpu_ns: u64,
}

/// Runs measures on one system that runs.
pub(crate) struct Bench<'a> {
    servers: &'a mut Servers,
    runs: usize,
    /// The most memory that the servers had at the end of a measure.
    pub(crate) loaded_kib: u64,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(servers: &'a mut Servers) -> Self {
        Self { servers, runs: 0, loaded_kib: 0 }
    }

    /// Memory of the servers now.
    pub(crate) fn server_kib(&self) -> u64 {
        shares_kib(&family(&self.servers.pids()))
    }

    /// As many contenders as the tasks of all processes request the same lock for a while.
    pub(crate) async fn contend(
        &mut self,
        tasks: &[usize],
        hold: Duration,
        length: Duration,
    ) -> Result<Contended> {
        let holder_file = self.servers.file(&format!("holder-{}", self.runs));
        let hold_us = u64::try_from(hold.as_micros())?;
        let work = |_| Work::Contend { hold_us, holder_file: holder_file.clone() };
        let outcome = self.run(tasks, work, length).await?;
        let mut figures = statistics::contended(&outcome.records, outcome.start, outcome.end);
        let dones = &outcome.dones;
        let per_handover = |ns: u64| ns as f64 / 1e3 / (figures.handovers.max(1) as f64);
        let client_cpu_us = per_handover(dones.iter().map(|done| done.cpu_ns).sum());
        figures.server_cpu_us = per_handover(outcome.server_cpu_ns);
        figures.client_cpu_us = client_cpu_us;
        figures.violations += dones.iter().map(|done| done.overlaps).sum::<u64>();
        figures.client_idle_kib = dones.iter().map(|done| done.idle_kib).max().unwrap_or(0);
        figures.client_loaded_kib = dones.iter().map(|done| done.loaded_kib).max().unwrap_or(0);
        Ok(figures)
    }

    /// The first of so many processes locks and unlocks alone.
    pub(crate) async fn alone(
        &mut self,
        processes: usize,
        fresh: bool,
        length: Duration,
    ) -> Result<Pairs> {
        let work = |me| match (me, fresh) {
            (0, true) => Work::Fresh,
            (0, false) => Work::Pairs { name: "mine".to_owned() },
            _ => Work::Idle,
        };
        let outcome = self.run(&vec![1; processes], work, length).await?;
        Ok(pairs(&outcome.dones))
    }

    /// Each of so many locks and unlocks a name of its own.
    pub(crate) async fn names(&mut self, count: usize, length: Duration) -> Result<Pairs> {
        let work = |me| Work::Pairs { name: format!("own-{me}") };
        let outcome = self.run(&vec![1; count], work, length).await?;
        Ok(pairs(&outcome.dones))
    }

    async fn run(
        &mut self,
        tasks: &[usize],
        work: impl Fn(usize) -> Work,
        length: Duration,
    ) -> Result<Outcome> {
        let result = self.run_contenders(tasks, work, length).await;
        result.map_err(|error| match self.servers.ended() {
            Some(why) => anyhow!("{why}"),
            None => error,
        })
    }

    async fn run_contenders(
        &mut self,
        tasks: &[usize],
        work: impl Fn(usize) -> Work,
        length: Duration,
    ) -> Result<Outcome> {
        self.runs += 1;
        let client = self.servers.client(tasks.len(), self.runs)?;
        let (count, mut contenders) = (tasks.len(), Vec::new());
        for (me, tasks) in tasks.iter().enumerate() {
            let spec = Spec {
                client: client.clone(),
                me,
                processes: count,
                tasks: *tasks,
                work: work(me),
                records: self.servers.file(&format!("records-{}-{me}", self.runs)),
            };
            contenders.push(Contender::start(spec)?);
        }
        for contender in &mut contenders {
            contender.expect("ready", READY).await?;
        }
        let pids = family(&self.servers.pids());
        let before = busy_ns(&pids);
        let start = now() + LEAD_NS;
        let end = start + u64::try_from(length.as_nanos())?;
        for contender in &mut contenders {
            contender.send(&format!("go {start} {end}\n")).await?;
        }
        let mut dones = Vec::new();
        for contender in &mut contenders {
            let line = contender.expect("done", length + GRACE).await?;
            dones.push(serde_json::from_str(&line)?);
        }
        let after = busy_ns(&pids);
        let spent = after.iter().map(|(pid, ns)| ns.saturating_sub(before[pid]));
        let server_cpu_ns = spent.sum();
        self.loaded_kib = self.loaded_kib.max(shares_kib(&pids));
        let mut records = Vec::new();
        for contender in contenders {
            records.extend(contender.end().await?);
        }
        Ok(Outcome { dones, records, start, end, server_cpu_ns })
    }
}

fn pairs(dones: &[Done]) -> Pairs {
    let active = || dones.iter().filter(|done| done.pairs > 0);
    let times = active().flat_map(|done| done.pair_ns.iter().map(|ns| ns / 1e3));
    let times = statistics::sorted(times.collect());
    Pairs {
        per_s: active().map(|done| done.pairs as f64 / (done.pairs_ns as f64 / 1e9)).sum(),
        p50_us: statistics::quantile(&times, 0.5),
        p99_us: statistics::quantile(&times, 0.99),
    }
}

/// A contender's process. It ends when this is dropped.
struct Contender {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    spec: Spec,
}

impl Contender {
    fn start(spec: Spec) -> Result<Self> {
        // It waits for others who would end with this process, so it must not outlive it.
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(std::env::current_exe()?)
            .arg("contend")
            .arg(serde_json::to_string(&spec)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().context("its input")?;
        let output = BufReader::new(child.stdout.take().context("its output")?).lines();
        Ok(Self { child, input, output, spec })
    }

    async fn send(&mut self, line: &str) -> Result<()> {
        Ok(self.input.write_all(line.as_bytes()).await?)
    }

    /// The rest of the next line, which must begin with this word.
    async fn expect(&mut self, word: &str, limit: Duration) -> Result<String> {
        let me = self.spec.me;
        let line = timeout(limit, self.output.next_line()).await;
        let line =
            line.with_context(|| format!("contender {me} did not write `{word}` in time"))?;
        let Some(line) = line? else { bail!("contender {me} ended: {}", self.last_errors().await) };
        let wrong = || format!("contender {me} wrote `{line}` instead of `{word}`");
        Ok(line.strip_prefix(word).with_context(wrong)?.to_owned())
    }

    async fn last_errors(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = timeout(Duration::from_secs(1), errors.read_to_string(&mut text)).await;
        }
        text.trim().to_owned()
    }

    /// Ends it; the records of its contenders.
    async fn end(mut self) -> Result<Vec<Vec<Record>>> {
        self.send("end\n").await?;
        timeout(GRACE, self.child.wait()).await.context("a contender does not end")??;
        match self.spec.work {
            Work::Contend { .. } => read_records(&self.spec.records),
            _ => Ok(Vec::new()),
        }
    }
}

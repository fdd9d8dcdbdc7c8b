//! How near an open system is to its capacity, and so how long it takes to settle.
//!
//! While a request waits, an entry takes a cycle: the time from an exit to the next entry, and the
//! hold time. The mean cycle times the rate of requests is the load, rho. From 1 on the queue grows
//! for ever. Below, a queue forgets its beginning within a number of entries that grows like
//! 1/(1-rho)^2 (Asmussen, Applied Probability and Queues, on the relaxation time in heavy traffic).
//!
//! A cycle is known far more exactly than the throughput of a run, whose arrivals vary by chance.

use crate::{Distribution, Load, workload::Clients};

/// So many cycles are needed to judge by them; a system that has fewer is nearly always idle.
const FEWEST: u64 = 10;

/// A load within so many standard errors of 1 may be on either side of it.
const ERRORS: f64 = 3.0;

/// A load of at least 1 that is known as exactly as this counts as overload, even if it could be
/// just below 1 by chance.
const EXACT: f64 = 0.005;

/// So many relaxation times make a warm-up, and a batch.
const OF_WARM_UP: f64 = 5.0;
const OF_BATCH: f64 = 2.0;

/// The least half width of an interval of waits, in standard errors by heavy traffic theory. The
/// larger of it and of the one by batch means covers in about 95 % of runs.
const LEAST: f64 = 1.5;

/// The cycles of an open system.
#[derive(Clone, Debug)]
pub(crate) struct Saturation {
    /// Requests per nanosecond.
    rate: f64,
    /// The variance of the number of requests that come in a long time, divided by its mean.
    spread: f64,
    hold: Distribution,
    /// The last exit while a request waited, until the next entry.
    exited_at: Option<u64>,
    handovers: Moments,
    holds: Moments,
}

impl Saturation {
    /// None where clients do not request however many wait.
    pub(crate) fn of(clients: &Clients) -> Option<Self> {
        let rate = clients.workload.load.rate(clients.active().len() as u64)?;
        let spread = match clients.workload.load {
            Load::Bursts { every } => clients.active().len() as f64 * squared_variation(&every),
            _ => 1.0,
        };
        let hold = clients.workload.hold;
        let (handovers, holds) = (Moments::default(), Moments::default());
        Some(Self { rate, spread, hold, exited_at: None, handovers, holds })
    }

    /// A process exits, and whether a request waits.
    pub(crate) fn exits(&mut self, now: u64, is_waited_for: bool) {
        self.exited_at = is_waited_for.then_some(now);
    }

    /// A process enters for this time.
    pub(crate) fn enters(&mut self, now: u64, hold: u64) {
        if let Some(exited_at) = self.exited_at.take() {
            self.handovers.add((now - exited_at) as f64);
        }
        self.holds.add(hold as f64);
    }

    /// The load, and how far it may be off by chance; none without enough cycles.
    fn load(&self) -> Option<(f64, f64)> {
        let enough = self.handovers.count >= FEWEST;
        // The mean of the hold times drawn varies by chance, their distribution's is known.
        let load = self.rate * (self.handovers.mean + self.hold.mean());
        let error = (self.handovers.variance() / self.handovers.count as f64).sqrt();
        enough.then_some((load, ERRORS * self.rate * error))
    }

    /// Whether requests come as fast as they can be granted, or faster; none without enough cycles.
    pub(crate) fn is_overloaded(&self) -> Option<bool> {
        let (load, error) = self.load()?;
        // What comes and is served at fixed times needs no reserve: it is stable at a load of 1.
        let least = if self.spread > 0.0 { 1.0 - 1e-9 } else { 1.0 + 1e-9 };
        Some(load >= least && (error < EXACT || load > 1.0 + error))
    }

    fn cycle(&self) -> f64 {
        self.handovers.mean + self.hold.mean()
    }

    /// How much arrivals and cycles vary together: 1 for M/D/1, 2 for M/M/1.
    fn variation(&self) -> f64 {
        let cycles = self.handovers.variance() + self.holds.variance();
        self.spread + cycles / self.cycle().powi(2).max(1.0)
    }

    /// The relaxation time in entries; infinite where the load cannot be told from 1.
    fn relaxation(&self) -> f64 {
        let Some((load, error)) = self.load() else { return 0.0 };
        let reserve = 1.0 - load - error;
        match self.variation() {
            ..1e-9 => 0.0,
            variation if reserve > 0.0 => 2.0 * variation / (reserve * reserve),
            _ => f64::INFINITY,
        }
    }

    /// The least half width of an interval of the mean wait of so many entries, in nanoseconds.
    ///
    /// Waits are skewed: a run in which they are short by chance also shows that they vary little,
    /// and its batches give too narrow an interval. In heavy traffic the wait in a queue is
    /// exponential, its mean is Kingman's, and the variance of a mean over n entries is its square
    /// times the relaxation time divided by n.
    pub(crate) fn least_half_width(&self, entries: u64) -> f64 {
        let relaxation = self.relaxation();
        let Some((load, _)) = self.load().filter(|_| relaxation.is_finite()) else { return 0.0 };
        let mean = load * self.variation() * self.cycle() / (2.0 * (1.0 - load));
        LEAST * mean * (relaxation / entries.max(1) as f64).sqrt()
    }

    /// The entries after which the system has forgotten its beginning.
    pub(crate) fn warm_up(&self) -> u64 {
        (OF_WARM_UP * self.relaxation()).ceil() as u64
    }

    /// The entries of a batch whose mean hardly depends on that of the batch before it.
    pub(crate) fn batch(&self) -> u64 {
        (OF_BATCH * self.relaxation()).ceil() as u64
    }
}

/// The variance divided by the square of the mean, where a rough value is enough.
fn squared_variation(gap: &Distribution) -> f64 {
    match *gap {
        Distribution::Constant(_) => 0.0,
        Distribution::Uniform { low, high } => ((high - low) as f64 / gap.mean()).powi(2) / 12.0,
        Distribution::LogNormal { sigma, .. } => crate::random::exp(sigma * sigma) - 1.0,
        Distribution::Exponential { .. } | Distribution::Percentiles { .. } => 1.0,
    }
}

/// The mean and the variance of samples, by Welford's method.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, sample: f64) {
        self.count += 1;
        let before = sample - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (sample - self.mean);
    }

    fn variance(&self) -> f64 {
        if self.count < 2 { 0.0 } else { self.squares / (self.count - 1) as f64 }
    }
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::NodeId;

    use super::*;
    use crate::{Who, Workload};

    /// A system of one client with this gap between requests and a cycle of so many nanoseconds.
    fn with(load: Load, cycle: u64) -> Saturation {
        let who = Who::One(NodeId(0));
        let workload = Workload { load, who, hold: Distribution::Constant(1000) };
        let mut found = Saturation::of(&Clients::new(workload, 5, 1)).expect("an open system");
        for _ in 0..20 {
            found.exits(0, true);
            found.enters(cycle - 1000, 1000);
        }
        found
    }

    #[test]
    fn an_open_system_at_its_capacity_is_overloaded_and_below_it_settles_later_and_later() {
        let random = |cycle| with(Load::Poisson { gap: 10_000 }, cycle);
        assert_eq!(random(9_900).is_overloaded(), Some(false));
        assert_eq!(random(10_000).is_overloaded(), Some(true));
        // M/D/1: ten cycles over (1 - rho)^2.
        assert_eq!(random(5_000).warm_up(), 40);
        assert!((999..=1001).contains(&random(9_000).warm_up()));
        assert_eq!(random(10_000).warm_up(), u64::MAX);
        let steady = |cycle| with(Load::Bursts { every: Distribution::Constant(10_000) }, cycle);
        assert_eq!(steady(10_000).is_overloaded(), Some(false));
        assert_eq!(steady(10_001).is_overloaded(), Some(true));
        assert_eq!(steady(9_990).warm_up(), 0);
        assert!(
            Saturation::of(&Clients::new(Workload::saturated(Distribution::ZERO), 5, 1)).is_none()
        );
    }
}

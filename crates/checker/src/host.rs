//! The services that a check takes from the program around it: clock, gauge of memory, display of
//! progress.
//!
//! The library reads no clock by itself, so that it runs where there is none, and in a test a check
//! runs on any time that the test likes.

use crate::limits::{Limits, Progress, Stop};

/// The program around a check.
///
/// All calls come from the thread that called [`check`](crate::check()).
pub trait Host {
    /// Seconds since a fixed moment.
    fn seconds(&mut self) -> f64;

    /// The memory of the whole program in bytes; zero where it is unknown, and then
    /// [`Limits::bytes`] has no effect.
    fn bytes(&mut self) -> u64;

    /// Called about five times a second, by the host's own clock.
    fn progress(&mut self, now: &Progress);
}

/// A host without a clock: searches take no time, limits of time and memory have no effect, and
/// progress is not shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoClock;

impl Host for NoClock {
    fn seconds(&mut self) -> f64 {
        0.0
    }

    fn bytes(&mut self) -> u64 {
        0
    }

    fn progress(&mut self, _now: &Progress) {}
}

/// How often the memory is read, in seconds: on Linux that reads a file.
const GAUGE: f64 = 0.002;

/// How often progress is shown, in seconds.
const SHOW: f64 = 0.2;

/// Holds one search against its limits while it runs.
pub(crate) struct Watch<'a> {
    host: &'a mut dyn Host,
    limits: Limits,
    began: f64,
    bytes: u64,
    gauged: Option<f64>,
    shown: f64,
}

impl<'a> Watch<'a> {
    /// A search begins.
    pub(crate) fn start(host: &'a mut dyn Host, limits: &Limits) -> Self {
        let began = host.seconds();
        Self { host, limits: *limits, began, bytes: 0, gauged: None, shown: 0.0 }
    }

    /// Seconds since the search began.
    pub(crate) fn seconds(&mut self) -> f64 {
        self.host.seconds() - self.began
    }

    /// The limit that is reached with so many states and at this depth, if one is.
    pub(crate) fn look(&mut self, states: u64, depth: u64) -> Option<Stop> {
        let seconds = self.seconds();
        if self.gauged.is_none_or(|gauged| seconds - gauged >= GAUGE) {
            self.bytes = self.host.bytes();
            self.gauged = Some(seconds);
        }
        let now = Progress { states, depth, seconds, bytes: self.bytes };
        if seconds - self.shown > SHOW {
            self.shown = seconds;
            self.host.progress(&now);
        }
        self.limits.reached(&now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time passes by one second with every look at the clock.
    #[derive(Default)]
    struct Steps {
        now: f64,
        shown: Vec<f64>,
    }

    impl Host for Steps {
        fn seconds(&mut self) -> f64 {
            self.now += 1.0;
            self.now
        }

        fn bytes(&mut self) -> u64 {
            self.now as u64 * 100
        }

        fn progress(&mut self, now: &Progress) {
            self.shown.push(now.seconds);
        }
    }

    #[test]
    fn limits_are_held_against_the_host_s_clock_and_gauge() {
        let mut host = Steps::default();
        let limits = Limits { seconds: Some(3.0), ..Limits::default() };
        let mut watch = Watch::start(&mut host, &limits);
        let looks: Vec<_> = (0..3).map(|_| watch.look(1, 1)).collect();
        assert_eq!(looks, [None, None, Some(Stop::Time)]);
        assert_eq!(host.shown, [1.0, 2.0, 3.0]);
        let limits = Limits { bytes: Some(600), ..Limits::default() };
        let mut watch = Watch::start(&mut host, &limits);
        assert_eq!(watch.look(1, 1), Some(Stop::Memory));
    }

    #[test]
    fn without_a_clock_only_counts_are_limited() {
        let limits =
            Limits { seconds: Some(1e-9), bytes: Some(1), states: Some(5), ..Limits::default() };
        let mut host = NoClock;
        let mut watch = Watch::start(&mut host, &limits);
        assert_eq!(watch.look(4, 1), None);
        assert_eq!(watch.look(5, 1), Some(Stop::States));
    }
}

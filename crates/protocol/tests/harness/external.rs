//! A client outside the nodes' processes, as both worlds know it: what it believes, on a clock of
//! its own.

use std::time::Duration;

use super::{World, world::Event};

/// A client.
#[derive(Clone, Debug, Default)]
pub(crate) struct External {
    pub(crate) step: u64,
    /// Its clock is faster by so many millionths.
    pub(crate) faster: i64,
    pub(crate) session: u64,
    pub(crate) ttl: Duration,
    pub(crate) name: usize,
    pub(crate) slot: usize,
    pub(crate) waiting: bool,
    pub(crate) token: Option<u64>,
    /// The end of its session, by its last renewal, in real time.
    pub(crate) valid_until: u64,
    pub(crate) renewed_at: u64,
    /// When it sent its request, in real time.
    #[allow(dead_code, reason = "only the nodes of `decided_views` promise")]
    pub(crate) asked_at: u64,
    /// The end of what it was promised, in real time.
    pub(crate) promised_until: u64,
    pub(crate) leave_at: u64,
}

impl External {
    /// The token it believes to hold the lock with.
    pub(crate) fn believes(&self, now: u64, name: usize) -> Option<u64> {
        let until = self.valid_until.min(self.promised_until);
        self.token.filter(|_| self.name == name && now < until)
    }

    /// A renewal that was sent at this time has been answered.
    pub(crate) fn renewed(&mut self, now: u64, sent: u64) {
        self.valid_until = self.valid_until.max(sent + self.real(self.ttl));
        self.renewed_at = now;
    }

    /// How long this takes on its clock, in real time.
    pub(crate) fn real(&self, time: Duration) -> u64 {
        let faster = 1_000_000 + i128::from(self.faster);
        (i128::from(time.as_nanos() as u64) * 1_000_000 / faster) as u64
    }
}

impl World {
    pub(crate) fn add_external(&mut self) {
        let drift = i64::from(self.settings.drift);
        let faster = if self.dice.one_in(2) { -drift } else { drift };
        let client = self.externals.len();
        self.externals.push(External { faster, promised_until: u64::MAX, ..External::default() });
        let wait = self.dice.micros(1000, 2_000_000);
        self.after(wait, Event::External { client, step: 0 });
    }

    /// The client acts again after so long; what it meant to do before is off.
    pub(crate) fn external_step(&mut self, client: usize, wait: Duration) {
        self.externals[client].step += 1;
        let step = self.externals[client].step;
        self.after(wait, Event::External { client, step });
    }

    /// Whether the client's session is over before anybody answered: then it gives up.
    pub(crate) fn gives_up(&mut self, client: usize) -> bool {
        let one = &mut self.externals[client];
        let over = (one.waiting || one.token.is_some()) && self.now >= one.valid_until;
        if over {
            (one.waiting, one.token) = (false, None);
            self.note(|| format!("external {client} gives up"));
            let wait = self.dice.micros(1000, 500_000);
            self.external_step(client, wait);
        }
        over
    }
}

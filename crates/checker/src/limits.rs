//! How far a search may go, and how far it has come.

/// The limits of a search; none by default.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// States.
    pub states: Option<u64>,
    /// Bytes of memory, of the whole program.
    pub bytes: Option<u64>,
    /// Seconds for each search.
    pub seconds: Option<f64>,
    /// Steps from the start.
    pub depth: Option<usize>,
    /// How often a step may be put off in a run. Without a delay the first step of a fixed order is
    /// taken: clients by their ids, then links by theirs; taking the next one instead costs one.
    pub delays: Option<u32>,
    /// After a search that met a limit, no further one of the same system is begun: those with a
    /// ghost are larger.
    pub give_up: bool,
    /// Workers. Without the feature `threads` there is always one.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            states: None,
            bytes: None,
            seconds: None,
            depth: None,
            delays: None,
            give_up: false,
            threads: 1,
        }
    }
}

impl Limits {
    /// The limit that is reached, if one is.
    pub(crate) fn reached(&self, now: &Progress) -> Option<Stop> {
        if self.states.is_some_and(|most| now.states >= most) {
            Some(Stop::States)
        } else if self.bytes.is_some_and(|most| now.bytes >= most) {
            Some(Stop::Memory)
        } else if self.seconds.is_some_and(|most| now.seconds >= most) {
            Some(Stop::Time)
        } else {
            None
        }
    }
}

/// Why a search ended before everything was seen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// `--max-states`.
    States,
    /// `--max-memory`.
    Memory,
    /// `--time`.
    Time,
    /// `--depth`.
    Depth,
    /// `--delays`.
    Delays(u32),
    /// The violation that was looked for was found.
    Found,
    /// So many random runs, and no search.
    Walked(u64),
}

impl Stop {
    /// Whether the search went through all states of one depth before it began the next, up to a
    /// limit.
    pub(crate) fn is_depth_known(self) -> bool {
        match self {
            Self::States | Self::Memory | Self::Time | Self::Depth => true,
            Self::Delays(_) | Self::Found | Self::Walked(_) => false,
        }
    }

    /// The reason in words.
    pub fn words(self) -> String {
        match self {
            Self::States => "the limit of states was reached".to_owned(),
            Self::Memory => "the limit of memory was reached".to_owned(),
            Self::Time => "the time was up".to_owned(),
            Self::Depth => "the limit of depth was reached".to_owned(),
            Self::Delays(most) => format!("only runs with at most {most} delays"),
            Self::Found => "a violation was found".to_owned(),
            Self::Walked(1) => "only 1 random run, which proves nothing".to_owned(),
            Self::Walked(runs) => format!("only {runs} random runs, which prove nothing"),
        }
    }
}

/// How far a search has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Distinct states.
    pub states: u64,
    /// Steps from the start.
    pub depth: u64,
    /// Since the beginning.
    pub seconds: f64,
    /// Memory of the whole program; zero where the system does not report it.
    pub bytes: u64,
}

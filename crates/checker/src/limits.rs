//! How far a search may go, and how far it has come.

/// What a search may use; what is not given is not limited.
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
    /// Workers.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            states: None,
            bytes: None,
            seconds: None,
            depth: None,
            delays: None,
            give_up: false,
            threads,
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
    /// What was looked for was found.
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
            Self::Found => "what was looked for was found".to_owned(),
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
    /// Memory of the whole program; zero where the system does not say.
    pub bytes: u64,
}

/// The memory of the whole program, where the system says.
pub(crate) fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE
}

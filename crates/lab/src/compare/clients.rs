//! The clients and the regions of a comparison: the same in all of its cells.

use mutua_simulator::{Distribution, Latency, Load, Network, Regions, Who, Workload};
use serde::{Deserialize, Serialize};

use super::grid::{CellLoad, PlanError};
use crate::durations;

/// The behaviour of clients, and where they are. By default all request alike, after think times,
/// and the network is one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Clients {
    /// How an offered load comes.
    pub arrivals: Arrivals,
    /// The clients that request.
    pub requesters: Requesters,
    /// Regions of about equal size; none for one network.
    pub regions: Option<Apart>,
}

/// How requests come at an offered load.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// A client requests again after an exponential think time: a closed system.
    #[default]
    Think,
    /// Requests arrive at random, however many wait: an open system.
    Poisson,
    /// All clients request at once, again and again.
    Bursts,
}

impl Arrivals {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Think, Self::Poisson, Self::Bursts];

    /// The name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Think => "think",
            Self::Poisson => "poisson",
            Self::Bursts => "bursts",
        }
    }
}

/// The clients that request.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Requesters {
    /// All, equally often.
    #[default]
    All,
    /// Only the first so many.
    Hot(u32),
    /// All, by Zipf's law with this exponent.
    Zipf(f64),
}

impl Requesters {
    /// The text in tables, as the command line has it.
    pub fn text(self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Hot(count) => format!("hot:{count}"),
            Self::Zipf(exponent) => format!("zipf:{exponent}"),
        }
    }
}

/// Regions, with another latency between them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Apart {
    /// How many there are.
    pub count: u32,
    /// The latency of a message from one to another, a distribution as [`durations`] reads it.
    pub wan: String,
}

impl Clients {
    /// Whether nothing but the default is asked for: only then do the formulas apply.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Whether these clients can be always waiting. By Zipf's law some request less often.
    pub(super) fn can_saturate(&self) -> bool {
        !matches!(self.requesters, Requesters::Zipf(_))
    }

    /// The sentence of a report; none for the default.
    pub fn sentence(&self) -> Option<String> {
        let mut parts = Vec::new();
        match self.arrivals {
            Arrivals::Think => {}
            Arrivals::Poisson => parts
                .push("at an offered load requests arrive at random, however many wait".to_owned()),
            Arrivals::Bursts => {
                parts.push("at an offered load all clients request at once, in bursts".to_owned());
            }
        }
        match self.requesters {
            Requesters::All => {}
            Requesters::Hot(count) => {
                parts.push(format!("only the first {count} processes request"));
            }
            Requesters::Zipf(exponent) => parts.push(format!(
                "processes request by Zipf's law with exponent {exponent}, so never saturated"
            )),
        }
        if let Some(Apart { count, wan }) = &self.regions {
            parts.push(format!("processes are in {count} regions, {wan} from each other"));
        }
        (!parts.is_empty()).then(|| format!("Here {}; no formula applies.", parts.join("; ")))
    }

    pub(super) fn network(&self, nodes: u32, latency: Distribution) -> Result<Network, PlanError> {
        let mut network = Network::new(latency);
        let Some(Apart { count, wan }) = &self.regions else { return Ok(network) };
        let wan = durations::distribution(wan)?;
        let sizes = (0..*count).map(|region| nodes / count + u32::from(region < nodes % count));
        let sizes: Vec<_> = sizes.collect();
        let pairs = (0..*count).flat_map(|from| (0..*count).map(move |to| from == to));
        let between = pairs.map(|same| if same { latency } else { wan }).collect();
        network.latency = Latency::Regions(Regions::new(&sizes, between)?);
        Ok(network)
    }

    pub(super) fn workload(
        &self,
        nodes: u32,
        load: CellLoad,
        network: &Network,
        hold: Distribution,
    ) -> Workload {
        let who = match self.requesters {
            Requesters::All => Who::All,
            Requesters::Hot(count) => Who::Hot(count),
            Requesters::Zipf(exponent) => Who::Zipf(exponent),
        };
        let active = match who {
            Who::Hot(count) => count.min(nodes),
            Who::All | Who::Zipf(_) | Who::One(_) => nodes,
        };
        let load = match (load, self.arrivals) {
            (CellLoad::Light, _) => Workload::light(nodes, network.mean_latency(), hold).load,
            (CellLoad::Saturated, _) => Load::Saturated,
            (CellLoad::Offered(share), Arrivals::Poisson) => {
                Load::Poisson { gap: (hold.mean() / share) as u64 }
            }
            (CellLoad::Offered(share), Arrivals::Think) => {
                let mean = (hold.mean() * f64::from(active) / share) as u64;
                Load::Think(Distribution::Exponential { mean })
            }
            (CellLoad::Offered(share), Arrivals::Bursts) => {
                let every = (hold.mean() * f64::from(active) / share) as u64;
                Load::Bursts { every: Distribution::Constant(every) }
            }
        };
        Workload { load, who, hold }
    }
}

//! Mutual exclusion, one algorithm a file.

mod bakery;
mod bakery_naive;
mod dijkstra;
mod maekawa;
mod naimi_trehel;
mod ricart_agrawala;

pub use bakery::Bakery;
pub use bakery_naive::BakeryNaive;
pub use dijkstra::{Daemon, Dijkstra, DijkstraRing, moved, privileged};
pub use maekawa::Maekawa;
pub use naimi_trehel::NaimiTrehel;
pub use ricart_agrawala::RicartAgrawala;

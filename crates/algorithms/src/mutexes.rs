//! Mutual exclusion, one algorithm a file.

mod bakery;
mod bakery_naive;
mod maekawa;
mod maekawa_basic;
mod majority;
mod naimi_trehel;
mod neilsen_mizuno;
mod raymond;
mod ricart_agrawala;
mod sanders;

pub use bakery::Bakery;
pub use bakery_naive::BakeryNaive;
pub use maekawa::Maekawa;
pub use maekawa_basic::MaekawaBasic;
pub use majority::Majority;
pub use naimi_trehel::NaimiTrehel;
pub use neilsen_mizuno::NeilsenMizuno;
pub use raymond::Raymond;
pub use ricart_agrawala::RicartAgrawala;
pub use sanders::Sanders;

//! Mutual exclusion, one algorithm a file; what token algorithms have in common is in `state` and
//! `serial`.

mod bakery;
mod bakery_naive;
mod carvalho_roucairol;
mod central;
mod lamport;
mod le_lann;
mod maekawa;
mod maekawa_basic;
mod majority;
mod naimi_trehel;
mod neilsen_mizuno;
mod raymond;
mod ricart_agrawala;
mod ricart_agrawala_token;
mod sanders;
mod serial;
mod state;
mod suzuki_kasami;

pub use bakery::Bakery;
pub use bakery_naive::BakeryNaive;
pub use carvalho_roucairol::CarvalhoRoucairol;
pub use central::Central;
pub use lamport::Lamport;
pub use le_lann::LeLann;
pub use maekawa::Maekawa;
pub use maekawa_basic::MaekawaBasic;
pub use majority::Majority;
pub use naimi_trehel::NaimiTrehel;
pub use neilsen_mizuno::NeilsenMizuno;
pub use raymond::Raymond;
pub use ricart_agrawala::RicartAgrawala;
pub use ricart_agrawala_token::RicartAgrawalaToken;
pub use sanders::Sanders;
pub use suzuki_kasami::SuzukiKasami;

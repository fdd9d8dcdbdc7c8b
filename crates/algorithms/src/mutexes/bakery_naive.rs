//! The Bakery (Lamport, CACM 17(8), 1974) without `choosing`: unsafe, kept as a negative control.
//! See [`bakery`](super::Bakery), whose rules it shares but for that variable.

use super::bakery::BakeryWith;

/// One process of the Bakery without choice.
pub type BakeryNaive = BakeryWith<false>;

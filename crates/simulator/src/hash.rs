//! One number for a whole run: equal runs have equal numbers.

use mutua_algorithms::split_mix::GOLDEN;

/// A hash over the events of a run, each as four words of fixed width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceHash(u64);

impl TraceHash {
    pub(crate) fn new() -> Self {
        Self(0x6d75_7475_6121_0001)
    }

    /// Adds an event.
    pub(crate) fn add(&mut self, event: [u64; 4]) {
        for word in event {
            self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(GOLDEN);
        }
    }

    /// As 16 hexadecimal digits.
    pub(crate) fn text(self) -> String {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        format!("{:016x}", mixed ^ (mixed >> 32))
    }
}

/// One number for several runs, from the texts of their hashes in order; a single run keeps its
/// own.
pub fn combined<'a>(hashes: impl IntoIterator<Item = &'a str>) -> String {
    let hashes: Vec<_> = hashes.into_iter().collect();
    if let [single] = hashes.as_slice() {
        return (*single).to_owned();
    }
    let mut all = TraceHash::new();
    for hash in hashes {
        let word = u64::from_str_radix(hash, 16).expect("a hash is 16 hexadecimal digits");
        all.add([word, 0, 0, 0]);
    }
    all.text()
}

//! SplitMix64 by Steele, Lea and Flood: for drivers and tests. No algorithm draws numbers.

use std::time::Duration;

/// 2^64 over the golden ratio, odd: multiples of it spread evenly over all numbers.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The next number of the sequence.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN);
    mix(*state)
}

/// The finisher: every bit of the input moves about half of the output's.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A generator of random numbers; everything in a run follows from its seed.
///
/// Numbers are reduced to a range by the remainder. The ranges are small against 2^64, so that no
/// test notices the bias.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "the sequence has no end to report")]
    pub fn next(&mut self) -> u64 {
        next(&mut self.0)
    }

    /// A number below `end`.
    ///
    /// # Panics
    ///
    /// If `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// An index of a list of this length.
    ///
    /// # Panics
    ///
    /// If the list is empty.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number in `from..=to`.
    pub fn within(&mut self, from: u32, to: u32) -> u32 {
        from + self.below(u64::from(to - from) + 1) as u32
    }

    /// One of these.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// True once in so many times, on average.
    ///
    /// # Panics
    ///
    /// If `times` is 0.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// From this many microseconds to less than that many.
    ///
    /// # Panics
    ///
    /// If the range is empty.
    pub fn micros(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_micros(from + self.below(to - from))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut state = 1_234_567;
        let drawn = [(); 3].map(|()| super::next(&mut state));
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(drawn, published);
    }

    #[test]
    fn every_number_of_a_range_is_drawn_and_no_other() {
        let mut dice = super::Dice(1);
        let draws: BTreeSet<_> = (0..200).map(|_| dice.within(3, 6)).collect();
        assert_eq!(draws, BTreeSet::from([3, 4, 5, 6]));
        let micros: BTreeSet<_> = (0..200).map(|_| dice.micros(3, 6).as_micros()).collect();
        assert_eq!(micros, BTreeSet::from([3, 4, 5]));
    }

    #[test]
    fn one_in_four_is_a_quarter_and_one_in_one_is_always() {
        let mut dice = super::Dice(1);
        let hits = (0..4_000).filter(|_| dice.one_in(4)).count();
        assert!((900..1_100).contains(&hits), "{hits}");
        assert!((0..100).all(|_| dice.one_in(1)));
    }
}

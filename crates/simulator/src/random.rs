//! Random numbers that are the same on every machine and in every build, since results are quoted
//! by seed. Written by hand: crates for random numbers may change their streams between versions,
//! and every pinned hash depends on this one.

use mutua_algorithms::split_mix;

/// xoshiro256++ by Blackman and Vigna, seeded through SplitMix64.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of this number for this seed. Streams of different numbers are independent, so
    /// that another network does not change which process requests next.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mix = seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Self { state: std::array::from_fn(|_| split_mix::next(&mut mix)) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number from 0 to `bound` - 1. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the high half of 128 bits has 64")
    }

    /// A number of [0, 1).
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.bits() >> 11) as f64 * STEP
    }

    /// An exponentially distributed number of mean 1.
    pub fn exponential(&mut self) -> f64 {
        -ln(1.0 - self.unit())
    }

    /// A normally distributed number of mean 0 and deviation 1, by Marsaglia's polar method.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }

    /// Puts the items into a random order, all orders equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let index = self.below(last as u64 + 1);
            items.swap(last, usize::try_from(index).expect("it is below a length"));
        }
    }

    /// True with this probability; for 0 it draws nothing.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }
}

/// The natural logarithm of a positive normal number. The standard library's differs between
/// platforms in the last bit, which would be enough to change a run; this one uses only operations
/// that IEEE 754 defines exactly.
pub(crate) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = f64::from(u32::try_from(bits >> 52).expect("x is positive")) - 1023.0;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1.0;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..12).rev().fold(0.0, |sum, k| sum * square + 1.0 / (2.0 * f64::from(k) + 1.0));
    exponent * std::f64::consts::LN_2 + 2.0 * s * series
}

/// The exponential function, for |x| below 700, likewise from exactly defined operations.
pub(crate) fn exp(x: f64) -> f64 {
    let halvings = (x / std::f64::consts::LN_2).round();
    let rest = x - halvings * std::f64::consts::LN_2;
    let series = (1..18).rev().fold(1.0, |sum, k| 1.0 + sum * rest / f64::from(k));
    // |x| < 700 keeps the exponent within the 11 bits.
    let exponent = (halvings as i64 + 1023).clamp(1, 2046);
    series * f64::from_bits(exponent.cast_unsigned() << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_exponential_agree_with_the_platform() {
        let mut random = Random::new(1, 0);
        for _ in 0..10_000 {
            let x = random.unit() * 50.0 + 1e-9;
            assert!((ln(x) - x.ln()).abs() <= 1e-15 * (1.0 + x.ln().abs()), "ln {x}");
            let y = x - 25.0;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13, "exp {y}");
        }
    }

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        let mut random = Random::new(42, 7);
        let drawn: [u64; 3] = std::array::from_fn(|_| random.bits());
        assert_eq!(drawn, [4996627117712090138, 6460616305150749357, 15006122742538260652]);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Random::new(3, 0);
        let count = 200_000;
        let mut sums = [0.0; 3];
        for _ in 0..count {
            let normal = random.normal();
            sums[0] += random.exponential();
            sums[1] += normal;
            sums[2] += normal * normal;
        }
        let means = sums.map(|sum| sum / f64::from(count));
        assert!((means[0] - 1.0).abs() < 0.01, "{means:?}");
        assert!(means[1].abs() < 0.01, "{means:?}");
        assert!((means[2] - 1.0).abs() < 0.02, "{means:?}");
    }
}

//! Finite fields, for the projective planes.
//!
//! The field of q = p^k elements is that of the polynomials over the numbers mod p, taken modulo an
//! irreducible one of degree k. A polynomial is kept as the number whose digits in base p are its
//! coefficients, and sums and products are looked up in tables.

/// The field with `order` elements, numbered from 0; 0 and 1 are its zero and its one.
#[derive(Clone, Debug)]
pub(super) struct Field {
    order: u32,
    sums: Vec<u32>,
    products: Vec<u32>,
}

impl Field {
    /// The field of this order; there is one if the order is a power of a prime.
    pub(super) fn new(order: u32) -> Option<Self> {
        let (prime, degree) = prime_power(order)?;
        let ring = Polynomials { prime };
        let modulus = (order..2 * order)
            .find(|&candidate| ring.is_irreducible(candidate, degree))
            .expect("there is an irreducible polynomial of every degree");
        let table = |operation: &dyn Fn(u32, u32) -> u32| -> Vec<u32> {
            (0..order).flat_map(|a| (0..order).map(move |b| operation(a, b))).collect()
        };
        Some(Self {
            order,
            sums: table(&|a, b| ring.sum(a, b)),
            products: table(&|a, b| ring.remainder(ring.product(a, b), modulus)),
        })
    }

    pub(super) fn order(&self) -> u32 {
        self.order
    }

    pub(super) fn sum(&self, a: u32, b: u32) -> u32 {
        self.sums[self.index(a, b)]
    }

    pub(super) fn product(&self, a: u32, b: u32) -> u32 {
        self.products[self.index(a, b)]
    }

    fn index(&self, a: u32, b: u32) -> usize {
        a as usize * self.order as usize + b as usize
    }
}

/// The prime and the exponent, if `number` is a power of a prime.
pub(super) fn prime_power(number: u32) -> Option<(u32, u32)> {
    if number < 2 {
        return None;
    }
    let prime = (2..=number.isqrt()).find(|divisor| number.is_multiple_of(*divisor));
    let prime = prime.unwrap_or(number);
    let degree = number.ilog(prime);
    (prime.checked_pow(degree) == Some(number)).then_some((prime, degree))
}

/// Polynomials over the numbers mod a prime, as numbers in base `prime`.
struct Polynomials {
    prime: u32,
}

impl Polynomials {
    /// Whether a monic polynomial of this degree is irreducible: trial division by all
    /// monic ones of at most half its degree.
    fn is_irreducible(&self, polynomial: u32, degree: u32) -> bool {
        (1..=degree / 2).all(|lower| {
            let monic = self.prime.pow(lower);
            (monic..2 * monic).all(|divisor| self.remainder(polynomial.into(), divisor) != 0)
        })
    }

    fn sum(&self, a: u32, b: u32) -> u32 {
        let prime = self.prime;
        let (mut a, mut b, mut sum, mut index) = (a, b, 0, 1);
        while a > 0 || b > 0 {
            sum += (a % prime + b % prime) % prime * index;
            (a, b, index) = (a / prime, b / prime, index.saturating_mul(prime));
        }
        sum
    }

    /// The product, not reduced: it has up to twice as many digits.
    fn product(&self, a: u32, b: u32) -> u64 {
        let (x, y) = (self.digits(a.into()), self.digits(b.into()));
        let mut digits = vec![0; x.len() + y.len()];
        for (i, x) in x.iter().enumerate() {
            for (j, y) in y.iter().enumerate() {
                digits[i + j] = (digits[i + j] + x * y) % u64::from(self.prime);
            }
        }
        self.number(&digits)
    }

    /// The remainder of a division by a monic polynomial.
    fn remainder(&self, polynomial: u64, monic: u32) -> u32 {
        let prime = u64::from(self.prime);
        let mut digits = self.digits(polynomial);
        let divisor = self.digits(monic.into());
        while digits.len() >= divisor.len() {
            let lead = digits[digits.len() - 1];
            let shift = digits.len() - divisor.len();
            for (index, digit) in divisor.iter().enumerate() {
                let at = &mut digits[shift + index];
                *at = (*at + (prime - lead) * digit) % prime;
            }
            digits.pop();
        }
        u32::try_from(self.number(&digits)).expect("a remainder is shorter than the divisor")
    }

    fn digits(&self, mut polynomial: u64) -> Vec<u64> {
        let mut digits = Vec::new();
        while polynomial > 0 {
            digits.push(polynomial % u64::from(self.prime));
            polynomial /= u64::from(self.prime);
        }
        digits
    }

    fn number(&self, digits: &[u64]) -> u64 {
        digits.iter().rev().fold(0, |number, digit| number * u64::from(self.prime) + digit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERS: [u32; 13] = [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 25, 27];

    #[test]
    fn the_axioms_of_a_field_hold() {
        for order in ORDERS {
            let field = Field::new(order).unwrap();
            let elements = 0..order;
            for a in elements.clone() {
                assert_eq!(field.sum(a, 0), a);
                assert_eq!(field.product(a, 1), a);
                assert_eq!(elements.clone().filter(|&b| field.sum(a, b) == 0).count(), 1);
                let inverses = elements.clone().filter(|&b| field.product(a, b) == 1).count();
                assert_eq!(inverses, usize::from(a != 0), "{a} in the field of {order}");
                for b in elements.clone() {
                    assert_eq!(field.sum(a, b), field.sum(b, a));
                    assert_eq!(field.product(a, b), field.product(b, a));
                    for c in elements.clone() {
                        three_agree(&field, a, b, c);
                    }
                }
            }
        }
    }

    fn three_agree(field: &Field, a: u32, b: u32, c: u32) {
        let (sum, product) = (|a, b| field.sum(a, b), |a, b| field.product(a, b));
        assert_eq!(sum(sum(a, b), c), sum(a, sum(b, c)));
        assert_eq!(product(product(a, b), c), product(a, product(b, c)));
        assert_eq!(product(a, sum(b, c)), sum(product(a, b), product(a, c)));
    }

    #[test]
    fn there_is_a_field_exactly_for_the_powers_of_primes() {
        let orders: Vec<_> = (0..=27).filter(|&order| Field::new(order).is_some()).collect();
        assert_eq!(orders, [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27]);
    }

    #[test]
    fn the_field_of_four_is_not_the_numbers_mod_four() {
        let field = Field::new(4).unwrap();
        assert_eq!(field.sum(1, 1), 0);
        assert_eq!(field.product(2, 2), 3);
    }
}

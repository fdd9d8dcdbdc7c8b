//! Formulas as papers print them: the text is the formula, and is evaluated as it stands.

use super::Parameters;

/// A formula in N and other [`Parameters`], such as `3(N-1)/N`. One that cannot be read does not
/// compile, where it is a constant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Formula(&'static str);

impl Formula {
    /// The formula of this text: sums, products (`2N`, `2 x N`, `N/2`), powers (`N^2`),
    /// parentheses, the parameters, and `H(n)`, which is 1 + 1/2 + ... + 1/n.
    ///
    /// # Panics
    ///
    /// If the text is not a formula.
    pub const fn new(text: &'static str) -> Self {
        assert!(read(text, &Parameters::new(2.0)).is_some(), "not a formula");
        Self(text)
    }

    /// The formula as it is printed.
    pub const fn text(self) -> &'static str {
        self.0
    }

    /// Its value; none where a parameter is unknown.
    pub fn value(self, parameters: &Parameters) -> Option<f64> {
        read(self.0, parameters).filter(|value| value.is_finite())
    }

    /// Whether a parameter stands in it.
    pub fn mentions(self, parameter: &str) -> bool {
        self.0.contains(parameter)
    }
}

/// The value of a text, if it is a formula; not a number where a parameter is unknown.
const fn read(text: &str, parameters: &Parameters) -> Option<f64> {
    let mut reader = Reader { text: text.as_bytes(), at: 0, is_wrong: false };
    let value = reader.sum(parameters);
    if reader.is_wrong || reader.next().is_some() { None } else { Some(value) }
}

/// Reads and evaluates from left to right. `const`, and therefore without iterators and `?`.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    is_wrong: bool,
}

const DISTANCE: &[u8] = b"mean distance";

impl Reader<'_> {
    /// The next byte that is not a space.
    const fn next(&mut self) -> Option<u8> {
        while self.at < self.text.len() && self.text[self.at] == b' ' {
            self.at += 1;
        }
        if self.at < self.text.len() { Some(self.text[self.at]) } else { None }
    }

    const fn take(&mut self, byte: u8) -> bool {
        let found = matches!(self.next(), Some(next) if next == byte);
        if found {
            self.at += 1;
        }
        found
    }

    const fn sum(&mut self, parameters: &Parameters) -> f64 {
        let mut value = self.product(parameters);
        loop {
            if self.take(b'+') {
                value += self.product(parameters);
            } else if self.take(b'-') {
                value -= self.product(parameters);
            } else {
                return value;
            }
        }
    }

    const fn product(&mut self, parameters: &Parameters) -> f64 {
        let begins_with_number = matches!(self.next(), Some(b'0'..=b'9'));
        let mut value = self.power(parameters);
        // A number multiplies all of the product behind it: 3(N-1)/N is 3 times (N-1)/N.
        if begins_with_number && self.at_factor() {
            return value * self.product(parameters);
        }
        loop {
            if self.take(b'/') {
                value /= self.power(parameters);
            } else if self.take(b'x') || self.at_factor() {
                value *= self.power(parameters);
            } else {
                return value;
            }
        }
    }

    const fn at_factor(&mut self) -> bool {
        // An error ends the reading: a letter that is not a parameter would stay for ever.
        !self.is_wrong && matches!(self.next(), Some(b'(' | b'A'..=b'Z' | b's' | b'm'))
    }

    const fn power(&mut self, parameters: &Parameters) -> f64 {
        let base = self.factor(parameters);
        let mut value = base;
        if self.take(b'^') {
            let mut exponent = self.number();
            while exponent > 1.0 {
                value *= base;
                exponent -= 1.0;
            }
        }
        value
    }

    const fn factor(&mut self, parameters: &Parameters) -> f64 {
        match self.next() {
            Some(b'0'..=b'9') => return self.number(),
            Some(b'm') => {
                self.word(DISTANCE);
                return parameters.distance;
            }
            _ => {}
        }
        if self.take(b'N') {
            parameters.nodes
        } else if self.take(b'K') {
            parameters.quorum
        } else if self.take(b'D') {
            parameters.diameter
        } else if self.take(b'M') {
            parameters.up
        } else if self.take(b's') {
            parameters.below
        } else if self.take(b'H') {
            harmonic(self.parentheses(parameters))
        } else {
            self.parentheses(parameters)
        }
    }

    const fn parentheses(&mut self, parameters: &Parameters) -> f64 {
        self.is_wrong |= !self.take(b'(');
        if self.is_wrong {
            return 0.0;
        }
        let value = self.sum(parameters);
        self.is_wrong |= !self.take(b')');
        value
    }

    const fn number(&mut self) -> f64 {
        let mut value = 0.0;
        self.is_wrong |= !matches!(self.next(), Some(b'0'..=b'9'));
        while self.at < self.text.len() && self.text[self.at].is_ascii_digit() {
            value = value * 10.0 + (self.text[self.at] - b'0') as f64;
            self.at += 1;
        }
        value
    }

    const fn word(&mut self, word: &[u8]) {
        let mut index = 0;
        while index < word.len() {
            self.is_wrong |= self.at >= self.text.len() || self.text[self.at] != word[index];
            if self.is_wrong {
                return;
            }
            self.at += 1;
            index += 1;
        }
    }
}

/// 1 + 1/2 + ... + 1/k.
const fn harmonic(k: f64) -> f64 {
    let (mut sum, mut term) = (if k.is_nan() { k } else { 0.0 }, 1.0);
    while term <= k {
        sum += 1.0 / term;
        term += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_have_the_values_that_a_reader_expects() {
        let parameters = Parameters {
            quorum: 5.0,
            distance: 2.5,
            diameter: 6.0,
            up: 9.0,
            below: 3.0,
            ..Parameters::new(10.0)
        };
        for (text, value) in [
            ("7", 7.0),
            ("12N", 120.0),
            ("2(N-1)", 18.0),
            ("3(N-1)/N", 3.0 * 0.9),
            ("(N-1)/2 + (N-1)/N", 5.4),
            ("N/2", 5.0),
            ("N(N+3)/2", 65.0),
            ("N^2-N-1", 89.0),
            ("(N-1-s)^2 + N-2", 44.0),
            ("H(N-6)", 1.0 + 0.5 + 1.0 / 3.0 + 0.25),
            ("2 x mean distance", 5.0),
            ("mean distance + (N-1)/N", 3.4),
            ("6(K-1)", 24.0),
            ("2D", 12.0),
            ("3M-1-s", 23.0),
            ("2+4(N-1)", 38.0),
        ] {
            assert_eq!(Formula::new(text).value(&parameters), Some(value), "{text}");
        }
    }

    #[test]
    fn texts_that_are_not_formulas_are_refused() {
        let parameters = Parameters::new(2.0);
        for text in ["", "N+", "2(N-1", "N)", "T", "N N-", "mean", "H", "N^", "3 3", "-N", "é"] {
            assert_eq!(read(text, &parameters), None, "{text}");
        }
    }

    #[test]
    fn a_parameter_that_is_unknown_leaves_no_value() {
        assert_eq!(Formula::new("3(K-1)").value(&Parameters::new(9.0)), None);
    }
}

//! Patterns of lock names.
//!
//! Written by hand: names are any bytes, and published matchers treat `/`, brackets or UTF-8
//! specially.

use serde::{Deserialize, Serialize};

/// A pattern of names: `*` matches any bytes, `?` matches one byte.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The pattern's text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches the whole name.
    pub fn fits(&self, name: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        let (mut at, mut read) = (0, 0);
        // The last `*` and how much it has matched so far: on a mismatch it matches one more.
        let mut star = None;
        while read < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, read));
                    at += 1;
                }
                Some(&byte) if byte == b'?' || byte == name[read] => {
                    at += 1;
                    read += 1;
                }
                _ => {
                    let Some((index, taken)) = star else { return false };
                    star = Some((index, taken + 1));
                    at = index + 1;
                    read = taken + 1;
                }
            }
        }
        pattern[at..].iter().all(|&byte| byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_takes_as_much_as_the_rest_allows() {
        let fits = |pattern: &str, name: &str| Pattern::new(pattern).fits(name.as_bytes());
        assert!(fits("*", ""));
        assert!(fits("reports/*", "reports/2026"));
        assert!(!fits("reports/*", "report/2026"));
        assert!(fits("a*b*c", "a-b-b-c"));
        assert!(!fits("a*b", "a-b-c"));
        assert!(fits("?x", "ax") && !fits("?x", "x"));
    }
}

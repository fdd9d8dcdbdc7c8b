//! Numbers of requests, which wrap around so that they never run out.

/// Whether `number` comes after `than`, where numbers wrap around: they are never far apart.
pub(super) fn is_newer(number: u32, than: u32) -> bool {
    number != than && number.wrapping_sub(than) < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_after_the_last_is_newer_than_it() {
        for (number, than) in [(1, 0), (0, u32::MAX), (5, u32::MAX - 5)] {
            assert!(is_newer(number, than), "{number} {than}");
            assert!(!is_newer(than, number), "{number} {than}");
            assert!(!is_newer(number, number), "{number}");
        }
    }
}

//! The critical sections of all processes over time, as text.

use mutua_lab::plot::Hold;

const COLUMNS: usize = 72;

/// One line per process, with `#` between its read and its write, and a last line with `X` where
/// two overlap.
pub(super) fn draw(stays: &[Hold], processes: usize) -> String {
    let from = stays.iter().map(|stay| stay.from).min().unwrap_or(0);
    let to = stays.iter().map(|stay| stay.to).max().unwrap_or(1);
    let width = (to - from).max(1) as u128;
    let column = |time: u64| {
        usize::try_from(u128::from(time - from) * (COLUMNS as u128 - 1) / width).unwrap_or(0)
    };
    let mut lines = vec![vec![b'.'; COLUMNS]; processes];
    for stay in stays {
        lines[stay.row][column(stay.from)..=column(stay.to)].fill(b'#');
    }
    let mut text = String::new();
    for (process, line) in lines.iter().enumerate() {
        text += &format!("  teller {process:<2} {}\n", String::from_utf8_lossy(line));
    }
    // From the times themselves: neighbours share a column.
    let mut both = vec![b' '; COLUMNS];
    for (index, one) in stays.iter().enumerate() {
        for other in &stays[index + 1..] {
            if let Some((start, end)) = one.overlap(other) {
                both[column(start)..=column(end)].fill(b'X');
            }
        }
    }
    text + &format!("  {:<9} {}\n", "overlap", String::from_utf8_lossy(&both).trim_end())
}

#[cfg(test)]
mod tests {
    use super::{Hold, draw};

    #[test]
    fn overlapping_processes_are_marked_and_successive_ones_are_not() {
        let stay = |row, from, to| Hold { row, from, to };
        let apart = draw(&[stay(0, 0, 50), stay(1, 50, 100)], 2);
        assert!(!apart.contains('X'), "{apart}");
        let together = draw(&[stay(0, 0, 60), stay(1, 40, 100)], 2);
        assert!(together.contains('X'), "{together}");
        assert_eq!(together.lines().count(), 3);
    }
}

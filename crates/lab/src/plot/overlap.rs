//! Series that would cover each other: points are drawn side by side, lines in stripes of all their
//! colours.

/// A place in the picture.
pub(super) type Endpoint = (f64, f64);

/// Points at the same value of the axis that are nearer than this cover each other.
const HIDING: f64 = 5.0;
/// The distance at which points are drawn that would cover each other, if there is room.
const APART: f64 = 8.0;
/// Lines whose corners are nearer than this cover each other.
const TOUCHING: f64 = 2.0;
/// The length of a stripe.
const STRIPE: f64 = 7.0;

/// A part of a line, and its own stripes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Striped {
    pub(super) corners: Vec<Endpoint>,
    /// The lines that run here, by number.
    lines: Vec<usize>,
    line: usize,
}

impl Striped {
    /// The attribute that draws this line's stripes alone; none if no other line runs here.
    pub(super) fn dashes(&self) -> String {
        let count = self.lines.len();
        let place = self.lines.iter().position(|line| *line == self.line);
        let (1.., Some(place)) = (count.saturating_sub(1), place) else { return String::new() };
        let gap = STRIPE * (count - 1) as f64;
        // Counted from the picture's edge, so that stripes go on from one part to the next.
        let offset = (self.corners[0].0 - STRIPE * place as f64).rem_euclid(STRIPE + gap);
        format!(r#" stroke-dasharray="{STRIPE} {gap}" stroke-dashoffset="{offset:.1}""#)
    }
}

/// The points of every series, moved sideways where they would cover each other.
pub(super) fn side_by_side(series: &[Vec<Endpoint>]) -> Vec<Vec<Endpoint>> {
    let mut moved = series.to_vec();
    let columns = columns(series);
    let room = columns.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::MAX, f64::min);
    for column in columns {
        for heap in heaps(series, column) {
            let middle = (heap.len() - 1) as f64 / 2.0;
            let apart = (0.85 * room / heap.len() as f64).min(APART);
            for (number, (one, point)) in heap.into_iter().enumerate() {
                moved[one][point].0 += apart * (number as f64 - middle);
            }
        }
    }
    moved
}

/// The values of the axis with points.
fn columns(series: &[Vec<Endpoint>]) -> Vec<f64> {
    let mut columns: Vec<_> = series.iter().flatten().map(|place| place.0).collect();
    columns.sort_by(f64::total_cmp);
    columns.dedup_by(|a, b| (*a - *b).abs() < 0.5);
    columns
}

/// The points of one column that cover each other, each as its series and its number there.
fn heaps(series: &[Vec<Endpoint>], column: f64) -> Vec<Vec<(usize, usize)>> {
    let mut points = Vec::new();
    for (one, places) in series.iter().enumerate() {
        let here = places.iter().position(|place| (place.0 - column).abs() < 0.5);
        points.extend(here.map(|point| (places[point].1, one, point)));
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let heaps = points.chunk_by(|a, b| b.0 - a.0 < HIDING);
    let numbers = |heap: &[(f64, usize, usize)]| {
        let mut numbers: Vec<_> = heap.iter().map(|(_, one, point)| (*one, *point)).collect();
        // The same order in every column.
        numbers.sort_unstable();
        numbers
    };
    heaps.map(numbers).collect()
}

/// Every line in parts along which the same lines run.
pub(super) fn stripes(lines: &[Vec<Endpoint>]) -> Vec<Vec<Striped>> {
    let parts_of = |(line, corners): (usize, &Vec<Endpoint>)| {
        let mut parts: Vec<Striped> = Vec::new();
        for ends in corners.windows(2) {
            let here = running(lines, ends);
            match parts.last_mut() {
                Some(part) if part.lines == here => part.corners.push(ends[1]),
                Some(_) | None => {
                    parts.push(Striped { corners: ends.to_vec(), lines: here, line });
                }
            }
        }
        parts
    };
    lines.iter().enumerate().map(parts_of).collect()
}

/// The lines that run between these two ends.
fn running(lines: &[Vec<Endpoint>], ends: &[Endpoint]) -> Vec<usize> {
    let near = |a: &Endpoint, b: &Endpoint| (a.0 - b.0).hypot(a.1 - b.1) < TOUCHING;
    let same = |pair: &[Endpoint]| near(&pair[0], &ends[0]) && near(&pair[1], &ends[1]);
    let all = lines.iter().enumerate();
    all.filter(|(_, corners)| corners.windows(2).any(same)).map(|(line, _)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_each_other_are_drawn_side_by_side_and_others_stay() {
        let series = [
            vec![(0.0, 10.0), (100.0, 10.0)],
            vec![(0.0, 10.0), (100.0, 50.0)],
            vec![(0.0, 12.0), (100.0, 90.0)],
        ];
        let moved = side_by_side(&series);
        let first: Vec<_> = moved.iter().map(|places| places[0]).collect();
        assert_eq!(first, [(-8.0, 10.0), (0.0, 10.0), (8.0, 12.0)]);
        assert!(moved.iter().zip(&series).all(|(now, before)| now[1] == before[1]));
    }

    #[test]
    fn lines_share_stripes_only_where_they_run_together() {
        let lines = [
            vec![(0.0, 0.0), (70.0, 0.0), (140.0, 0.0)],
            vec![(0.0, 0.5), (70.0, 0.0), (140.0, 80.0)],
        ];
        let parts = stripes(&lines);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        assert_ne!(parts[0][0].dashes(), parts[1][0].dashes());
        assert!(parts[0][0].dashes().contains("dasharray=\"7 7\""));
        assert!(parts[0][1].dashes().is_empty() && parts[1][1].dashes().is_empty());
    }
}

//! Who was inside when, as an SVG picture.

use std::fmt::Write;

use super::{Run, teller::Stay};

const WIDTH: f64 = 760.0;
const LEFT: f64 = 80.0;
const ROW: f64 = 26.0;
const HEAD: f64 = 34.0;
const FOOT: f64 = 46.0;

/// Both runs, one below the other. Red is where two were between reading and writing at once.
pub(super) fn draw(runs: &[Run], processes: usize) -> String {
    let panel = HEAD + ROW * processes as f64 + FOOT;
    let height = panel * runs.len() as f64;
    let full = LEFT + WIDTH + 20.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {full} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{full}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (index, run) in runs.iter().enumerate() {
        let top = panel * index as f64;
        let _ = writeln!(
            out,
            "<text x=\"8\" y=\"{}\" font-weight=\"bold\">{}: paid in {}, the account has {}, lost \
             {}</text>",
            top + 22.0,
            if run.locked { "with the lock" } else { "without the lock" },
            run.expected,
            run.balance,
            run.lost()
        );
        rows(&mut out, run, processes, top + HEAD);
    }
    out + "</svg>\n"
}

fn rows(out: &mut String, run: &Run, processes: usize, top: f64) {
    let from = run.stays.iter().map(|stay| stay.from).min().unwrap_or(0);
    let to = run.stays.iter().map(|stay| stay.to).max().unwrap_or(1).max(from + 1);
    let x = |time: u64| LEFT + WIDTH * (time - from) as f64 / (to - from) as f64;
    let y = |process: usize| top + ROW * process as f64;
    for process in 0..processes {
        let (text, line) = (y(process) + 15.0, y(process) + 11.0);
        let _ = writeln!(out, "<text x=\"8\" y=\"{text}\">teller {process}</text>");
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {line}h{WIDTH}\" stroke=\"#ccc\" stroke-width=\"1\"/>"
        );
    }
    let mut bar = |stay: &Stay, from: u64, to: u64, colour: &str| {
        let (x, y, width) = (x(from), y(stay.process), (x(to) - x(from)).max(0.5));
        let _ = writeln!(
            out,
            "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"20\" fill=\"{colour}\"/>"
        );
    };
    for stay in &run.stays {
        bar(stay, stay.from, stay.to, "#3a76b0");
    }
    for (index, one) in run.stays.iter().enumerate() {
        for other in &run.stays[index + 1..] {
            let (start, end) = (one.from.max(other.from), one.to.min(other.to));
            if start < end {
                bar(one, start, end, "#d0392b");
                bar(other, start, end, "#d0392b");
            }
        }
    }
    let below = y(processes) + 18.0;
    let millis = (to - from) as f64 / 1e6;
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{below}\" fill=\"#555\">0 ms</text>\
         <text x=\"{}\" y=\"{below}\" fill=\"#555\" text-anchor=\"end\">{millis:.0} ms</text>\
         <text x=\"{}\" y=\"{below}\" fill=\"#555\" text-anchor=\"middle\">from reading to having \
         written; red: another one too</text>",
        LEFT + WIDTH,
        LEFT + WIDTH / 2.0
    );
}

#[cfg(test)]
mod tests {
    use super::{Run, Stay, draw};

    #[test]
    fn only_what_overlaps_is_red() {
        let stay = |process, from, to| Stay { process, from, to };
        let run = |stays| Run { locked: false, stays, expected: 200, balance: 100 };
        let apart = draw(&[run(vec![stay(0, 0, 50), stay(1, 50, 100)])], 2);
        assert!(!apart.contains("#d0392b"), "{apart}");
        let together = draw(&[run(vec![stay(0, 0, 60), stay(1, 40, 100)])], 2);
        assert_eq!(together.matches("#d0392b").count(), 2, "{together}");
        assert!(together.contains("lost 100"));
    }
}

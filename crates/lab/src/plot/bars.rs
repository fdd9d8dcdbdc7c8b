//! Bars on a logarithmic scale, one below the other.

use crate::svg::{Picture, escape};

const WIDTH: f64 = 880.0;
const LEFT: f64 = 272.0;
const RIGHT: f64 = 80.0;
const TOP: f64 = 56.0;
const STEP: f64 = 22.0;

/// Values that differ by orders of magnitude, a bar each.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Their title.
    pub title: String,
    /// The bars, from the top; a value that is not positive is left out.
    pub bars: Vec<Bar>,
    /// Formats a value.
    pub number: fn(f64) -> String,
}

/// One value.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its name, at the left.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its color.
    pub color: &'static str,
}

/// The decades that a scale shows, and where a value is on it.
struct Decades {
    from: f64,
    to: f64,
}

impl Decades {
    fn of(bars: &[&Bar]) -> Self {
        let least = bars.iter().map(|bar| bar.value).fold(f64::INFINITY, f64::min);
        let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        // A whole decade below the least, so that its bar can be seen.
        let from = least.log10().floor() - if least.log10().fract() < 0.1 { 1.0 } else { 0.0 };
        Self { from, to: most.log10().ceil().max(from + 1.0) }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (value.log10() - self.from) / (self.to - self.from) * (WIDTH - LEFT - RIGHT)
    }
}

impl Bars {
    /// The bars as one SVG element.
    pub fn svg(&self) -> String {
        let is_shown = |bar: &&Bar| bar.value > 0.0 && bar.value.is_finite();
        let bars: Vec<_> = self.bars.iter().filter(is_shown).collect();
        let height = TOP + STEP * bars.len() as f64 + 16.0;
        let mut svg = Picture::new(WIDTH, height, 13, &self.title);
        svg.put(format_args!(
            "<text x=\"8\" y=\"20\" font-weight=\"600\" fill=\"#1c2430\">{}</text>",
            escape(&self.title)
        ));
        if !bars.is_empty() {
            let scale = Decades::of(&bars);
            self.decades(&mut svg, &scale, height);
            for (place, bar) in bars.into_iter().enumerate() {
                self.bar(&mut svg, bar, TOP + STEP * place as f64, scale.x(bar.value));
            }
        }
        svg.finish()
    }

    fn decades(&self, svg: &mut Picture, scale: &Decades, height: f64) {
        let mut decade = scale.from;
        while decade <= scale.to {
            let value = 10_f64.powf(decade);
            let (at, label) = (scale.x(value), (self.number)(value));
            svg.put(format_args!(
                "<line x1=\"{at:.1}\" y1=\"{:.1}\" x2=\"{at:.1}\" y2=\"{:.1}\" \
                 stroke=\"#d5dae1\"/>\n<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                 fill=\"#5b6675\" font-size=\"11\">{label}</text>",
                TOP - 6.0,
                height - 10.0,
                TOP - 12.0
            ));
            decade += 1.0;
        }
    }

    fn bar(&self, svg: &mut Picture, bar: &Bar, y: f64, end: f64) {
        let (middle, width, color) = (y + 13.0, (end - LEFT).max(1.0), bar.color);
        svg.put(format_args!(
            "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\" fill=\"#1c2430\">{}</text>\n\
             <rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"15\" fill=\"{color}\"/>\n\
             <text x=\"{:.1}\" y=\"{middle:.1}\" fill=\"#1c2430\">{}</text>",
            LEFT - 8.0,
            escape(&bar.name),
            y + 1.0,
            end + 6.0,
            (self.number)(bar.value)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::number;

    #[test]
    fn a_bar_ends_at_its_value_and_nothing_has_none() {
        let bar = |value| Bar { name: "a < b".to_owned(), value, color: "#000" };
        let bars = vec![bar(10.0), bar(1000.0), bar(0.0)];
        let svg = Bars { title: "t".to_owned(), bars, number }.svg();
        assert_eq!(svg.matches("height=\"15\"").count(), 2, "{svg}");
        // Three decades from 1 to 1000: the whole width and a third of it.
        assert!(svg.contains("width=\"528.0\"") && svg.contains("width=\"176.0\""), "{svg}");
        assert!(svg.contains("a &lt; b"));
        assert!(!Bars { title: "t".to_owned(), bars: Vec::new(), number }.svg().contains("NaN"));
    }
}

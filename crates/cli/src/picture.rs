//! The files of diagrams: SVG, PNG, PDF, or a page with a slider.

mod pdf;
mod raster;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use mutua_lab::diagram::{self, Drawing};
use mutua_trace::{Event, Header, Unit};

use crate::{durations, exit::usage, names, output};

/// The options of diagrams.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PictureArguments {
    /// Draw a space-time diagram to this file: SVG, PNG, PDF, or HTML with a slider for the steps,
    /// by the ending of its name.
    #[arg(long, value_name = "FILE")]
    pub(crate) diagram: Option<PathBuf>,

    /// Draw only these steps, as in 5..12; of a simulation these times, as in 10ms..25ms, counted
    /// from the start of the run.
    #[arg(long, value_name = "FROM..TO", requires = "diagram", value_parser = steps)]
    pub(crate) steps: Option<Steps>,

    /// Continue a diagram that is wider than this in a row below; 400 to 100000 [default: 1900].
    #[arg(long, value_name = "PIXELS", requires = "diagram", value_parser = width)]
    pub(crate) width: Option<f64>,

    /// Size of the diagram: 2 is twice as large as usual, also in pixels of a PNG; 0.1 to 20
    /// [default: 1].
    #[arg(long, value_name = "FACTOR", requires = "diagram", value_parser = scale)]
    pub(crate) scale: Option<f64>,

    /// Draw time to scale, instead of steps as wide as their labels.
    #[arg(long, requires = "diagram")]
    pub(crate) linear: bool,

    /// Write new values of these variables beside the events that change them, as in queue,holder.
    #[arg(long, value_name = "NAMES", requires = "diagram", value_delimiter = ',')]
    pub(crate) variables: Vec<String>,
}

/// The steps or times to draw.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Steps {
    first: u64,
    last: u64,
    /// Whether they are times, in nanoseconds.
    are_times: bool,
}

/// The formats of a diagram.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Format {
    Svg,
    Png,
    Pdf,
    Html,
}

impl Format {
    fn of(file: &Path) -> Result<Self> {
        let Some(ending) = file.extension() else { return Ok(Self::Svg) };
        let ending = ending.to_string_lossy().to_lowercase();
        Ok(match ending.as_str() {
            "svg" => Self::Svg,
            "png" => Self::Png,
            "pdf" => Self::Pdf,
            "html" | "htm" => Self::Html,
            _ => return Err(unknown_format(file, ".svg, .png, .pdf or .html")),
        })
    }

    /// The format of a picture without steps.
    fn of_svg(file: &Path) -> Result<Self> {
        match Self::of(file) {
            Ok(Self::Html) | Err(_) => Err(unknown_format(file, ".svg, .png or .pdf")),
            format => format,
        }
    }
}

impl PictureArguments {
    /// Refuses what cannot be drawn of a trace in this unit, before the trace is made.
    pub(crate) fn check(&self, unit: Unit) -> Result<()> {
        if let Some(file) = &self.diagram {
            Format::of(file)?;
        }
        match (self.steps, unit) {
            (Some(Steps { are_times: true, .. }), Unit::Step) => {
                Err(usage("invalid --steps: a script has no times; give steps, as in 5..12"))
            }
            (Some(Steps { are_times: false, .. }), Unit::Nanoseconds) => Err(usage(
                "invalid --steps: a simulation has times instead; give them with a unit, as in \
                 10ms..25ms",
            )),
            _ => Ok(()),
        }
    }

    /// The times of a simulation that are asked for, in nanoseconds: the first and the last.
    pub(crate) fn times(&self) -> Option<(u64, u64)> {
        self.steps.map(|steps| (steps.first, steps.last))
    }

    /// Draws a whole trace to the file, if there is one. `drawing` has what the options do not
    /// give.
    pub(crate) fn write(&self, header: &Header, events: &[Event], drawing: Drawing) -> Result<()> {
        let mut times = events.iter().filter(|&event| diagram::is_drawn(event)).map(|it| it.at);
        let first = times.next();
        let range = first.map(|first| (first, times.next_back().unwrap_or(first)));
        self.write_part(header, events, range, drawing)
    }

    /// Draws a part of a run whose events are in this range of times.
    pub(crate) fn write_part(
        &self,
        header: &Header,
        events: &[Event],
        range: Option<(u64, u64)>,
        drawing: Drawing,
    ) -> Result<()> {
        let Some(file) = &self.diagram else { return Ok(()) };
        self.check(header.unit)?;
        self.check_variables(events)?;
        let drawing = self.drawing(header, drawing);
        check_steps(header.unit, events, range, &drawing)?;
        write(file, header, events, &drawing)
    }

    /// Refuses variables that no process has.
    fn check_variables(&self, events: &[Event]) -> Result<()> {
        let mut known: Vec<&str> = Vec::new();
        for (name, _) in events.iter().flat_map(|event| event.state.iter()) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
        match self.variables.iter().find(|name| !known.contains(&name.as_str())) {
            Some(unknown) => Err(names::unknown("variable", unknown, known)),
            None => Ok(()),
        }
    }

    fn drawing(&self, header: &Header, drawing: Drawing) -> Drawing {
        let unit = nanoseconds(header.unit);
        let steps = self.steps.map(|steps| {
            let unit = if steps.are_times { unit } else { 1 };
            (steps.first / unit, steps.last / unit)
        });
        Drawing {
            steps: steps.or(drawing.steps),
            linear: self.linear,
            width: self.width.unwrap_or(drawing.width),
            scale: self.scale.unwrap_or(drawing.scale),
            variables: self.variables.clone(),
            ..drawing
        }
    }
}

/// The nanoseconds of a unit; a step counts as one.
fn nanoseconds(unit: Unit) -> u64 {
    match unit {
        Unit::Step | Unit::Nanoseconds => 1,
        Unit::Microseconds => 1_000,
        Unit::Milliseconds => 1_000_000,
    }
}

/// Refuses steps at which nothing happens: the picture would be empty.
fn check_steps(
    unit: Unit,
    events: &[Event],
    range: Option<(u64, u64)>,
    drawing: &Drawing,
) -> Result<()> {
    let Some((first, last)) = drawing.steps else { return Ok(()) };
    let is_here = |event: &&Event| (first..=last).contains(&event.at) && diagram::is_drawn(event);
    if events.iter().any(|event| is_here(&event)) {
        return Ok(());
    }
    let Some((begin, end)) = range else {
        return Err(usage("invalid --steps: the run has no events"));
    };
    Err(usage(match unit {
        Unit::Step => format!(
            "invalid --steps: no event at {first}..{last}: the steps of this trace are \
             {begin}..{end}"
        ),
        Unit::Nanoseconds | Unit::Microseconds | Unit::Milliseconds => {
            let show = |at: u64| durations::show((at * nanoseconds(unit)) as f64);
            format!(
                "invalid --steps: no event from {} to {}: the first event of this run is at {}, \
                 the last at {}",
                show(first),
                show(last),
                show(begin),
                show(end)
            )
        }
    }))
}

/// Draws a trace to a file in the format that its name ends in.
pub(crate) fn write(
    file: &Path,
    header: &Header,
    events: &[Event],
    drawing: &Drawing,
) -> Result<()> {
    let content = match Format::of(file)? {
        Format::Svg => diagram::draw(header, events, drawing).into_bytes(),
        Format::Html => diagram::html(header, events, drawing).into_bytes(),
        Format::Png => raster::png(&printed(&diagram::draw(header, events, drawing)))?,
        Format::Pdf => pdf::pdf(&raster::tree(&printed(&diagram::draw(header, events, drawing)))?),
    };
    output::write(file, &content)
}

/// A diagram for a format in which nothing appears below the pointer.
fn printed(svg: &str) -> String {
    svg.replace(diagram::HOVER, "")
}

fn unknown_format(file: &Path, formats: &str) -> anyhow::Error {
    usage(format!("cannot draw `{}`: use a name that ends in {formats}", file.display()))
}

/// Refuses a file that a picture without steps cannot be written to, by its name and directory.
pub(crate) fn check_svg(file: &Path) -> Result<()> {
    Format::of_svg(file)?;
    output::check(file)
}

/// Draws an SVG picture to a file: as it is, as PNG or as PDF.
pub(crate) fn write_svg(file: &Path, svg: &str) -> Result<()> {
    let content = match Format::of_svg(file)? {
        Format::Png => raster::png(svg)?,
        Format::Pdf => pdf::pdf(&raster::tree(svg)?),
        Format::Svg | Format::Html => svg.as_bytes().to_vec(),
    };
    output::write(file, &content)
}

fn steps(text: &str) -> Result<Steps, String> {
    let wrong = || "give the first and the last, as in 5..12 or 10ms..25ms".to_owned();
    let (first, last) = text.split_once("..").ok_or_else(wrong)?;
    let steps = match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) => Steps { first, last, are_times: false },
        _ => {
            let time = |text: &str| durations::nanoseconds(text).map_err(|_| wrong());
            Steps { first: time(first)?, last: time(last)?, are_times: true }
        }
    };
    if steps.first > steps.last {
        return Err(format!("{text} ends before it begins"));
    }
    Ok(steps)
}

fn width(text: &str) -> Result<f64, String> {
    let within = |width: &f64| (400.0..=100_000.0).contains(width);
    text.trim().parse().ok().filter(within).ok_or_else(|| "give 400 to 100000".to_owned())
}

fn scale(text: &str) -> Result<f64, String> {
    let within = |scale: &f64| (0.1..=20.0).contains(scale);
    text.trim().parse().ok().filter(within).ok_or_else(|| "give 0.1 to 20".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagram_has_the_format_of_its_name() {
        for (name, format) in [
            ("x.svg", Format::Svg),
            ("X.PNG", Format::Png),
            ("a.b/x.pdf", Format::Pdf),
            ("x.html", Format::Html),
            ("picture", Format::Svg),
        ] {
            assert_eq!(Format::of(Path::new(name)).unwrap(), format, "{name}");
        }
        let refusal = Format::of(Path::new("x.gif")).unwrap_err().to_string();
        assert!(refusal.contains(".svg, .png, .pdf or .html"), "{refusal}");
    }

    #[test]
    fn steps_are_numbers_or_times() {
        assert_eq!(steps("5..12"), Ok(Steps { first: 5, last: 12, are_times: false }));
        let times = Steps { first: 1_000_000, last: 2_500_000, are_times: true };
        assert_eq!(steps("1ms..2.5ms"), Ok(times));
        for wrong in ["5", "12..5", "a..b", "1ms.."] {
            assert!(steps(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn steps_of_a_script_are_not_times() {
        let of = |text| PictureArguments { steps: steps(text).ok(), ..Default::default() };
        assert!(of("1..2").check(Unit::Step).is_ok() && of("1ms..2ms").check(Unit::Step).is_err());
        let simulated = Unit::Nanoseconds;
        assert!(of("1..2").check(simulated).is_err() && of("1ms..2ms").check(simulated).is_ok());
    }
}

//! Pictures as PDF, one page, with text as outlines.
//!
//! Written by hand: the crates that convert SVG to PDF read fonts by an unmaintained parser, and
//! pictures here consist of paths in plain colours only, once text is laid out.

use std::fmt::Write;

use resvg::{
    tiny_skia::{Path, PathSegment, Point},
    usvg::{FillRule, Group, LineCap, LineJoin, Node, Paint, Stroke, Transform, Tree},
};

/// Points of a page for a pixel: 96 pixels and 72 points are an inch.
const POINTS: f32 = 0.75;

/// The picture as a document of one page of its size.
pub(super) fn pdf(tree: &Tree) -> Vec<u8> {
    let (width, height) = (tree.size().width() * POINTS, tree.size().height() * POINTS);
    let mut content = String::new();
    // The page's y axis goes up.
    put(&mut content, format_args!("{POINTS} 0 0 -{POINTS} 0 {height:.3} cm"));
    group(&mut content, tree.root());
    document(width, height, &content)
}

/// Writing to a string cannot fail.
fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{line}");
}

fn group(out: &mut String, of: &Group) {
    for node in of.children() {
        match node {
            Node::Group(inner) => group(out, inner),
            Node::Text(text) => group(out, text.flattened()),
            Node::Path(path) if path.is_visible() => {
                let outline = outline(path.data(), path.abs_transform());
                let fill = path.fill().and_then(|fill| Some((colour(fill.paint())?, fill.rule())));
                if let Some((colour, rule)) = fill {
                    let star = if rule == FillRule::EvenOdd { "*" } else { "" };
                    put(out, format_args!("{colour} rg\n{outline}f{star}"));
                }
                if let Some(stroke) = path.stroke() {
                    draw_stroke(out, stroke, &outline, path.abs_transform());
                }
            }
            // Our pictures have no images.
            Node::Path(_) | Node::Image(_) => {}
        }
    }
}

fn draw_stroke(out: &mut String, stroke: &Stroke, outline: &str, transform: Transform) {
    let Some(colour) = colour(stroke.paint()) else { return };
    let (x, y) = transform.get_scale();
    let scale = (x * y).abs().sqrt();
    let cap = match stroke.linecap() {
        LineCap::Butt => 0,
        LineCap::Round => 1,
        LineCap::Square => 2,
    };
    let join = match stroke.linejoin() {
        LineJoin::Miter | LineJoin::MiterClip => 0,
        LineJoin::Round => 1,
        LineJoin::Bevel => 2,
    };
    let lengths = stroke.dasharray().unwrap_or(&[]).iter();
    let dashes: Vec<_> = lengths.map(|length| format!("{:.3}", length * scale)).collect();
    let width = stroke.width().get() * scale;
    put(
        out,
        format_args!(
            "{colour} RG {width:.3} w {cap} J {join} j [{}] 0 d\n{outline}S",
            dashes.join(" ")
        ),
    );
}

/// A plain colour as three numbers.
fn colour(paint: &Paint) -> Option<String> {
    let Paint::Color(colour) = paint else { return None };
    let part = |value: u8| f32::from(value) / 255.0;
    Some(format!("{:.3} {:.3} {:.3}", part(colour.red), part(colour.green), part(colour.blue)))
}

/// A path in units of the page. PDF has cubic curves only.
fn outline(path: &Path, transform: Transform) -> String {
    let mut out = String::new();
    let at = |mut point: Point| {
        transform.map_point(&mut point);
        point
    };
    let mut last = Point::zero();
    for segment in path.segments() {
        match segment {
            PathSegment::MoveTo(to) => {
                last = at(to);
                put(&mut out, format_args!("{:.2} {:.2} m", last.x, last.y));
            }
            PathSegment::LineTo(to) => {
                last = at(to);
                put(&mut out, format_args!("{:.2} {:.2} l", last.x, last.y));
            }
            PathSegment::QuadTo(over, to) => {
                let (over, to) = (at(over), at(to));
                let third = |end: Point| {
                    (end.x + 2.0 / 3.0 * (over.x - end.x), end.y + 2.0 / 3.0 * (over.y - end.y))
                };
                let ((a, b), (c, d)) = (third(last), third(to));
                let Point { x, y } = to;
                put(&mut out, format_args!("{a:.2} {b:.2} {c:.2} {d:.2} {x:.2} {y:.2} c"));
                last = to;
            }
            PathSegment::CubicTo(one, two, to) => {
                let (one, two, to) = (at(one), at(two), at(to));
                put(
                    &mut out,
                    format_args!(
                        "{:.2} {:.2} {:.2} {:.2} {:.2} {:.2} c",
                        one.x, one.y, two.x, two.y, to.x, to.y
                    ),
                );
                last = to;
            }
            PathSegment::Close => out.push_str("h\n"),
        }
    }
    out
}

/// The file: four objects, and the table that tells where each begins.
fn document(width: f32, height: f32, content: &str) -> Vec<u8> {
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:.3} {height:.3}] /Resources << >> \
             /Contents 4 0 R >>"
        ),
        format!("<< /Length {} >>\nstream\n{content}endstream", content.len()),
    ];
    let mut file = String::from("%PDF-1.4\n");
    let mut begins = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        begins.push(file.len());
        put(&mut file, format_args!("{} 0 obj\n{object}\nendobj", index + 1));
    }
    let table = file.len();
    put(&mut file, format_args!("xref\n0 {}\n0000000000 65535 f ", objects.len() + 1));
    for begin in begins {
        put(&mut file, format_args!("{begin:010} 00000 n "));
    }
    put(
        &mut file,
        format_args!(
            "trailer << /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF",
            objects.len() + 1
        ),
    );
    file.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::raster;

    #[test]
    fn a_page_has_the_paths_of_the_picture_and_a_right_table() {
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"96\" height=\"48\">\
                   <path d=\"M0 0Q10 10 20 0\" fill=\"none\" stroke=\"#ff0000\" \
                   stroke-dasharray=\"5 4\"/><text x=\"2\" y=\"15\" \
                   font-family=\"sans-serif\">Mm</text></svg>";
        let file = String::from_utf8(pdf(&raster::tree(svg).unwrap())).unwrap();
        assert!(file.contains("/MediaBox [0 0 72.000 36.000]"), "{file}");
        assert!(file.contains("1.000 0.000 0.000 RG 1.000 w 0 J 0 j [5.000 4.000] 0 d"), "{file}");
        // Two letters, filled.
        assert!(file.contains("0.000 0.000 0.000 rg"), "{file}");
        let begins = file.lines().filter(|line| line.ends_with(" n "));
        for (index, line) in begins.enumerate() {
            let begin: usize = line[..10].parse().unwrap();
            assert!(file[begin..].starts_with(&format!("{} 0 obj", index + 1)), "{line}");
        }
    }
}

//! The SVG writer of all pictures here. Written by hand: a picture has a dozen kinds of elements,
//! its text is compared byte for byte, and a crate for SVG would only wrap `format!`.

use std::fmt::{Display, Write};

/// A picture that is being written, an element a line.
#[derive(Debug)]
pub(crate) struct Picture(String);

impl Picture {
    /// An empty picture on white; `title` is for screen readers.
    pub(crate) fn new(width: f64, height: f64, font_size: u32, title: &str) -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"{font_size}\">\
             <title>{}</title><rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>",
            escape(title)
        ))
    }

    /// Adds elements and ends the line.
    pub(crate) fn put(&mut self, elements: impl Display) {
        put(&mut self.0, elements);
    }

    /// The picture as one SVG element.
    pub(crate) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }
}

/// Adds text and ends the line.
pub(crate) fn put(text: &mut String, more: impl Display) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{more}");
}

/// Text for HTML and SVG.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML knows no other control characters.
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

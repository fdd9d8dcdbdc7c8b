//! Pictures as PNG. Text needs fonts of the system; SVG and HTML need none.

use anyhow::{Context, Result, anyhow};
use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};

use crate::exit::usage;

/// Fonts that look as intended, the best first.
const FONTS: [&str; 6] =
    ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans", "Noto Sans", "FreeSans"];

/// The most pixels of a picture: 1 GiB of memory.
const MOST_PIXELS: f64 = 268_435_456.0;

/// Reads an SVG picture, with its text laid out.
pub(super) fn tree(svg: &str) -> Result<Tree> {
    let mut options = Options::default();
    let fonts = options.fontdb_mut();
    fonts.load_system_fonts();
    let family = family(fonts)?;
    fonts.set_sans_serif_family(&family);
    options.font_family = family;
    Tree::from_str(svg, &options).context("cannot read the picture")
}

/// The family for all text.
fn family(fonts: &Database) -> Result<String> {
    let families = || fonts.faces().flat_map(|face| face.families.iter().map(|(name, _)| name));
    let known = FONTS.iter().find(|known| families().any(|name| name == *known));
    let family = known.map(|known| (*known).to_owned()).or_else(|| families().next().cloned());
    family.ok_or_else(|| {
        anyhow!(
            "no font found, so PNG and PDF have no text: install one, such as Debian's \
             fonts-dejavu-core, or draw SVG"
        )
    })
}

/// The picture as PNG, a pixel for a unit.
pub(super) fn png(svg: &str) -> Result<Vec<u8>> {
    let tree = tree(svg)?;
    let (width, height) = (tree.size().width().ceil(), tree.size().height().ceil());
    let too_large = || {
        usage(format!(
            "{width} x {height} pixels are too many for a PNG: use a smaller --scale, or SVG"
        ))
    };
    if f64::from(width) * f64::from(height) > MOST_PIXELS {
        return Err(too_large());
    }
    let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?;
    resvg::render(&tree, Transform::default(), &mut pixels.as_mut());
    pixels.encode_png().context("cannot write PNG")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"20\">\
                       <rect width=\"40\" height=\"20\" fill=\"#ffffff\"/>\
                       <text x=\"2\" y=\"15\" font-family=\"sans-serif\">A</text></svg>";

    #[test]
    fn a_png_has_the_size_of_the_picture_and_text_in_it() {
        let png = png(SVG).unwrap();
        let pixels = Pixmap::decode_png(&png).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (40, 20));
        assert!(pixels.pixels().iter().any(|pixel| pixel.red() < 100), "the letter is drawn");
    }

    #[test]
    fn a_giant_picture_is_refused() {
        let giant = SVG.replace("width=\"40\" height=\"20\">", "width=\"90000\" height=\"90000\">");
        let refusal = png(&giant).unwrap_err().to_string();
        assert!(refusal.contains("too many for a PNG"), "{refusal}");
    }
}

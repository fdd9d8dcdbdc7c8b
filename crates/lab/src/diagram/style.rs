//! The look of elements, as attributes. There is no style sheet: programs other than browsers
//! (Inkscape, LibreOffice, CairoSVG) ignore much of CSS, and labels would be lost there.

/// The fonts of all text, the first that a system has.
pub(super) const FONTS: &str = "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif";

/// The colour of a kind of messages, and the pattern of its lines.
#[derive(Debug)]
pub(super) struct Ink {
    pub(super) line: &'static str,
    /// A darker one for text, which is thinner.
    pub(super) text: &'static str,
    pub(super) dash: &'static str,
}

/// Colours that people with any kind of colour vision tell apart (after Okabe and Ito, and Tol).
/// In grey two of them differ in lightness or by their patterns; a test compares them. A run with a
/// repair has up to eleven kinds, those of the algorithm and of the election.
const INKS: [Ink; 14] = [
    Ink { line: "#004488", text: "#003366", dash: "" },
    Ink { line: "#d98200", text: "#8a5200", dash: "" },
    Ink { line: "#aa4499", text: "#7a2e6e", dash: "" },
    Ink { line: "#44aa99", text: "#00705a", dash: "9 3" },
    Ink { line: "#6e4a00", text: "#5a3c00", dash: "9 3" },
    Ink { line: "#0072b2", text: "#1f5f93", dash: "9 3 2 3" },
    Ink { line: "#56b4e9", text: "#1f6fa3", dash: "9 3 2 3" },
    Ink { line: "#d98200", text: "#8a5200", dash: "9 3 2 3 2 3" },
    Ink { line: "#aa4499", text: "#7a2e6e", dash: "9 3 2 3 2 3" },
    Ink { line: "#004488", text: "#003366", dash: "9 3 2 3 2 3" },
    Ink { line: "#6e4a00", text: "#5a3c00", dash: "18 4" },
    Ink { line: "#44aa99", text: "#00705a", dash: "18 4" },
    Ink { line: "#56b4e9", text: "#1f6fa3", dash: "18 3 6 3" },
    Ink { line: "#0072b2", text: "#1f5f93", dash: "18 3 6 3" },
];

/// Messages of the application belong to no kind.
pub(super) const APP: Ink = Ink { line: "#7a8699", text: "#5b6472", dash: "2 3" };

/// Lost messages, violations and deadlocks.
pub(super) const RED: &str = "#c0392b";

/// The colour of the kind of this number, in the order of first messages.
pub(super) fn ink(kind: usize) -> &'static Ink {
    &INKS[kind % INKS.len()]
}

/// The attributes of an element of this class, with the class itself.
pub(super) fn look(class: &str) -> String {
    format!("class=\"{class}\" {}", attributes(class))
}

fn attributes(class: &str) -> &'static str {
    match class {
        "ground" => "fill=\"#ffffff\"",
        "title" => "fill=\"#1f2430\" font-weight=\"bold\"",
        "small" => "fill=\"#5b6472\"",
        "time" => "fill=\"#6b7482\" font-size=\"10\" text-anchor=\"middle\"",
        "tick" => "fill=\"none\" stroke=\"#e4e7ec\"",
        "axis" => "fill=\"none\" stroke=\"#b9c0ca\"",
        "name" => "fill=\"#1f2430\" font-size=\"14\" font-weight=\"bold\" text-anchor=\"end\"",
        "process" => "fill=\"none\" stroke=\"#5b6472\" stroke-width=\"1.4\"",
        "waiting" => "fill=\"#f3c567\"",
        "stuck" => "fill=\"#d98880\" stroke=\"#c0392b\"",
        "in-cs" => "fill=\"#2e8b57\" rx=\"3\"",
        "clash" => "fill=\"#c0392b\" rx=\"3\"",
        "token" => "fill=\"#ffd92f\" stroke=\"#7a5c00\" stroke-width=\"1\"",
        "box" => "fill=\"#ffffff\" stroke=\"#b9c0ca\"",
        "member" => "fill=\"#9ecae1\" stroke=\"#0072b2\"",
        "boxed" => "fill=\"#1f2430\" text-anchor=\"middle\"",
        "down" => "fill=\"#ffffff\"",
        "gone" => "fill=\"none\" stroke=\"#b9c0ca\" stroke-width=\"1.4\" stroke-dasharray=\"2 5\"",
        "fence" => "fill=\"#ffffff\" font-size=\"10\" text-anchor=\"middle\"",
        "event" => "fill=\"#1f2430\"",
        "request" => "fill=\"#ffffff\" stroke=\"#b7791f\" stroke-width=\"2.2\"",
        "mark" => "fill=\"#8a5a12\" font-weight=\"bold\"",
        "cross" => "fill=\"none\" stroke=\"#c0392b\" stroke-width=\"2.4\"",
        "crossed" => "fill=\"none\" stroke=\"#ffffff\" stroke-width=\"4.6\"",
        "violation" => "stroke=\"#c0392b\" stroke-width=\"1.5\" stroke-dasharray=\"3 3\"",
        "violated" => "fill=\"#c0392b\" font-weight=\"bold\" text-anchor=\"middle\"",
        "deadlock" => "fill=\"#c0392b\" font-weight=\"bold\" font-size=\"13\"",
        _ => "",
    }
}

/// The attributes of the white edge behind a text, so that it can be read across lines. It is a
/// text of its own: few programs know the order in which one text's edge and filling are painted.
pub(super) const EDGE: &str = "fill=\"#ffffff\" stroke=\"#ffffff\" stroke-width=\"3.5\" \
                               stroke-linejoin=\"round\"";

#[cfg(test)]
mod tests {
    use super::*;

    /// The lightness of a colour in percent (CIE 1976).
    fn lightness(colour: &str) -> f64 {
        let part = |at: usize| {
            let value = u8::from_str_radix(&colour[at..at + 2], 16).expect("a colour");
            let share = f64::from(value) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        let light = 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
        116.0 * light.cbrt() - 16.0
    }

    #[test]
    fn kinds_of_messages_differ_in_grey_too() {
        for (index, one) in INKS.iter().enumerate() {
            for other in &INKS[..index] {
                let lighter = (lightness(one.line) - lightness(other.line)).abs();
                assert!(lighter > 12.0 || one.dash != other.dash, "{one:?} {other:?}");
            }
            assert!(lightness(one.text) < 46.0, "{one:?} is too light for text on white");
        }
    }
}

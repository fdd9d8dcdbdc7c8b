//! The files of the page, compiled in. What is in `web/` is what runs: nothing is built, and only
//! comments are not served. The crate has a link to that directory, so that a packaged crate
//! contains the files.

use std::{borrow::Cow, sync::LazyLock};

/// A file of the page.
pub(super) struct Asset {
    pub(super) kind: &'static str,
    pub(super) bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const PAGE: &str = "text/html; charset=utf-8";

macro_rules! assets {
    ($($path:literal $file:literal $kind:expr;)+) => {
        /// The files by their paths.
        const ASSETS: &[(&str, Asset)] = &[$(
            ($path, Asset {
                kind: $kind,
                bytes: include_bytes!(concat!("../../../web/", $file)),
            }),
        )+];
    };
}

assets! {
    "/" "index.html" PAGE;
    "/index.html" "index.html" PAGE;
    "/compare.html" "compare.html" PAGE;
    "/style.css" "style.css" STYLE;
    "/compare.css" "compare.css" STYLE;
    "/diagram.css" "diagram.css" STYLE;
    "/app.js" "app.js" SCRIPT;
    "/choose.js" "choose.js" SCRIPT;
    "/compare.js" "compare.js" SCRIPT;
    "/live.js" "live.js" SCRIPT;
    "/link.js" "link.js" SCRIPT;
    "/network.js" "network.js" SCRIPT;
    "/query.js" "query.js" SCRIPT;
    "/run.js" "run.js" SCRIPT;
    "/spacetime.js" "spacetime.js" SCRIPT;
    "/state.js" "state.js" SCRIPT;
    "/table.js" "table.js" SCRIPT;
    "/dom.js" "dom.js" SCRIPT;
    "/worker.js" "worker.js" SCRIPT;
}

/// The file at this path: its kind and its bytes.
pub(super) fn find(path: &str) -> Option<(&'static str, &'static [u8])> {
    static SERVED: LazyLock<Vec<Cow<'static, [u8]>>> =
        LazyLock::new(|| ASSETS.iter().map(|(_, asset)| served(asset)).collect());
    let place = ASSETS.iter().position(|(known, _)| *known == path)?;
    Some((ASSETS[place].1.kind, &SERVED[place]))
}

/// A file as it is served: a script without its comments, which are a seventh of it.
fn served(asset: &Asset) -> Cow<'static, [u8]> {
    match std::str::from_utf8(asset.bytes) {
        Ok(text) if asset.kind == SCRIPT => Cow::Owned(without_comments(text).into_bytes()),
        Ok(_) | Err(_) => Cow::Borrowed(asset.bytes),
    }
}

/// A script with empty lines instead of those that are comments, so that the lines keep their
/// numbers. Comments within lines of code stay.
fn without_comments(script: &str) -> String {
    let mut out = String::with_capacity(script.len());
    let mut in_comment = false;
    for line in script.lines() {
        let text = line.trim();
        let (begins, ends) = (text.starts_with("/*"), text.ends_with("*/"));
        let is_comment =
            in_comment || text.starts_with("//") || begins && (ends || !text.contains("*/"));
        in_comment = (in_comment || begins && is_comment) && !ends;
        if !is_comment {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_loads_at_most_100_kibibytes() {
        // Compare is a page of its own, with its own script. The worker runs the module of the
        // static site, which has no Live.
        let only_here = ["/", "/compare.html", "/compare.js", "/compare.css", "/worker.js"];
        let loaded = ASSETS.iter().filter(|(path, _)| !only_here.contains(path));
        let bytes: usize = loaded.map(|(_, asset)| served(asset).len()).sum();
        assert!(bytes <= 100 * 1024, "{bytes} bytes");
    }

    #[test]
    fn the_static_site_without_live_is_as_small_with_its_comments() {
        let not_loaded = ["/", "/compare.html", "/compare.js", "/compare.css", "/live.js"];
        let loaded = ASSETS.iter().filter(|(path, _)| !not_loaded.contains(path));
        let bytes: usize = loaded.map(|(_, asset)| asset.bytes.len()).sum();
        assert!(bytes <= 100 * 1024, "{bytes} bytes");
    }

    #[test]
    fn only_lines_of_comments_are_left_out() {
        let script = "// A.\nlet a = 1; // b\n/** C. */\n\t/** @type {any} */ (a).b();\n\
                      /*\n * D.\n */\nf();";
        let served = "\nlet a = 1; // b\n\n\t/** @type {any} */ (a).b();\n\n\n\nf();\n";
        assert_eq!(without_comments(script), served);
        for (path, asset) in ASSETS.iter().filter(|(_, asset)| asset.kind == SCRIPT) {
            let text = std::str::from_utf8(asset.bytes).expect("a script");
            // A comment of several lines ends with its last line, so no code is lost.
            let hidden = text.lines().find(|line| {
                let line = line.trim();
                line.starts_with("* ") && line.contains("*/") && !line.ends_with("*/")
            });
            assert_eq!(hidden, None, "{path}");
        }
    }

    #[test]
    fn no_file_of_the_page_asks_another_origin() {
        for (path, asset) in ASSETS {
            let text = String::from_utf8_lossy(asset.bytes);
            let text = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
        }
    }
}

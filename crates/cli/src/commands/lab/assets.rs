//! The files of the page, compiled in. What is in `web/` is what runs: nothing is built.
//! The crate has a link to that directory, so that a packaged crate contains the files.

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

/// The file at this path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|(known, _)| *known == path).map(|(_, asset)| asset)
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
        let bytes: usize = loaded.map(|(_, asset)| asset.bytes.len()).sum();
        assert!(bytes <= 100 * 1024, "{bytes} bytes");
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

//! What stands below the plots. A sentence about algorithms is there where one of them is.

use crate::plot::Series;

/// Sentences, each with the algorithms that it speaks of; none speaks of all.
type Caption = &'static [(&'static [&'static str], &'static str)];

/// All plots that there may be, by the names of their files.
pub(super) const FILES: [&str; 13] = [
    "messages-light",
    "messages-saturated",
    "client-delay",
    "sync-delay",
    "response-load",
    "response-p99-load",
    "sync-load",
    "messages-load",
    "throughput-load",
    "bypass-load",
    "jain-load",
    "election-messages",
    "election-turnaround",
];

/// The caption of a plot that shows these.
pub(super) fn of(file: &str, series: &[Series]) -> String {
    let is_there = |name: &&str| {
        let named = |one: &Series| one.name.split(',').next() == Some(*name);
        series.iter().any(named)
    };
    let fits = |names: &[&str]| names.is_empty() || names.iter().any(&is_there);
    let sentences = caption(file).iter().filter(|(names, _)| fits(names));
    sentences.map(|(_, sentence)| *sentence).collect::<Vec<_>>().join(" ")
}

const LINES: &str = "Lines are the formulas of the papers, points are measured.";
const RINGS: &[&str] = &["le-lann", "dijkstra"];
const TREES: &[&str] = &["raymond", "neilsen-mizuno", "naimi-trehel"];
const BROADCASTS: &[&str] =
    &["lamport", "ricart-agrawala", "carvalho-roucairol", "suzuki-kasami", "ricart-agrawala-token"];
const DIRECT: &[&str] = &["le-lann", "ricart-agrawala", "suzuki-kasami", "naimi-trehel", "lamport"];
const THIRD: &[&str] = &["central", "maekawa", "sanders"];

fn caption(file: &str) -> Caption {
    match file {
        "messages-light" => &[
            (&[], LINES),
            (
                RINGS,
                "A token that never rests has no line: what it costs depends on how long nobody \
                 asks.",
            ),
        ],
        "messages-saturated" => &[
            (&[], LINES),
            (RINGS, "On a ring one message serves one entry."),
            (&["raymond"], "On Raymond's tree one request speaks for many, so busy is cheap."),
            (&["naimi-trehel"], "For Naimi-Trehel the line is the bound that theory gives, 4."),
            (&["neilsen-mizuno"], "For Neilsen-Mizuno the line is the bound that theory gives, 3."),
            (&["bakery"], "The Bakery polls while it waits."),
        ],
        "client-delay" => &[
            (&[], LINES),
            (BROADCASTS, "Asking everyone at once takes one round trip, whatever the number."),
            (RINGS, "The token of a ring must come by."),
            (TREES, "Asking along a tree takes the way up and the token's way back."),
        ],
        "sync-delay" => &[
            (&[], LINES),
            (DIRECT, "It is one latency where the one who leaves tells the next one itself."),
            (THIRD, "It is two latencies where a coordinator or voters stand between."),
        ],
        "response-load" => &[(
            &[],
            "From request to exit, the time inside included. At a load of 1 all together would \
             just fill the time if nobody had to wait for messages; the delay from one to the next \
             makes it full earlier.",
        )],
        "response-p99-load" => &[(
            &[],
            "From request to exit: 99 in 100 are done by then. Whiskers are 95 % intervals over \
             the seeds, here and in all plots; where there is none it is shorter than the point.",
        )],
        "sync-load" => &[(&[], "From one exit to the next entry while somebody waits.")],
        "messages-load" => &[
            (&[], "Messages per entry, a multicast counted once per receiver."),
            (RINGS, "The busier a ring, the more entries share a round of its token."),
            (
                &["carvalho-roucairol", "suzuki-kasami", "ricart-agrawala-token", "naimi-trehel"],
                "Where permissions or tokens stay with who used them last, load changes the cost.",
            ),
        ],
        "throughput-load" => &[(
            &[],
            "Entries per second. The ceiling is one per time inside and synchronization delay.",
        )],
        "bypass-load" => &[(
            &[],
            "Fairness at its worst: how often others went first. With N processes that each wait \
             for their turn it is N-1.",
        )],
        "jain-load" => &[(&[], "1: all got in equally often; 1/N: only one ever did.")],
        "election-messages" => ELECTION_MESSAGES,
        "election-turnaround" => ELECTION_TURNAROUND,
        _ => &[],
    }
}

const ELECTION_MESSAGES: Caption = &[
    (
        &[],
        "The highest process is down, and others notice it: the lowest alone (circles), the second \
         highest alone (squares), or all at once (triangles). Lines are formulas, points are \
         measured.",
    ),
    (
        &["bully"],
        "The bully needs N-1 messages if the second highest starts and N^2-N-1 if the lowest does.",
    ),
    (
        &["chang-roberts"],
        "The ring is closed over the dead one: 2N-2 if the one that wins starts, 3N-4 if the one \
         behind it does or if all start in ascending order.",
    ),
    (&["invitation"], "The invitation election has no formula; its points are joined."),
];

const ELECTION_TURNAROUND: Caption = &[
    (&[], "From the first start until the last process alive knows who is elected."),
    (
        &["chang-roberts"],
        "The ring goes round two to three times: 2N-3 or 3N-5 messages one after the other.",
    ),
    (&["bully"], "The bully waits for its timeouts and is done, whatever the number."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Marker, Style};

    #[test]
    fn captions_speak_only_of_what_is_shown() {
        let style = Style { color: "#000", marker: Marker::Circle };
        let series = |name: &str| Series {
            name: name.to_owned(),
            style,
            theory: Vec::new(),
            measured: Vec::new(),
            joined: false,
        };
        let bully = of("election-messages", &[series("bully, all start")]);
        assert!(
            bully.contains("bully") && !bully.contains("ring") && !bully.contains("invitation")
        );
        let central = of("messages-saturated", &[series("central")]);
        assert!(!central.contains("Bakery") && !central.contains("Raymond"), "{central}");
        for file in FILES {
            let names = ["le-lann", "bully"].map(series);
            assert!(of(file, &names).ends_with('.'), "{file}");
        }
    }
}

//! The words beside events, each explained once in the legend.

use std::collections::BTreeSet;

use super::scene::{GOES_ON, Scene};

/// A word as the legend shows it, and its meaning.
pub(super) type Explained = (&'static str, &'static str);

/// The words beside the events of a scene, in the order in which they are explained.
pub(super) fn words(scene: &Scene) -> Vec<Explained> {
    let labels = scene.marks.iter().flat_map(|mark| mark.label.split(", "));
    let labels: BTreeSet<&str> = labels.collect();
    let is_there = |(has, _): &(Found, Explained)| labels.iter().any(|label| has(label));
    ALL.into_iter().filter(is_there).map(|(_, explained)| explained).collect()
}

/// Whether a word is in a label.
type Found = fn(&str) -> bool;

/// Every word, and how it is found among the labels. (`P` stands for the name of a process.)
const ALL: [(Found, Explained); 15] = [
    (
        |label| label.ends_with(" crashed"),
        ("P crashed", "the failure detector reports that P has crashed"),
    ),
    (
        |label| label.starts_with("suspects "),
        ("suspects P", "the failure detector reports that P has crashed, and is wrong"),
    ),
    (
        |label| label.ends_with(" is up") && label != "which is up",
        ("P is up", "the failure detector reports that P is up again"),
    ),
    (
        |label| label.starts_with("cut off from "),
        ("cut off from P", "no message passes between it and P: a partition begins"),
    ),
    (|label| label.starts_with("reaches again "), ("reaches again P", "the partition ends")),
    (|label| label == "suspended", ("suspended", "the algorithm stops here until the next view")),
    (|label| label.starts_with("view "), ("view n", "the algorithm goes on here, in view n")),
    (
        |label| label.starts_with(GOES_ON),
        ("goes on without P", "takes P, which counts as crashed, out of the algorithm"),
    ),
    (
        |label| label.starts_with("takes over "),
        ("takes over P", "has all claims to P's vote, and votes in its place from here on"),
    ),
    (|label| label == "election", ("election", "starts an election")),
    (|label| label.ends_with(" timed out"), ("x timed out", "its timer x has run out")),
    (|label| label.starts_with("elects "), ("elects P", "takes P for the coordinator")),
    (|label| label == "restarts", ("restarts", "is up again, with an empty memory")),
    (|label| label == "nonsense", ("nonsense", "ignores a message that cannot be right")),
    (|label| label.contains('='), ("x=v", "the variable x has the new value v")),
];

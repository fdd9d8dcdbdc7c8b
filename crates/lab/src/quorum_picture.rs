//! Quorums as a picture: a row for each process, a filled cell for each member of its quorum.

use mutua_algorithms::{NodeId, Quorums};

use crate::svg::{Picture, escape};

/// The side of a cell.
const SIDE: f64 = 22.0;

/// The corner of the first cell.
const LEFT: f64 = 60.0;
const TOP: f64 = 84.0;

/// The colours of a member, of the process itself, and of other cells.
const MEMBER: &str = "#0072b2";
const ITSELF: &str = "#d98200";
const OTHER: &str = "#eef1f5";

/// Draws quorums as SVG.
pub fn svg(title: &str, quorums: &Quorums) -> String {
    let nodes = quorums.nodes();
    let side = SIDE * f64::from(nodes);
    let least = 40.0 + 9.2 * title.chars().count() as f64;
    let (width, height) = ((LEFT + side + 20.0).max(least).max(440.0), TOP + side + 44.0);
    let mut picture = Picture::new(width, height, 12, title);
    picture.put(format_args!(
        "<text x=\"20\" y=\"28\" font-size=\"14\" font-weight=\"bold\">{}</text>",
        escape(title)
    ));
    picture.put("<text x=\"20\" y=\"50\" fill=\"#5b6472\">quorum of (row), member (column)</text>");
    for row in (0..nodes).map(NodeId) {
        name(&mut picture, LEFT - 8.0, TOP + at(row) + 15.0, "end", row);
        name(&mut picture, LEFT + at(row) + SIDE / 2.0, TOP - 8.0, "middle", row);
        for column in (0..nodes).map(NodeId) {
            let colour = match quorums.contains(row, column) {
                true if row == column => ITSELF,
                true => MEMBER,
                false => OTHER,
            };
            picture.put(format_args!(
                "<rect x=\"{:.0}\" y=\"{:.0}\" width=\"20\" height=\"20\" fill=\"{colour}\"/>",
                LEFT + at(column),
                TOP + at(row)
            ));
        }
    }
    legend(&mut picture, TOP + side + 16.0);
    picture.finish()
}

fn at(node: NodeId) -> f64 {
    SIDE * f64::from(node.0)
}

fn name(picture: &mut Picture, x: f64, y: f64, anchor: &str, node: NodeId) {
    picture.put(format_args!(
        "<text x=\"{x:.0}\" y=\"{y:.0}\" font-size=\"11\" text-anchor=\"{anchor}\">{node}</text>"
    ));
}

fn legend(picture: &mut Picture, y: f64) {
    for (x, colour, words) in [(20.0, ITSELF, "itself"), (110.0, MEMBER, "another member")] {
        picture.put(format_args!(
            "<rect x=\"{x}\" y=\"{y:.0}\" width=\"14\" height=\"14\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{:.0}\">{words}</text>",
            x + 20.0,
            y + 12.0
        ));
    }
}

#[cfg(test)]
mod tests {
    use mutua_algorithms::QuorumKind;

    use super::*;

    #[test]
    fn a_picture_has_a_cell_for_every_member() {
        let quorums = Quorums::new(QuorumKind::Plane, 13).expect("a plane of 13");
        let svg = svg("plane <13>", &quorums);
        // One of each is in the legend.
        assert_eq!(svg.matches(MEMBER).count(), 13 * 3 + 1);
        assert_eq!(svg.matches(ITSELF).count(), 13 + 1);
        assert_eq!(svg.matches(OTHER).count(), 13 * 9);
        assert!(svg.contains("plane &lt;13&gt;"));
    }
}

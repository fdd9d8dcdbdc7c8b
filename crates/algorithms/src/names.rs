//! Values that have a name on command lines, in scripts and in files: one list for all readers.

use std::fmt;

/// An unknown name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownName {
    /// The kind of value.
    pub what: &'static str,
    /// The name that was given.
    pub name: String,
    /// The known names.
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name, known } = self;
        write!(f, "unknown {what} `{name}`; known: {}", known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// The one of `all` that has this name.
pub(crate) fn by_name<T: Copy>(
    what: &'static str,
    all: &[T],
    name_of: fn(T) -> &'static str,
    name: &str,
) -> Result<T, UnknownName> {
    let found = all.iter().copied().find(|&one| name_of(one) == name);
    found.ok_or_else(|| UnknownName {
        what,
        name: name.to_owned(),
        known: all.iter().copied().map(name_of).collect(),
    })
}

#[cfg(test)]
mod tests {
    use crate::{Links, QuorumKind, Timer, Topology};

    #[test]
    fn every_name_is_parsed_to_its_value() {
        for &kind in QuorumKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        for &links in Links::ALL {
            assert_eq!(links.name().parse(), Ok(links));
        }
        for &timer in Timer::ALL {
            assert_eq!(timer.word().parse(), Ok(timer));
        }
        use Topology::{Binary, Kary, Line, Star};
        for shape in [Line, Star, Binary, Kary(1), Kary(12)] {
            assert_eq!(shape.name().parse(), Ok(shape));
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let refused = "grids".parse::<QuorumKind>().unwrap_err().to_string();
        let known = "known: grid, filled-grid, plane, majority, tree";
        assert_eq!(refused, format!("unknown kind of quorums `grids`; {known}"));
        for shape in ["", "kary:", "kary:0", "kary:-1", "kary:x", "Line", "edges"] {
            let refused = shape.parse::<Topology>().unwrap_err().to_string();
            assert!(refused.contains(&format!("`{shape}`")), "{refused}");
            assert!(refused.ends_with("line, star, binary, kary:K with K at least 1"), "{refused}");
        }
    }
}

//! Steps that cannot be taken.

use mutua_algorithms::NodeId;

use crate::{Header, Which, network::Unavailable};

/// A step that cannot be taken in the present state. Nothing was changed; the text gives the
/// reason.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    /// A refusal with this explanation.
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    pub(crate) fn unavailable(
        from: NodeId,
        to: NodeId,
        which: &Which,
        why: Unavailable,
        header: &Header,
    ) -> Self {
        let link = format!("{} -> {}", header.name(from), header.name(to));
        let what = which.kind.as_deref().unwrap_or("message");
        let wanted = match which.nth {
            0 | 1 => format!("no {what} is"),
            nth => format!("fewer than {nth} of `{what}` are"),
        };
        Self(match why {
            Unavailable::Missing { there } if there.is_empty() => {
                format!("{wanted} in flight {link}")
            }
            Unavailable::Missing { there } => {
                format!("{wanted} in flight {link}, only {}", there.join(", "))
            }
            Unavailable::Behind { first } => {
                format!("the link {link} is FIFO and `{first}` comes first")
            }
        })
    }
}

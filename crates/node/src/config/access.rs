//! Rules for what clients may do with which locks.

use std::fmt;

use mutua_protocol::Pattern;

/// A rule: what some clients may do with some locks. The first rule that matches the client and the
/// name decides.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AccessRule {
    /// The clients that it applies to.
    pub clients: Vec<ClientPattern>,
    /// The names that it applies to.
    pub names: Pattern,
    /// What it allows; nothing else is.
    pub allow: Vec<Action>,
}

/// Clients that a rule applies to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClientPattern {
    /// Every client, also one that is not known by a user or a certificate.
    Any,
    /// Users of the node's host whose names match, on the Unix socket.
    User(Pattern),
    /// Users of the node's host who are in a group whose name matches.
    Group(Pattern),
    /// Clients over TCP whose certificates have names that match.
    Certificate(Pattern),
}

/// What a client does with a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Requests it, and holds it.
    Acquire,
    /// Reads its holder and waiters.
    List,
    /// Revokes it from another client. A client's own grant needs no rule.
    Break,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 3] = [Self::Acquire, Self::List, Self::Break];

    /// The action as a configuration names it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::List => "list",
            Self::Break => "break",
        }
    }

    /// The action of this name.
    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.word() == word)
    }
}

impl ClientPattern {
    /// Reads `*`, `user:NAME`, `group:NAME` or `cert:NAME`.
    pub(super) fn of(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Any);
        }
        let (kind, name) = text.split_once(':').filter(|(_, name)| !name.is_empty())?;
        let name = Pattern::new(name);
        match kind {
            "user" => Some(Self::User(name)),
            "group" => Some(Self::Group(name)),
            "cert" => Some(Self::Certificate(name)),
            _ => None,
        }
    }

    /// Whether users of the node's host may match.
    pub fn is_for_users(&self) -> bool {
        !matches!(self, Self::Certificate(_))
    }
}

/// As it is written in a configuration.
impl fmt::Display for ClientPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::User(name) => write!(f, "user:{}", name.text()),
            Self::Group(name) => write!(f, "group:{}", name.text()),
            Self::Certificate(name) => write!(f, "cert:{}", name.text()),
        }
    }
}

/// For an error: `clients user:deploy, group:ops, names prod/*`.
impl fmt::Display for AccessRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clients: Vec<_> = self.clients.iter().map(ToString::to_string).collect();
        write!(f, "clients {}, names {}", clients.join(", "), self.names.text())
    }
}

#[cfg(test)]
mod tests {
    use super::ClientPattern;

    #[test]
    fn a_client_is_read_back_as_it_is_written() {
        for text in ["*", "user:deploy", "group:ops", "cert:web-*", "user:*", "cert:a:b"] {
            assert_eq!(ClientPattern::of(text).expect(text).to_string(), text);
        }
        for text in ["", "deploy", "user:", "role:x", "user"] {
            assert_eq!(ClientPattern::of(text), None, "{text}");
        }
    }
}

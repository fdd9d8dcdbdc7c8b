//! What a client may do: by the rules of the configuration.
//!
//! The node that a client is connected to checks; members trust each other. The node's own user and
//! root, on the Unix socket, may do everything. For others the first rule that matches client and
//! name decides. Without rules, others cannot use the Unix socket, and clients over TCP may do
//! everything but break a lock of another certificate's client.

use mutua_node::{AccessRule, Action, ClientPattern};
use tonic::Status;

use crate::{
    Core, Service,
    caller::{Caller, Identity, LocalUser},
    leases::{Client, SessionId},
};

/// The rules of a node.
#[derive(Debug)]
pub(crate) struct Access {
    rules: Vec<AccessRule>,
    /// The node's user.
    own: u32,
}

/// The reason of a refusal.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Denied(String);

impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        Self::permission_denied(denied.0)
    }
}

impl Access {
    pub(crate) fn new(rules: Vec<AccessRule>, own: u32) -> Self {
        Self { rules, own }
    }

    /// Whether users other than the node's own and root may use the Unix socket.
    pub(crate) fn has_other_users(&self) -> bool {
        self.rules.iter().flat_map(|rule| &rule.clients).any(ClientPattern::is_for_users)
    }

    /// Whether this user may connect to the Unix socket.
    pub(crate) fn lets_in(&self, user: u32) -> bool {
        user == self.own || user == 0 || self.has_other_users()
    }

    /// Whether a client may do everything: it is of the node's own user or root.
    pub(crate) fn is_admin(&self, caller: &Caller) -> bool {
        match caller.identity() {
            Identity::User(user) => user.id == self.own || user.id == 0,
            Identity::Relayed { admin, .. } => *admin,
            Identity::Certificate(_) | Identity::Unknown => false,
        }
    }

    /// The client with an owner that others can rely on: of one that is not the node's user or
    /// root, its identity is added to the name that it gives itself.
    pub(crate) fn labelled(&self, caller: &Caller, mut client: Client) -> Client {
        let known = client.identity.split_once(':').map(|(_, name)| name);
        if !self.is_admin(caller) && known.is_some_and(|name| name != client.owner) {
            client.owner = format!("{} ({})", client.owner, client.identity);
        }
        client
    }

    /// Checks whether a client may see who holds a lock: one that may hold it may see that, too.
    ///
    /// # Errors
    ///
    /// The reason, with the rule that decided.
    pub(crate) fn check_reading(&self, caller: &Caller, name: &[u8]) -> Result<(), Denied> {
        self.check(caller, Action::List, name)
            .or_else(|denied| self.check(caller, Action::Acquire, name).map_err(|_| denied))
    }

    /// Checks an action of a client on a lock.
    ///
    /// # Errors
    ///
    /// The reason, with the rule that decided.
    pub(crate) fn check(&self, caller: &Caller, action: Action, name: &[u8]) -> Result<(), Denied> {
        let identity = caller.identity();
        if self.is_admin(caller) || matches!(identity, Identity::Relayed { .. }) {
            return Ok(());
        }
        let denied = |why: String| {
            let identity = match identity {
                Identity::Unknown => "a client without a certificate".to_owned(),
                known => known.to_string(),
            };
            let (word, name) = (action.word(), name.escape_ascii());
            Err(Denied(format!("{identity} may not {word} `{name}`: {why}")))
        };
        if self.rules.is_empty() {
            return match (identity, action) {
                (Identity::User(_), _) => {
                    denied("without [[access]] only the node's user and root may".to_owned())
                }
                (Identity::Certificate(_), Action::Break) => {
                    denied("it is another client's, and no [[access]] allows that".to_owned())
                }
                (_, _) => Ok(()),
            };
        }
        let applies = |rule: &AccessRule| {
            rule.names.fits(name) && rule.clients.iter().any(|client| is_for(client, identity))
        };
        let Some((index, rule)) = self.rules.iter().enumerate().find(|(_, rule)| applies(rule))
        else {
            return denied("no rule of [[access]] matches this client and name".to_owned());
        };
        if rule.allow.contains(&action) {
            return Ok(());
        }
        let allowed: Vec<_> = rule.allow.iter().map(|action| action.word()).collect();
        let allowed = match allowed.as_slice() {
            [] => "nothing".to_owned(),
            words => format!("only {}", words.join(", ")),
        };
        denied(format!("rule {} of [[access]] ({rule}) allows {allowed}", index + 1))
    }
}

fn is_for(pattern: &ClientPattern, identity: &Identity) -> bool {
    let of_user = |fits: &dyn Fn(&LocalUser) -> bool| match identity {
        Identity::User(user) => fits(user),
        _ => false,
    };
    match pattern {
        ClientPattern::Any => true,
        ClientPattern::User(name) => of_user(&|user| name.fits(user.name.as_bytes())),
        ClientPattern::Group(name) => {
            of_user(&|user| user.groups.iter().any(|group| name.fits(group.as_bytes())))
        }
        ClientPattern::Certificate(name) => match identity {
            Identity::Certificate(known) => name.fits(known.as_bytes()),
            _ => false,
        },
    }
}

impl Service {
    /// Whether a client may use a session or lease: its own, or every one if it is an admin.
    pub(crate) fn owns(&self, core: &Core, caller: &Caller, session: SessionId) -> bool {
        let Some(client) = core.leases.client_of(session) else { return false };
        self.access.is_admin(caller) || is_of(client, caller)
    }

    /// The identity that a session must have for this client; `None`: any.
    pub(crate) fn identity_needed(&self, caller: &Caller) -> Option<String> {
        (!self.access.is_admin(caller)).then(|| caller.identity().to_string())
    }

    /// Whether a client may resume a session. A client whose node is lost may reach the next one in
    /// another way, over TCP instead of a socket, and is then known by another identity: it may go
    /// on if it might request the same locks.
    pub(crate) fn may_resume(&self, core: &Core, caller: &Caller, session: SessionId) -> bool {
        let Some(client) = core.leases.client_of(session) else { return true };
        let kind = |identity: &str| identity.split_once(':').map(|(kind, _)| kind.to_owned());
        // Rules for a client of another member are there, and cannot be asked for the locks held.
        let relayed = matches!(caller.identity(), Identity::Relayed { .. });
        let moved = !relayed && kind(&client.identity) != kind(&caller.identity().to_string());
        let mut held = core.leases.held(session);
        self.owns(core, caller, session)
            || (moved
                && !core.clients.contains_key(&session)
                && held.all(|name| self.access.check(caller, Action::Acquire, name).is_ok()))
    }
}

/// Whether a session's client has the identity of this one.
pub(crate) fn is_of(client: &Client, caller: &Caller) -> bool {
    client.identity == caller.identity().to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mutua_node::Config;

    use super::*;

    fn access(rules: &str) -> Access {
        let text = format!(
            "cluster = \"c\"\nnode = \"a\"\n[[members]]\nname = \"a\"\naddress = \"h:1\"\n{rules}"
        );
        Access::new(Config::parse(&text, "f").expect("valid").access, 7)
    }

    fn user(id: u32, name: &str, groups: &[&str]) -> Caller {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        Caller::local(Arc::new(LocalUser { id, name: name.to_owned(), groups }), None)
    }

    fn certificate(name: &str) -> Caller {
        Caller::remote(Identity::Certificate(name.to_owned()), "10.0.0.9:1".to_owned())
    }

    const RULES: &str = r#"
[[access]]
clients = ["group:ops", "cert:deploy-*"]
names = "prod/*"
allow = ["acquire", "list", "break"]

[[access]]
clients = "user:*"
names = "prod/*"
allow = "list"

[[access]]
clients = ["user:deploy", "*"]
names = "shared"
allow = ["acquire"]

[[access]]
clients = "user:guest"
allow = []
"#;

    #[test]
    fn the_first_rule_that_matches_client_and_name_decides() {
        let access = access(RULES);
        let check = |caller: &Caller, action, name: &str| {
            access.check(caller, action, name.as_bytes()).map_err(|denied| denied.to_string())
        };
        let (ops, deploy) = (user(1001, "ann", &["users", "ops"]), user(1002, "deploy", &[]));
        for action in Action::ALL {
            assert_eq!(check(&ops, action, "prod/x"), Ok(()));
            assert_eq!(check(&certificate("deploy-eu"), action, "prod/x"), Ok(()));
            for admin in [user(0, "root", &[]), user(7, "mutua", &[])] {
                assert_eq!(check(&admin, action, "anything"), Ok(()));
            }
        }
        assert_eq!(check(&deploy, Action::List, "prod/x"), Ok(()));
        assert_eq!(
            check(&deploy, Action::Acquire, "prod/x").expect_err("only list"),
            "user:deploy may not acquire `prod/x`: rule 2 of [[access]] (clients user:*, names \
             prod/*) allows only list"
        );
        assert_eq!(check(&certificate("other"), Action::Acquire, "shared"), Ok(()));
        let text = check(&certificate("other"), Action::List, "prod/x").expect_err("no rule");
        assert!(text.ends_with("no rule of [[access]] matches this client and name"), "{text}");
        let text = check(&user(1003, "guest", &[]), Action::List, "y").expect_err("nothing");
        assert!(text.contains("rule 4 of [[access]]") && text.ends_with("nothing"), "{text}");
        let anonymous = Caller::remote(Identity::Unknown, "127.0.0.1:1".to_owned());
        assert_eq!(check(&anonymous, Action::Acquire, "shared"), Ok(()));
        let text = check(&anonymous, Action::Acquire, "prod/x").expect_err("no rule");
        assert!(text.starts_with("a client without a certificate may not acquire"), "{text}");
    }

    #[test]
    fn without_rules_the_socket_is_the_nodes_users_and_certificates_break_only_their_own() {
        let access = access("");
        assert!(!access.has_other_users());
        assert!(access.lets_in(7) && access.lets_in(0) && !access.lets_in(8));
        access.check(&user(8, "ann", &[]), Action::List, b"x").expect_err("not the node's");
        let backup = certificate("backup");
        access.check(&backup, Action::Acquire, b"x").expect("allowed");
        access.check(&backup, Action::Break, b"x").expect_err("another's");
        assert!(self::access(RULES).lets_in(8), "rules are for users");
        let only_certificates = "[[access]]\nclients = \"cert:*\"\nallow = \"acquire\"\n";
        assert!(!self::access(only_certificates).lets_in(8));
    }
}

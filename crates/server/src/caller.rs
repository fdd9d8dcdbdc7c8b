//! The client at the other end of a connection: as the system or its certificate identifies it, and
//! not as it describes itself.

use std::{
    collections::HashMap,
    ffi::CString,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use tonic::{Extensions, Request};

use crate::Moment;

/// The names of a user are read again after this long.
const AGAIN: Duration = Duration::from_secs(30);

/// The client of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<Known>);

#[derive(Debug)]
struct Known {
    identity: Identity,
    /// Its process, on the Unix socket.
    process: Option<u32>,
    /// The address it connects from; `None`: the Unix socket.
    address: Option<String>,
}

/// What a client is known by.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// A user of this host, on the Unix socket.
    User(Arc<LocalUser>),
    /// The name in its certificate.
    Certificate(String),
    /// What another member knows of it, which has checked what it may do.
    Relayed { identity: String, admin: bool },
    /// Nothing: TCP without TLS.
    Unknown,
}

/// A user of this host.
#[derive(Debug)]
pub(crate) struct LocalUser {
    pub(crate) id: u32,
    /// Its name; its number if it has none.
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

impl Caller {
    /// A client on the Unix socket.
    pub(crate) fn local(user: Arc<LocalUser>, process: Option<u32>) -> Self {
        Self(Arc::new(Known { identity: Identity::User(user), process, address: None }))
    }

    /// A client over TCP.
    pub(crate) fn remote(identity: Identity, address: String) -> Self {
        Self(Arc::new(Known { identity, process: None, address: Some(address) }))
    }

    /// The client that sent a request.
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        Self::of_extensions(request.extensions())
    }

    /// The client that sent a request with these extensions.
    pub(crate) fn of_extensions(extensions: &Extensions) -> Self {
        // Every listener attaches one; without it a client is known by nothing.
        let unknown = || Self::remote(Identity::Unknown, "an unknown address".to_owned());
        extensions.get::<Self>().cloned().unwrap_or_else(unknown)
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// Its process, if it is on this host.
    pub(crate) fn process(&self) -> Option<u32> {
        self.0.process
    }

    /// Whether it is connected to the Unix socket.
    pub(crate) fn is_local(&self) -> bool {
        self.0.address.is_none()
    }

    /// Whether it is connected by TCP without TLS.
    pub(crate) fn is_plain_tcp(&self) -> bool {
        !self.is_local() && matches!(self.0.identity, Identity::Unknown)
    }

    /// The address that it connects from, or `local`.
    pub(crate) fn address(&self) -> &str {
        self.0.address.as_deref().unwrap_or("local")
    }
}

/// As rules name it: `user:deploy`, `cert:backup`; empty if it is known by nothing.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "user:{}", user.name),
            Self::Certificate(name) => write!(f, "cert:{name}"),
            Self::Relayed { identity, .. } => f.write_str(identity),
            Self::Unknown => Ok(()),
        }
    }
}

/// The users of this host that have connected, with their names and groups.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<HashMap<u32, (Moment, Arc<LocalUser>)>>);

impl Users {
    /// A user by its number. The system's databases may be remote, so they are read on a thread of
    /// its own.
    pub(crate) async fn find(&self, id: u32, group: u32) -> Arc<LocalUser> {
        if let Some(known) = self.known(id) {
            return known;
        }
        let read = tokio::task::spawn_blocking(move || read(id, group)).await;
        let user = Arc::new(read.unwrap_or_else(|_| unnamed(id)));
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        users.insert(id, (crate::now(), Arc::clone(&user)));
        user
    }

    fn known(&self, id: u32) -> Option<Arc<LocalUser>> {
        let users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, user) = users.get(&id)?;
        (crate::now().since(*at) < AGAIN).then(|| Arc::clone(user))
    }
}

fn unnamed(id: u32) -> LocalUser {
    LocalUser { id, name: id.to_string(), groups: Vec::new() }
}

fn read(id: u32, group: u32) -> LocalUser {
    let Ok(Some(user)) = User::from_uid(Uid::from_raw(id)) else { return unnamed(id) };
    // The groups that the system lists for the user, and the one that the process has.
    let mut groups = vec![Gid::from_raw(group), user.gid];
    if let Ok(name) = CString::new(user.name.as_bytes()) {
        groups.extend(getgrouplist(&name, user.gid).unwrap_or_default());
    }
    groups.sort_unstable_by_key(|group| group.as_raw());
    groups.dedup();
    let name = |group: Gid| Group::from_gid(group).ok().flatten().map(|group| group.name);
    LocalUser { id, name: user.name, groups: groups.into_iter().filter_map(name).collect() }
}

#[cfg(test)]
mod tests {
    use super::{Caller, Identity, Users};

    #[tokio::test]
    async fn a_user_is_known_by_name_and_one_without_a_name_by_number() {
        let users = Users::default();
        let root = users.find(0, 0).await;
        assert_eq!((root.id, &*root.name), (0, "root"));
        assert!(root.groups.iter().any(|group| group == "root"), "{:?}", root.groups);
        let nameless = users.find(4_000_000_123, 0).await;
        assert_eq!(Identity::User(nameless).to_string(), "user:4000000123");
    }

    #[test]
    fn a_request_without_a_listener_is_known_by_nothing() {
        let caller = Caller::of(&tonic::Request::new(()));
        assert!(matches!(caller.identity(), Identity::Unknown) && !caller.is_local());
    }
}

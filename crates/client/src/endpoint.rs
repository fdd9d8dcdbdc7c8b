//! The socket that a node serves, and a name that the kernel keeps for it.
//!
//! A path can be removed while its node runs, and a system service may see a `/tmp` of its own.
//! With the path alone, the next client would start a second node, and both would grant a lock. So
//! every node also listens on an abstract socket, whose name is made of the user and the path: the
//! kernel gives it to one process, until that process ends, and clients find the node there when
//! nothing listens at the path. Such a name has no permissions, so both ends check the user of the
//! other's process. A node takes the name before it does anything else, and removes a socket at its
//! path only after a connection to it was refused.
//!
//! The node's records may be lost with its data directory when it crashes. So every holder has such
//! a name too: a mark that contains its session and the length of its lease. A node that starts
//! looks for marks of sessions that it has no record of.
//!
//! The peers of a configured node expect that node and no other, so none may be started at its
//! socket. It leaves a note beside the socket.

use std::{
    fs, io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{self, SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use mutua_host::kernel_name;
use rustix::{
    net::{self as sys, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with},
    process::geteuid,
};
use tokio::net::UnixStream;

/// The socket of a node with this data directory, unless it was started with another one.
pub fn in_directory(data: &Path) -> PathBuf {
    data.join("locks.sock")
}

/// The kernel's name for a socket of this user.
fn name_of(socket: &Path) -> String {
    kernel_name::of_path("", socket)
}

/// Takes the kernel's name; `AddrInUse` if another process has it.
pub fn own(socket: &Path) -> io::Result<UnixListener> {
    let listener = kernel_name::own(&name_of(socket))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The process that serves this socket, or has its kernel name.
pub fn server(socket: &Path) -> Option<u32> {
    kernel_name::owner_of(&name_of(socket))
}

/// Connects to the process that has the kernel's name.
///
/// # Errors
///
/// `PermissionDenied` if that process is another user's.
pub fn connect(socket: &Path) -> io::Result<UnixStream> {
    let name = SocketAddr::from_abstract_name(name_of(socket))?;
    let stream = net::UnixStream::connect_addr(&name)?;
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    let theirs = owner(&stream)?;
    if theirs != geteuid().as_raw() {
        let text = format!("user {theirs} serves at the name of this user's node");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(stream)
}

/// The user of the process at the other end. The process may be in another namespace, where its
/// number means nothing here, so only its user is checked.
pub fn owner(stream: &UnixStream) -> io::Result<u32> {
    stream.peer_cred().map(|peer| peer.uid())
}

/// The mark of a process that holds a lock, for as long as this value exists.
#[derive(Debug)]
pub struct Mark(#[expect(dead_code, reason = "only its name is used")] UnixListener);

/// The beginning of the names of all marks at a socket, of all users.
fn mark_prefix(socket: &Path) -> String {
    // The same for all links that lead to it.
    let directory = socket.parent().and_then(|parent| fs::canonicalize(parent).ok());
    let file = socket.file_name().unwrap_or_default();
    let socket = directory.map_or_else(|| socket.to_owned(), |directory| directory.join(file));
    let digest = mutua_protocol::digest(socket.as_os_str().as_encoded_bytes());
    format!("mutua:holder{}:{digest:016x}:", kernel_name::namespace())
}

impl Mark {
    /// Marks this process as a holder in this session, with this lease.
    pub fn new(socket: &Path, session: i64, lease: Duration) -> io::Result<Self> {
        let (prefix, process) = (mark_prefix(socket), std::process::id());
        let millis = lease.as_millis();
        // A process in another namespace may have the same number.
        let names = (0..100).map(|count| format!("{prefix}{process}.{count}:{session:x}:{millis}"));
        let taken = |result: &io::Result<UnixListener>| {
            result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
        };
        let mut listeners = names.map(|name| kernel_name::own(&name)).skip_while(taken);
        listeners.next().unwrap_or(Err(io::ErrorKind::AddrInUse.into())).map(Self)
    }
}

/// The longest lease of processes that hold locks, by their marks. Marks of sessions that are
/// recorded do not count, and only marks of users that may use the node do: any user can make one.
pub fn longest_mark(
    socket: &Path,
    may_use: impl Fn(u32) -> bool,
    is_recorded: impl Fn(i64) -> bool,
) -> Option<Duration> {
    let list = fs::read_to_string("/proc/net/unix").ok()?;
    let prefix = mark_prefix(socket);
    // The listeners only: connections to them have the same name.
    let listens = |line: &&str| line.split_ascii_whitespace().nth(3) == Some("00010000");
    let lines = list.lines().filter(listens);
    let names = lines.filter_map(|line| line.rsplit(' ').next()?.strip_prefix('@'));
    let leases = names.filter(|name| name.starts_with(&prefix)).filter_map(|name| {
        let mut words = name.rsplit(':');
        let millis = words.next()?.parse().ok()?;
        let session = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        let unknown = session.is_none_or(|session| !is_recorded(session.cast_signed()));
        (unknown && counts(name, &may_use)).then(|| Duration::from_millis(millis))
    });
    leases.max()
}

/// Whether the owner of a name may use the node. An owner that cannot be determined may.
fn counts(name: &str, may_use: impl Fn(u32) -> bool) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let owner_of_name = || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        sys::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        owner(&UnixStream::from_std(socket.into())?)
    };
    match owner_of_name() {
        Ok(owner) => may_use(owner),
        // Its backlog is full.
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// The path of the note that reserves a socket for a configured node.
fn note(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".node");
    path.into()
}

/// Reserves a socket for a configured node: no other node may be started at it.
pub fn reserve(socket: &Path, node: &str) -> io::Result<()> {
    fs::write(note(socket), format!("node {node}\n"))
}

/// The configured node that this socket is reserved for.
pub fn reserved_for(socket: &Path) -> Option<String> {
    fs::read_to_string(note(socket)).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::{Mark, longest_mark, own, reserved_for};

    /// No session is recorded.
    fn none(_: i64) -> bool {
        false
    }

    #[test]
    fn one_process_owns_the_name_of_a_socket_until_it_drops_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        let first = own(&one).expect("free");
        own(&one).expect_err("owned");
        own(&two).expect("another socket");
        drop(first);
        own(&one).expect("free again");
    }

    #[tokio::test]
    async fn the_marks_of_holders_give_the_longest_lease() {
        let directory = tempfile::tempdir().expect("a directory");
        let (socket, other) = (directory.path().join("s"), directory.path().join("t"));
        assert_eq!(longest_mark(&socket, |_| true, none), None);
        let short = Mark::new(&socket, 7, Duration::from_secs(3)).expect("marked");
        let long = Mark::new(&socket, i64::MIN, Duration::from_secs(12)).expect("marked");
        let same = Mark::new(&socket, 7, Duration::from_secs(3)).expect("marked");
        let _at_other = Mark::new(&other, 7, Duration::from_secs(99)).expect("marked");
        assert_eq!(longest_mark(&socket, |_| true, none), Some(Duration::from_secs(12)));
        assert_eq!(longest_mark(&socket, |_| false, none), None, "of a user who may not use it");
        let rest = longest_mark(&socket, |_| true, |session| session == i64::MIN);
        assert_eq!(rest, Some(Duration::from_secs(3)), "the long one is recorded");
        drop(long);
        assert_eq!(longest_mark(&socket, |_| true, none), Some(Duration::from_secs(3)));
        drop((short, same));
        assert_eq!(longest_mark(&socket, |_| true, none), None);
    }

    #[tokio::test]
    async fn reading_the_marks_adds_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("s");
        let _mark = Mark::new(&socket, 7, Duration::from_secs(3)).expect("marked");
        let prefix = super::mark_prefix(&socket);
        for reads in 1..10 {
            assert_eq!(longest_mark(&socket, |_| true, none), Some(Duration::from_secs(3)));
            let list = std::fs::read_to_string("/proc/net/unix").expect("read");
            // The mark itself, and each connection that it has not accepted.
            assert_eq!(list.matches(&prefix).count(), 1 + reads);
        }
    }

    #[test]
    fn a_socket_without_a_note_is_not_reserved() {
        assert_eq!(reserved_for(Path::new("/nonexistent/socket")), None);
    }
}

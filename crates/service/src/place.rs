//! The place where a node serves: a path, and a name that the kernel keeps for it.
//!
//! A path can be removed under a node that lives, and a service may see a `/tmp` of its own. Were
//! the path all there is, the next client would start a second node, and two would be inside. So
//! the node that was started for a user also listens on an abstract socket, whose name is the
//! user's and the path's: the kernel lets one process have it, for as long as it lives, and clients
//! find it there when the path leads nowhere. Such a name has no permissions, so both ends look at
//! whose process the other is.
//!
//! What the node remembers in its directory may be gone with the directory when it dies. So whoever
//! is inside has such a name too, a mark that says how long its lease is. A node that starts looks
//! for them.
//!
//! A node that was configured has peers that count on it alone, so that none may be started in its
//! place. It leaves a note beside its socket.

use std::{
    fs, io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{self, SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
    process::geteuid,
};
use tokio::net::UnixStream;

/// What `/proc/self/ns/user` leads to where no container has given out user ids of its own.
const FIRST_NAMESPACE: &str = "user:[4026531837]";

/// Which users these are: a container may have one of the same number, whom somebody else is
/// outside.
fn namespace() -> String {
    let namespace = fs::read_link("/proc/self/ns/user").unwrap_or_default();
    match namespace.to_str() {
        None | Some("" | FIRST_NAMESPACE) => String::new(),
        Some(namespace) => format!("@{namespace}"),
    }
}

/// The kernel's name for a place of this user. A path may be longer than a name, so it is digested.
fn kernel_name(socket: &Path) -> String {
    format!("mutua:{}{}:{:016x}", geteuid().as_raw(), namespace(), digest(socket))
}

fn digest(socket: &Path) -> u64 {
    let bytes = socket.as_os_str().as_encoded_bytes();
    // FNV-1a: the same in every version.
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Takes the kernel's name; `AddrInUse` if another process has it.
pub(crate) fn claim(socket: &Path) -> io::Result<UnixListener> {
    let listener = listen(&kernel_name(socket))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn listen(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Connects to whoever has the kernel's name.
pub(crate) fn reach(socket: &Path) -> io::Result<UnixStream> {
    let name = SocketAddr::from_abstract_name(kernel_name(socket))?;
    let stream = net::UnixStream::connect_addr(&name)?;
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    let theirs = owner(&stream)?;
    if theirs != geteuid().as_raw() {
        let text = format!("user {theirs} has taken the place of this user's node");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(stream)
}

/// Whose process is at the other end. It may be in another namespace, where it has no number that
/// is known here, so only its user is looked at.
pub(crate) fn owner(stream: &UnixStream) -> io::Result<u32> {
    stream.peer_cred().map(|peer| peer.uid())
}

/// A mark of somebody inside, for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Mark(#[expect(dead_code, reason = "its name is all that counts")] UnixListener);

/// What all marks of a place begin with, whichever user leaves them.
fn inside(socket: &Path) -> String {
    // Through whichever link it is reached.
    let directory = socket.parent().and_then(|parent| fs::canonicalize(parent).ok());
    let file = socket.file_name().unwrap_or_default();
    let socket = directory.map_or_else(|| socket.to_owned(), |directory| directory.join(file));
    format!("mutua:inside{}:{:016x}:", namespace(), digest(&socket))
}

impl Mark {
    /// Says that this process is inside with such a lease.
    pub(crate) fn new(socket: &Path, lease: Duration) -> io::Result<Self> {
        let (inside, process, millis) = (inside(socket), std::process::id(), lease.as_millis());
        // In another namespace somebody else may have the same number.
        let names = (0..100).map(|count| format!("{inside}{process}.{count}:{millis}"));
        let taken = |result: &io::Result<UnixListener>| {
            result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
        };
        let mut listeners = names.map(|name| listen(&name)).skip_while(taken);
        listeners.next().unwrap_or(Err(io::ErrorKind::AddrInUse.into())).map(Self)
    }
}

/// The longest lease of this user's and of root's processes that are inside, by their marks.
pub(crate) fn longest_mark(socket: &Path) -> Option<Duration> {
    let list = fs::read_to_string("/proc/net/unix").ok()?;
    let prefix = inside(socket);
    // Who listens, and not who was connected to look at it.
    let listens = |line: &&str| line.split_ascii_whitespace().nth(3) == Some("00010000");
    let lines = list.lines().filter(listens);
    let names = lines.filter_map(|line| line.rsplit(' ').next()?.strip_prefix('@'));
    let leases = names.filter(|name| name.starts_with(&prefix)).filter_map(|name| {
        let millis = name.rsplit(':').next()?.parse().ok()?;
        is_ours(name).then(|| Duration::from_millis(millis))
    });
    leases.max()
}

/// Whether a name is one of this user's, or of root's: anybody can have any name. If that cannot be
/// known now, it is taken to be.
fn is_ours(name: &str) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let look = || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        owner(&UnixStream::from_std(socket.into())?)
    };
    match look() {
        Ok(owner) => owner == geteuid().as_raw() || owner == 0,
        // So many look at it that its line is full.
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// The note of a configured node: nobody else may serve there.
fn note(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".node");
    path.into()
}

pub(crate) fn keep(socket: &Path, node: &str) -> io::Result<()> {
    fs::write(note(socket), format!("node {node}\n"))
}

/// Which configured node alone may serve at this socket, if one ever did.
pub fn kept_for(socket: &Path) -> Option<String> {
    fs::read_to_string(note(socket)).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::{Mark, claim, kept_for, longest_mark};

    #[test]
    fn one_process_has_the_name_of_a_place_for_as_long_as_it_keeps_it() {
        let place = tempfile::tempdir().expect("a directory");
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        let first = claim(&one).expect("nobody has it");
        claim(&one).expect_err("somebody has it");
        claim(&two).expect("another place");
        drop(first);
        claim(&one).expect("nobody has it any more");
    }

    #[tokio::test]
    async fn the_longest_lease_of_those_inside_is_known_by_their_marks() {
        let place = tempfile::tempdir().expect("a directory");
        let (socket, other) = (place.path().join("s"), place.path().join("t"));
        assert_eq!(longest_mark(&socket), None);
        let short = Mark::new(&socket, Duration::from_secs(3)).expect("marked");
        let long = Mark::new(&socket, Duration::from_secs(12)).expect("marked");
        let same = Mark::new(&socket, Duration::from_secs(3)).expect("marked");
        let _elsewhere = Mark::new(&other, Duration::from_secs(99)).expect("marked");
        assert_eq!(longest_mark(&socket), Some(Duration::from_secs(12)));
        drop(long);
        assert_eq!(longest_mark(&socket), Some(Duration::from_secs(3)));
        drop((short, same));
        assert_eq!(longest_mark(&socket), None);
    }

    #[tokio::test]
    async fn looking_at_marks_leaves_no_more_to_look_at() {
        let place = tempfile::tempdir().expect("a directory");
        let socket = place.path().join("s");
        let _mark = Mark::new(&socket, Duration::from_secs(3)).expect("marked");
        let prefix = super::inside(&socket);
        for looks in 1..10 {
            assert_eq!(longest_mark(&socket), Some(Duration::from_secs(3)));
            let list = std::fs::read_to_string("/proc/net/unix").expect("read");
            // The mark itself, and each look that it has not heard of.
            assert_eq!(list.matches(&prefix).count(), 1 + looks);
        }
    }

    #[test]
    fn a_place_without_a_note_is_kept_for_nobody() {
        assert_eq!(kept_for(Path::new("/nonexistent/socket")), None);
    }
}

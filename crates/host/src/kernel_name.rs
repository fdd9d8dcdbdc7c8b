//! Names that the kernel keeps: a process owns a name as long as it runs.
//!
//! A file can be removed while a process has locked it, and the next process then cannot see the
//! lock. The name of an abstract socket cannot be removed. So a node owns such a name for its data
//! directory, for the socket where it serves clients, and, as the only member of its cluster, for
//! its address (others own that by listening on it). A second node is refused while the first one
//! runs, whatever happened to the files.
//!
//! Names belong to a network namespace, and contain the user's id. Names have no permissions:
//! another user can own one first and keep a node from starting, but cannot make two nodes run.

use std::{
    fs, io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::{Path, PathBuf},
};

use mutua_protocol::digest;
use rustix::{
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
    process::geteuid,
};

/// The target of `/proc/self/ns/user` in the initial user namespace.
const FIRST_NAMESPACE: &str = "user:[4026531837]";

/// The user namespace, if it is not the initial one: the same user id in a container may be another
/// user.
pub fn namespace() -> String {
    let namespace = fs::read_link("/proc/self/ns/user").unwrap_or_default();
    match namespace.to_str() {
        None | Some("" | FIRST_NAMESPACE) => String::new(),
        Some(namespace) => format!("@{namespace}"),
    }
}

/// The name for a path of this user. The path may be longer than a name, so the name contains its
/// digest.
pub fn of_path(kind: &str, path: &Path) -> String {
    of_bytes(kind, resolved(path).as_os_str().as_encoded_bytes())
}

/// The name for an address of this user.
pub fn of_address(address: &str) -> String {
    of_bytes("address:", address.as_bytes())
}

fn of_bytes(kind: &str, bytes: &[u8]) -> String {
    format!("mutua:{kind}{}{}:{:016x}", geteuid().as_raw(), namespace(), digest(bytes))
}

/// The path without symbolic links, as far as it exists.
pub fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let whole = path.ancestors().find_map(|ancestor| {
        let rest = path.strip_prefix(ancestor).ok()?;
        let ancestor = fs::canonicalize(ancestor).ok()?;
        Some(if rest.as_os_str().is_empty() { ancestor } else { ancestor.join(rest) })
    });
    whole.unwrap_or(path)
}

/// Owns the name until the listener is dropped.
///
/// # Errors
///
/// `AddrInUse` if another process owns it; else the system's error.
pub fn own(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// The process that owns a name, if it is visible here.
pub fn owner_of(name: &str) -> Option<u32> {
    listener(&format!("@{name}"))
}

/// The process that listens at a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Listening {
    /// None; the socket is left over.
    NoProcess,
    /// This process, if its id is visible here.
    Process(Option<u32>),
}

/// Connects to see whether a process listens at this path.
pub fn listening_at(socket: &Path) -> Listening {
    let Ok(address) = SocketAddrUnix::new(socket) else { return Listening::NoProcess };
    match look(&address) {
        // The queue of its connections is full.
        Ok(()) | Err(rustix::io::Errno::AGAIN) => {
            // The system lists it under the path that it was bound to.
            let ways = [socket.to_owned(), resolved(socket)];
            Listening::Process(ways.iter().find_map(|way| listener(way.to_str()?)))
        }
        Err(_) => Listening::NoProcess,
    }
}

fn look(address: &SocketAddrUnix) -> rustix::io::Result<()> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, address)
}

/// The process that listens under this name or path. One of another user or namespace is not
/// visible. The list of all sockets has the inode of each, and its process has it open.
fn listener(name: &str) -> Option<u32> {
    let list = fs::read_to_string("/proc/net/unix").ok()?;
    let inode = list.lines().find_map(|line| {
        // Num, RefCount, Protocol, Flags, Type, St, Inode, Path.
        let words: Vec<_> = line.splitn(7, ' ').collect();
        let [.., flags, _, _, rest] = words.as_slice() else { return None };
        let (inode, path) = rest.trim_start().split_once(' ')?;
        (*flags == "00010000" && path == name).then(|| inode.to_owned())
    })?;
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.find(|process: &u32| {
        let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let mut links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.any(|link| link.as_os_str() == wanted.as_str())
    })
}

/// The process for a message: ` (process 7)`, or nothing if it is unknown.
pub fn in_words(process: Option<u32>) -> String {
    process.map(|process| format!(" (process {process})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_owner_and_outlives_the_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        fs::create_dir(&data).expect("made");
        let name = of_path("test:", &data);
        let first = own(&name).expect("not owned");
        fs::remove_dir(&data).expect("removed");
        assert_eq!(of_path("test:", &data), name);
        let taken = own(&of_path("test:", &data)).expect_err("owned");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(owner_of(&name), Some(std::process::id()));
        drop(first);
        own(&name).expect("not owned any more");
        assert_eq!(owner_of(&of_path("test:", directory.path())), None);
    }

    #[test]
    fn a_path_has_the_same_name_through_any_symbolic_link() {
        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).expect("made");
        let names = [directory.path(), &link].map(|way| of_path("test:", &way.join("not/there")));
        assert_eq!(names[0], names[1]);
    }

    #[test]
    fn no_process_listens_at_a_socket_that_is_left_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        assert_eq!(listening_at(&path), Listening::NoProcess);
        let listener = UnixListener::bind(&path).expect("bound");
        assert_eq!(listening_at(&path), Listening::Process(Some(std::process::id())));
        drop(listener);
        assert_eq!(listening_at(&path), Listening::NoProcess);
    }
}

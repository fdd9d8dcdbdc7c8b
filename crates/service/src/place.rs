//! The place where a node serves: a path, and a name that the kernel keeps for it.
//!
//! A path can be removed under a node that lives, and a service may see a `/tmp` of its own. Were
//! the path all there is, the next client would start a second node, and two would be inside. So
//! the node that was started for a user also listens on an abstract socket, whose name is the
//! user's and the path's: the kernel lets one process have it, for as long as it lives, and clients
//! find it there when the path leads nowhere. Such a name has no permissions, so both ends look at
//! whose process the other is.
//!
//! A node that was configured has peers that count on it alone, so that none may be started in its
//! place. It leaves a note beside its socket.

use std::{
    fs, io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

/// The kernel's name for a place of this user.
fn kernel_name(socket: &Path) -> io::Result<SocketAddr> {
    let name = format!("mutua:{}:{}", geteuid().as_raw(), socket.display());
    SocketAddr::from_abstract_name(name)
}

/// Takes the kernel's name; `AddrInUse` if another process has it.
pub(crate) fn claim(socket: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&kernel_name(socket)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to whoever has the kernel's name.
pub(crate) fn reach(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&kernel_name(socket)?)?;
    let theirs = rustix::net::sockopt::socket_peercred(&stream)?.uid;
    if theirs != geteuid() {
        let text = format!("user {} has taken the place of this user's node", theirs.as_raw());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    stream.set_nonblocking(true)?;
    Ok(stream)
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

//! The notice that a host runs a member of a cluster.
//!
//! A lock without configuration on such a host would be local, and would exclude no client of the
//! cluster. So a node of the system configuration leaves a notice, and such a lock is refused.
//!
//! The notice is a file, which stays while the node does not run, and an abstract socket, which
//! containers see that have files of their own and the host's network. Any user can make sockets,
//! so a notice counts only if it is root's or this user's: no other user can deny locks with it.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io::{self, ErrorKind, Read},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::{MetadataExt, PermissionsExt},
            net::{SocketAddr, UnixListener, UnixStream},
        },
    },
    path::Path,
    time::Duration,
};

use anyhow::Result;
use mutua_node::Config;
use rustix::{
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt},
    process::geteuid,
};
use tokio::io::AsyncWriteExt;

use crate::exit::{self, Coded};

/// The file. Not in a node's data directory, which only its user may read and which may be lost.
const FILE: &str = "/var/lib/mutua-member";
/// The beginning of the abstract socket's name. The rest is random, so that no other user can take
/// the name first.
const PREFIX: &str = "mutua:member:";
/// How long the node may take to send the text.
const PATIENCE: Duration = Duration::from_millis(200);
/// The maximal length of the text.
const LONGEST: u64 = 300;

/// Leaves the notice, before the node grants anything. Call it on a tokio runtime: the socket is
/// served there.
pub(crate) fn leave(config: &Config) {
    let text = format!("node {} of cluster {}", config.node, config.cluster);
    let file = Path::new(FILE);
    if geteuid().is_root() {
        if let Err(error) = write(file, &text) {
            tracing::warn!(
                "locks without configuration are local on this host while this node does not run, \
                 since {FILE} cannot be written: {error}"
            );
        }
    } else if !fs::symlink_metadata(file).is_ok_and(|data| data.is_file() && data.uid() == 0) {
        tracing::warn!(
            "locks without configuration of other users, or while this node does not run, are \
             local on this host: a notice must be root's; create {FILE} as root"
        );
    }
    if let Err(error) = listen(text) {
        tracing::warn!("locks without configuration in containers are not refused: {error}");
    }
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    if read_file(file).is_some_and(|there| there == text) {
        return Ok(());
    }
    let new = file.with_extension("new");
    fs::write(&new, format!("{text}\n"))?;
    // Every user must be able to read it, whatever the mask is.
    fs::set_permissions(&new, fs::Permissions::from_mode(0o644))?;
    fs::rename(new, file)
}

/// Serves the text for as long as the process lives.
fn listen(text: String) -> io::Result<()> {
    let name = format!("{PREFIX}{:016x}", RandomState::new().hash_one(std::process::id()));
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                // It fits into the socket's buffer, so that no reader can delay the next one.
                Ok((mut stream, _)) => drop(stream.write_all(text.as_bytes()).await),
                Err(_) => tokio::time::sleep(PATIENCE).await,
            }
        }
    });
    Ok(())
}

/// Refuses a local lock without configuration on a host that has a member of a cluster.
pub(crate) fn refuse_if_left() -> Result<()> {
    let (member, remove) = if let Some(member) = read_file(Path::new(FILE)) {
        (member, format!("; if it has left the cluster, remove {FILE}"))
    } else if let Some(member) = read_sockets() {
        (member, ", which runs".to_owned())
    } else {
        return Ok(());
    };
    let member = crate::commands::plain(&member);
    let text = format!(
        "refused: no configuration was found, so this lock would be local, but this host has a \
         member of a cluster ({member}){remove}. Use --config FILE or --endpoint ENDPOINT for the \
         cluster's locks, or --local for those of this user on this host"
    );
    Err(Coded(exit::CONFIG, text).into())
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw()
}

/// The text of the file, if it is there and counts.
fn read_file(file: &Path) -> Option<String> {
    let data = fs::symlink_metadata(file).ok()?;
    if !data.is_file() || !is_trusted(data.uid()) {
        return None;
    }
    // It counts even if it cannot be read.
    Some(fs::File::open(file).map(read_text).unwrap_or_else(|_| read_text(io::empty())))
}

fn read_text(from: impl Read) -> String {
    let mut text = Vec::new();
    let _ = from.take(LONGEST).read_to_end(&mut text);
    match String::from_utf8_lossy(&text).trim() {
        "" => "a node that does not answer".to_owned(),
        text => text.to_owned(),
    }
}

/// The text of a socket that counts.
fn read_sockets() -> Option<String> {
    let list = fs::read("/proc/net/unix").ok()?;
    let list = String::from_utf8_lossy(&list);
    // Only those that listen: a connection has the name of its listener too.
    let listens = |line: &&str| line.split_ascii_whitespace().nth(3) == Some("00010000");
    let names = list.lines().filter(listens).filter_map(|line| line.rsplit(' ').next());
    let names = names.filter_map(|name| name.strip_prefix('@'));
    names.filter(|name| name.starts_with(PREFIX)).find_map(|name| read_socket(name).ok())
}

fn read_socket(name: &str) -> io::Result<String> {
    // Another user's listener that accepts nothing must not block us.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    if !is_trusted(sockopt::socket_peercred(&socket)?.uid.as_raw()) {
        return Err(ErrorKind::PermissionDenied.into());
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(read_text(stream))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::{is_trusted, read_file, write};

    #[test]
    fn the_file_is_readable_for_all_and_is_written_again_for_another_cluster() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("notice");
        assert_eq!(read_file(&file), None);
        for text in ["node a of cluster shop", "node a of cluster store"] {
            write(&file, text).expect("written");
            assert_eq!(read_file(&file).as_deref(), Some(text));
        }
        let mode = fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        fs::write(&file, "").expect("written");
        assert!(read_file(&file).is_some(), "an empty file counts too");
    }

    #[test]
    fn only_a_file_of_root_or_of_this_user_counts() {
        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/etc/passwd", &link).expect("made");
        assert_eq!(read_file(&link), None);
        assert_eq!(read_file(directory.path()), None);
        let own = rustix::process::geteuid().as_raw();
        assert!(is_trusted(0) && is_trusted(own) && !is_trusted(own + 1));
    }
}

//! The endpoint of the node that commands use: its socket and data directory.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::Result;
use mutua_client::fits;

use super::selection::{Member, SYSTEM_CONFIG, named_config};
use crate::exit::{self, Coded};

/// A node's socket and data directory.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// The data directory, private to the user.
    pub(crate) directory: PathBuf,
    /// The socket.
    pub(crate) socket: PathBuf,
    /// The configured node, if there is one.
    pub(crate) member: Option<Member>,
    /// Why no node may be started here, if so.
    pub(crate) never_start: Option<String>,
}

impl Endpoint {
    /// The endpoint of the node that this file configures. Without a file: the one that
    /// `MUTUA_SOCKET` names; else that of the node that `MUTUA_CONFIG` or the system configures.
    pub(crate) fn configured(file: Option<&Path>) -> Result<Option<Self>> {
        if let Some(named) = Self::of_variable().filter(|_| file.is_none()) {
            return named.map(Some);
        }
        let named = named_config(file);
        // A file that this user may not read is an error, and never a local lock.
        let missing = |error: io::Error| {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        };
        if named.is_none() && fs::metadata(SYSTEM_CONFIG).is_err_and(missing) {
            return Ok(None);
        }
        let path = named.unwrap_or_else(|| SYSTEM_CONFIG.into());
        let config = crate::commands::read_config(&path)?;
        let member = Member { cluster: config.cluster, node: config.node, file: path };
        let start = format!("start it with `mutua node --config {}`", member.file.display());
        let never_start = Some(format!("the node does not run: {start}"));
        let socket = socket_of(config.socket, &config.data);
        let (directory, member) = (config.data, Some(member));
        Ok(Some(Self { directory, socket, member, never_start }))
    }

    /// The endpoint of this user on this host, or the one that `MUTUA_SOCKET` names.
    pub(crate) fn local() -> Result<Self> {
        if let Some(named) = Self::of_variable() {
            return named;
        }
        let user = rustix::process::geteuid().as_raw();
        let directory = PathBuf::from(format!("/tmp/mutua-{user}"));
        let socket = mutua_client::endpoint::in_directory(&directory);
        Ok(Self { socket, directory, member: None, never_start: None })
    }

    fn of_variable() -> Option<Result<Self>> {
        let socket = std::env::var_os("MUTUA_SOCKET").filter(|socket| !socket.is_empty())?;
        let failed = |why| Coded(exit::CONFIG, format!("MUTUA_SOCKET: {why}")).into();
        Some(Self::named(Path::new(&socket)).map_err(failed))
    }

    /// The endpoint with this socket, or why the path cannot be used.
    fn named(socket: &Path) -> Result<Self, String> {
        let shown = socket.display();
        let Some(text) = socket.to_str() else {
            return Err(format!("{shown} is not UTF-8"));
        };
        let socket = std::path::absolute(socket).map_err(|error| {
            format!("{shown} is relative, and the working directory is missing: {error}")
        })?;
        let kind = fs::symlink_metadata(&socket).map(|data| data.file_type());
        // A symbolic link is followed to a running node; no node is started at its target.
        let kind = match kind {
            Ok(kind) if kind.is_symlink() => fs::metadata(&socket).map(|data| data.file_type()),
            kind => kind,
        };
        let is_directory = kind.as_ref().is_ok_and(|kind| kind.is_dir());
        if is_directory || text.ends_with('/') || socket.file_name().is_none() {
            return Err(format!("{shown} is a directory: give the path of a socket"));
        }
        if kind.is_ok_and(|kind| !kind.is_socket()) {
            return Err(format!("{shown} exists and is not a socket"));
        }
        let mut directory = socket.clone().into_os_string();
        directory.push(".d");
        let directory = directory.into();
        let endpoint = Self { directory, socket, member: None, never_start: None };
        fits(&endpoint.socket).map_err(|error| format!("{shown} is too long: {error}"))?;
        Ok(endpoint)
    }

    /// The address that a client connects to.
    pub(crate) fn endpoint(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Why no node may be started here, if so: alone it would not know the other members.
    pub(crate) fn is_kept(&self) -> Option<String> {
        if let Some(why) = &self.never_start {
            return Some(why.clone());
        }
        let kept = mutua_client::endpoint::reserved_for(&self.socket)?;
        Some(format!("only {kept} may serve at {}, and it does not run", self.socket.display()))
    }

    /// Creates the directory if needed. It must be private to this user: any user may create one of
    /// this name first.
    pub(crate) fn prepare(&self) -> Result<()> {
        let path = &self.directory;
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                let code = match error.kind() {
                    ErrorKind::NotFound | ErrorKind::NotADirectory => exit::CONFIG,
                    ErrorKind::PermissionDenied => exit::DENIED,
                    _ => exit::UNAVAILABLE,
                };
                let text = format!("cannot create {}: {error}", path.display());
                return Err(Coded(code, text).into());
            }
        }
        check(path)
    }
}

/// The socket of a configured node.
pub(crate) fn socket_of(named: Option<PathBuf>, data: &Path) -> PathBuf {
    named.unwrap_or_else(|| mutua_client::endpoint::in_directory(data))
}

fn check(path: &Path) -> Result<()> {
    let data = fs::symlink_metadata(path)
        .map_err(|error| exit::unavailable(format!("{}: {error}", path.display())))?;
    if data.uid() != rustix::process::geteuid().as_raw() {
        let (path, user) = (path.display(), data.uid());
        let text = format!(
            "{path} belongs to user {user}, but this user's node needs it: name another socket \
             with MUTUA_SOCKET"
        );
        return Err(Coded(exit::DENIED, text).into());
    }
    if data.is_dir() && data.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(exit::unavailable(format!(
        "{} is not a directory of this user with mode 0700: remove it, or name another socket with \
         MUTUA_SOCKET",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

    use super::{Endpoint, check};

    #[test]
    fn an_unusable_socket_path_is_refused_with_the_reason() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, within) = (directory.path().join("file"), directory.path().join("s"));
        fs::write(&file, "").expect("written");
        Endpoint::named(&within).expect("usable");
        let long = directory.path().join("a".repeat(107));
        let bytes = Path::new(OsStr::from_bytes(b"/tmp/\xff"));
        for (socket, why) in [
            (file.as_path(), "is not a socket"),
            (directory.path(), "is a directory"),
            (Path::new("/"), "is a directory"),
            (Path::new("/tmp/nothing/"), "is a directory"),
            (&long, "too long"),
            (bytes, "not UTF-8"),
        ] {
            let refused = Endpoint::named(socket).expect_err(why);
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_directory_that_other_users_could_use_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).expect("set");
        check(directory.path()).expect("it is private");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("set");
        check(directory.path()).expect_err("others may read it");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/", &link).expect("made");
        check(&link).expect_err("a symbolic link");
        check(&directory.path().join("nothing")).expect_err("it does not exist");
    }
}

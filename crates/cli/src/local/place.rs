//! Where the user's node is.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::Result;
use mutua_service::client::fits;

use crate::exit::{self, Coded};

/// A node's place.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its directory, private to the user.
    pub(crate) directory: PathBuf,
    /// Its socket.
    pub(crate) socket: PathBuf,
    /// The file that configures the node that is there: no other may be started.
    pub(crate) configured: Option<PathBuf>,
}

/// Where a machine's node is configured, if it is one of several.
const CONFIG: &str = "/etc/mutua.toml";

impl Place {
    /// The place that `MUTUA_SOCKET` names; else that of the node that this machine, or
    /// `MUTUA_CONFIG`, has a configuration of; else that of this user on this machine.
    pub(crate) fn find() -> Result<Self> {
        match std::env::var_os("MUTUA_SOCKET") {
            Some(socket) if !socket.is_empty() => Self::named(Path::new(&socket))
                .map_err(|why| Coded(exit::CONFIG, format!("MUTUA_SOCKET: {why}")).into()),
            _ => {
                if let Some(configured) = Self::configured()? {
                    return Ok(configured);
                }
                let user = rustix::process::geteuid().as_raw();
                let directory = PathBuf::from(format!("/tmp/mutua-{user}"));
                Ok(Self { socket: directory.join("locks.sock"), directory, configured: None })
            }
        }
    }

    /// The place of this socket, or why there can be none.
    fn named(socket: &Path) -> Result<Self, String> {
        let shown = socket.display();
        let Some(text) = socket.to_str() else {
            return Err(format!("{shown} is no UTF-8, and an endpoint must be"));
        };
        let socket = std::path::absolute(socket)
            .map_err(|error| format!("{shown} is relative to what there is not: {error}"))?;
        let kind = fs::symlink_metadata(&socket).map(|data| data.file_type());
        // Who names a link means where it leads, if a node is there; none is started in its place.
        let kind = match kind {
            Ok(kind) if kind.is_symlink() => fs::metadata(&socket).map(|data| data.file_type()),
            kind => kind,
        };
        let is_directory = kind.as_ref().is_ok_and(|kind| kind.is_dir());
        if is_directory || text.ends_with('/') || socket.file_name().is_none() {
            return Err(format!("{shown} is a directory, and should be the path of a socket"));
        }
        if kind.is_ok_and(|kind| !kind.is_socket()) {
            return Err(format!("{shown} is there and is no socket; it is left alone"));
        }
        let mut directory = socket.clone().into_os_string();
        directory.push(".d");
        let place = Self { directory: directory.into(), socket, configured: None };
        let added = mutua_node::socket_path(&place.directory);
        fits(&added).map_err(|why| format!("{shown} is too long: {why}, {}", added.display()))?;
        Ok(place)
    }

    fn configured() -> Result<Option<Self>> {
        let named = std::env::var_os("MUTUA_CONFIG").filter(|file| !file.is_empty());
        let file = PathBuf::from(named.as_deref().unwrap_or(CONFIG.as_ref()));
        if named.is_none() && !file.exists() {
            return Ok(None);
        }
        let directory = crate::commands::read_config(&file)?.data;
        let socket = directory.join("locks.sock");
        Ok(Some(Self { directory, socket, configured: Some(file) }))
    }

    /// What a client connects to.
    pub(crate) fn endpoint(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Why no node may be started here, if that is so: alone it would not know of the others.
    pub(crate) fn is_kept(&self) -> Option<String> {
        if let Some(file) = &self.configured {
            let file = file.display();
            return Some(format!("the node does not run: `mutua node --config {file}` starts it"));
        }
        let kept = mutua_service::kept_for(&self.socket)?;
        Some(format!("only {kept} may serve at {}, and it does not run", self.socket.display()))
    }

    /// Makes the directory if need be. It must be ours and nobody else's: anybody may make one of
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
                let text = format!("{} cannot be made: {error}", path.display());
                return Err(Coded(code, text).into());
            }
        }
        check(path)
    }
}

fn check(path: &Path) -> Result<()> {
    let data = fs::symlink_metadata(path)
        .map_err(|error| exit::unavailable(format!("{}: {error}", path.display())))?;
    if data.uid() != rustix::process::geteuid().as_raw() {
        let (path, user) = (path.display(), data.uid());
        let text = format!(
            "user {user} has taken the place of this user's node, {path}; MUTUA_SOCKET names \
             another"
        );
        return Err(Coded(exit::DENIED, text).into());
    }
    if data.is_dir() && data.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(exit::unavailable(format!(
        "{} should be a directory of this user with mode 0700 and is not; remove it, or name \
         another place with MUTUA_SOCKET",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

    use super::{Place, check};

    #[test]
    fn a_socket_that_cannot_be_is_refused_with_the_reason() {
        let place = tempfile::tempdir().expect("a directory");
        let (file, within) = (place.path().join("file"), place.path().join("s"));
        fs::write(&file, "").expect("written");
        Place::named(&within).expect("it can be");
        let long = place.path().join("a".repeat(90));
        let bytes = Path::new(OsStr::from_bytes(b"/tmp/\xff"));
        for (socket, why) in [
            (file.as_path(), "is no socket"),
            (place.path(), "is a directory"),
            (Path::new("/"), "is a directory"),
            (Path::new("/tmp/nothing/"), "is a directory"),
            (&long, "too long"),
            (bytes, "no UTF-8"),
        ] {
            let refused = Place::named(socket).expect_err(why);
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_place_that_others_could_use_is_refused() {
        let place = tempfile::tempdir().expect("a directory");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).expect("set");
        check(place.path()).expect("it is private");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("set");
        check(place.path()).expect_err("others may read it");
        let link = place.path().join("link");
        std::os::unix::fs::symlink("/", &link).expect("made");
        check(&link).expect_err("a link leads elsewhere");
        check(&place.path().join("nothing")).expect_err("it is not there");
    }
}

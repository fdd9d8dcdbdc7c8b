//! Where the user's node is.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::exit;

/// A node's place.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its directory, private to the user.
    pub(crate) directory: PathBuf,
    /// Its socket.
    pub(crate) socket: PathBuf,
}

impl Place {
    /// The place of this user on this machine, or the one that `MUTUA_SOCKET` names.
    pub(crate) fn find() -> Result<Self> {
        match std::env::var_os("MUTUA_SOCKET") {
            Some(socket) if !socket.is_empty() => {
                let socket = std::path::absolute(PathBuf::from(socket))
                    .context("MUTUA_SOCKET is no path")?;
                let mut directory = socket.clone().into_os_string();
                directory.push(".d");
                Ok(Self { directory: directory.into(), socket })
            }
            _ => {
                let user = rustix::process::geteuid().as_raw();
                let directory = PathBuf::from(format!("/tmp/mutua-{user}"));
                Ok(Self { socket: directory.join("locks.sock"), directory })
            }
        }
    }

    /// What a client connects to.
    pub(crate) fn endpoint(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Makes the directory if need be. It must be ours and nobody else's: anybody may make one of
    /// this name first.
    pub(crate) fn prepare(&self) -> Result<()> {
        let path = &self.directory;
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                let text = format!("{} cannot be made: {error}", path.display());
                return Err(exit::unavailable(text));
            }
        }
        check(path)
    }
}

fn check(path: &Path) -> Result<()> {
    let data = fs::symlink_metadata(path)
        .map_err(|error| exit::unavailable(format!("{}: {error}", path.display())))?;
    let ours = data.is_dir() && data.uid() == rustix::process::geteuid().as_raw();
    if ours && data.mode() & 0o077 == 0 {
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

    use super::check;

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

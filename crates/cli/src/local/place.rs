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
            Some(socket) if !socket.is_empty() => {
                let socket = std::path::absolute(PathBuf::from(socket))
                    .context("MUTUA_SOCKET is no path")?;
                let mut directory = socket.clone().into_os_string();
                directory.push(".d");
                Ok(Self { directory: directory.into(), socket, configured: None })
            }
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

//! The files of `mutua cert`.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::Result;
use mutua_tls::{Certificate, TlsError, issue::Authority};

use crate::exit::{self, CONFIG, Coded, DENIED, FILE};

/// The list of revoked certificates.
pub(super) const REVOKED: &str = "revoked.crl";

/// Checks that a certificate and its files can have this name.
pub(super) fn check_name(name: &str) -> Result<()> {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    let fits = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if !fits || !name.chars().all(letter) || name.len() > 64 {
        return Err(exit::usage(format!(
            "invalid name `{name}`: use up to 64 letters, digits, `-`, `.` and `_`, beginning with \
             a letter or digit"
        )));
    }
    if name == "ca" || name == "localhost" {
        return Err(exit::usage(format!("invalid name `{name}`: it has a meaning of its own")));
    }
    Ok(())
}

/// A directory of certificates.
#[derive(Debug)]
pub(super) struct Directory<'a>(pub(super) &'a Path);

impl Directory<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates the directory if it does not exist.
    pub(super) fn create(&self) -> Result<()> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(self.0);
        made.map_err(|error| cannot("create", self.0, &error))
    }

    /// Refuses to go on if there are files of this name already.
    pub(super) fn must_not_have(&self, name: &str, hint: &str) -> Result<()> {
        let found = ["crt", "key"].map(|end| self.file(&format!("{name}.{end}")));
        match found.iter().find(|path| path.exists()) {
            Some(path) => Err(exit::usage(format!("{} exists: {hint}", path.display()))),
            None => Ok(()),
        }
    }

    /// The CA with its key.
    pub(super) fn authority(&self) -> Result<Authority> {
        let (certificate, key) = (self.file("ca.crt"), self.file("ca.key"));
        if !certificate.exists() {
            let text = format!("no CA in {}: make one with `mutua cert init`", self.0.display());
            return Err(Coded(CONFIG, text).into());
        }
        let about = Certificate::read(&certificate).map_err(|error| unusable(&error))?;
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|error| {
                let text = format!("cannot read {}: {error}", path.display());
                let code =
                    if error.kind() == ErrorKind::PermissionDenied { DENIED } else { CONFIG };
                Coded(code, text)
            })
        };
        let opened = Authority::open(&read(&certificate)?, &read(&key)?, about);
        opened.map_err(|error| {
            Coded(CONFIG, format!("{} cannot be used: {error}", key.display())).into()
        })
    }

    /// The certificate of this name.
    pub(super) fn read(&self, name: &str) -> Result<Certificate> {
        let path = self.file(&format!("{name}.crt"));
        Certificate::read(&path).map_err(|error| match error {
            TlsError::Read { error, .. } if error.kind() == ErrorKind::NotFound => {
                let names = self.names().unwrap_or_default();
                crate::names::unknown("certificate", name, names.iter().map(String::as_str))
            }
            other => unusable(&other),
        })
    }

    /// The names of all certificates, the CA first.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(self.0).map_err(|error| {
            let text = format!("cannot read {}: {error}", self.0.display());
            anyhow::Error::from(Coded(CONFIG, text))
        })?;
        let name = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_suffix(".crt").map(str::to_owned)
        };
        let mut names: Vec<_> = entries.flatten().filter_map(name).collect();
        names.sort_by_key(|name| (name != "ca", name.clone()));
        Ok(names)
    }

    /// The serial numbers that are revoked already.
    pub(super) fn revoked(&self) -> Result<Vec<Vec<u8>>> {
        let path = self.file(REVOKED);
        match fs::read(&path) {
            Ok(bytes) => mutua_tls::issue::revoked_serials(&bytes).ok_or_else(|| {
                let text = format!("{} is not a list of revoked certificates", path.display());
                Coded(CONFIG, text).into()
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(cannot("read", &path, &error)),
        }
    }

    /// The mode of a node's or client's key. In a directory whose group passes on to its files (as
    /// the Debian package makes it for the node's user), the group reads the key.
    pub(super) fn key_mode(&self) -> u32 {
        let passes_on = fs::metadata(self.0).is_ok_and(|data| data.mode() & 0o2000 != 0);
        if passes_on { 0o640 } else { 0o600 }
    }

    /// Writes a file in one piece: a reader finds the old one or the new one.
    pub(super) fn replace(&self, name: &str, text: &str, mode: u32) -> Result<()> {
        let (path, temporary) = (self.file(name), self.file(&format!(".{name}.new")));
        let write = || {
            // What an earlier attempt left may have another mode.
            let _ = fs::remove_file(&temporary);
            let mut file =
                File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        write().map_err(|error| cannot("write", &path, &error))
    }
}

/// An error of the system.
fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => ": run this as root, or give --directory",
        _ => "",
    };
    Coded(FILE, format!("cannot {verb} {}: {error}{hint}", path.display())).into()
}

/// An error of a file that cannot be read or used.
pub(super) fn unusable(error: &TlsError) -> anyhow::Error {
    Coded(CONFIG, error.to_string()).into()
}

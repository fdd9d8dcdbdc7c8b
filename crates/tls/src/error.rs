//! Why certificates cannot be used.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Why certificates cannot be used. What was in use before still is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file has no section of this kind, or an invalid one.
    #[error("{} has no valid PEM section with {what}: {why}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// What was found.
        why: String,
    },
    /// Every user of this machine can read the key.
    #[error(
        "the key {} can be read by every user of this machine: `chmod o-rwx` it, and consider it \
         known to others",
        path.display()
    )]
    Exposed {
        /// The key's file.
        path: PathBuf,
    },
    /// A file has a certificate or a list that cannot be used.
    #[error("{} cannot be used: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The key does not belong to the certificate.
    #[error(
        "the key {} does not belong to the certificate {}",
        key.display(),
        certificate.display()
    )]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The certificate is for another name.
    #[error(
        "the certificate {} is for `{found}`, but this node is `{wanted}`: make one with `mutua \
         cert node {wanted}`",
        path.display()
    )]
    WrongName {
        /// The certificate's file.
        path: PathBuf,
        /// The node's name.
        wanted: String,
        /// The certificate's name.
        found: String,
    },
}

impl TlsError {
    /// The file that cannot be used; of two that do not belong together, the certificate.
    pub fn path(&self) -> &Path {
        match self {
            Self::Read { path, .. }
            | Self::Pem { path, .. }
            | Self::Exposed { path }
            | Self::Unusable { path, .. }
            | Self::Mismatch { certificate: path, .. }
            | Self::WrongName { path, .. } => path,
        }
    }
}

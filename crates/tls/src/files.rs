//! The files of a node's or client's certificates.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem::PemObject},
};

use crate::TlsError;

/// The files of a node's or client's certificates, all of them PEM.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsFiles {
    /// The certificates of the authorities that sign others. Two of them while one replaces the
    /// other.
    pub ca: PathBuf,
    /// The own certificate, followed by intermediate ones if there are any.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
    /// Lists of revoked certificates, if there are any.
    pub revoked: Option<PathBuf>,
}

/// What the files contain.
pub(crate) struct Contents {
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) revoked: Vec<CertificateRevocationListDer<'static>>,
}

/// Identity, size and time of each file: different when one of them was replaced.
pub(crate) type Stamp = Vec<Option<(u64, u64, i64, i64)>>;

impl TlsFiles {
    /// Makes relative paths relative to this directory.
    #[must_use]
    pub fn beside(self, directory: &Path) -> Self {
        Self {
            ca: directory.join(self.ca),
            certificate: directory.join(self.certificate),
            key: directory.join(self.key),
            revoked: self.revoked.map(|path| directory.join(path)),
        }
    }

    pub(crate) fn stamp(&self) -> Stamp {
        let stamp = |path: &PathBuf| {
            let data = fs::metadata(path).ok()?;
            Some((data.ino(), data.size(), data.mtime(), data.mtime_nsec()))
        };
        [Some(&self.ca), Some(&self.certificate), Some(&self.key), self.revoked.as_ref()]
            .into_iter()
            .flatten()
            .map(stamp)
            .collect()
    }

    pub(crate) fn read(&self) -> Result<Contents, TlsError> {
        let revoked = self.revoked.as_deref();
        let revoked =
            revoked.map_or(Ok(Vec::new()), |path| sections(path, "a list of revoked certificates"));
        Ok(Contents {
            roots: self.roots()?,
            chain: sections(&self.certificate, "a certificate")?,
            key: self.read_key()?,
            revoked: revoked?,
        })
    }

    pub(crate) fn roots(&self) -> Result<Arc<RootCertStore>, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in sections(&self.ca, "a certificate")? {
            roots.add(certificate).map_err(|error| TlsError::Unusable {
                path: self.ca.clone(),
                why: error.to_string(),
            })?;
        }
        Ok(Arc::new(roots))
    }

    fn read_key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        let bytes = read(&self.key)?;
        if fs::metadata(&self.key).is_ok_and(|data| data.mode() & 0o007 != 0) {
            return Err(TlsError::Exposed { path: self.key.clone() });
        }
        PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| TlsError::Pem {
            path: self.key.clone(),
            what: "a private key",
            why: error.to_string(),
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::Read { path: path.to_owned(), error })
}

/// All sections of a kind, at least one.
fn sections<T: PemObject>(path: &Path, what: &'static str) -> Result<Vec<T>, TlsError> {
    let bytes = read(path)?;
    let found: Result<Vec<T>, _> = T::pem_slice_iter(&bytes).collect();
    let failed = |why: String| TlsError::Pem { path: path.to_owned(), what, why };
    match found {
        Ok(found) if found.is_empty() => Err(failed("there is none".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(failed(error.to_string())),
    }
}

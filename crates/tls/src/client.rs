//! The certificates of a client over TCP.

use std::{path::PathBuf, sync::Arc};

use rustls::{ClientConfig, client::WebPkiServerVerifier, crypto::ring, version::TLS13};

use crate::{TlsError, TlsFiles, files::Contents};

/// The variables that name a client's files.
const VARIABLES: [&str; 3] = ["MUTUA_CA", "MUTUA_CERT", "MUTUA_KEY"];

/// A variable that names a file is not set.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "{missing} is not set: an https endpoint needs MUTUA_CA, MUTUA_CERT and MUTUA_KEY, which name \
     the files of `mutua cert client`"
)]
pub struct NotSet {
    missing: &'static str,
}

impl TlsFiles {
    /// A client's files, as the variables `MUTUA_CA`, `MUTUA_CERT` and `MUTUA_KEY` name them.
    ///
    /// # Errors
    ///
    /// If one of them is not set.
    pub fn of_environment() -> Result<Self, NotSet> {
        let file = |missing: &'static str| {
            let value = std::env::var_os(missing).filter(|value| !value.is_empty());
            value.map(PathBuf::from).ok_or(NotSet { missing })
        };
        let [ca, certificate, key] = VARIABLES;
        Ok(Self { ca: file(ca)?, certificate: file(certificate)?, key: file(key)?, revoked: None })
    }

    /// The configuration of a client that connects to a server by its host name or address, with
    /// HTTP/2.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or key and certificate do not belong together.
    pub fn client(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let Contents { roots, chain, key, .. } = self.read()?;
        let provider = Arc::new(ring::default_provider());
        let unusable = |why: String| TlsError::Unusable { path: self.ca.clone(), why };
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| unusable(error.to_string()))?;
        let config = builder.with_webpki_verifier(verifier).with_client_auth_cert(chain, key);
        let mut config = config.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: self.certificate.clone(), key: self.key.clone() }
            }
            other => TlsError::Unusable { path: self.certificate.clone(), why: other.to_string() },
        })?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

//! A node's identity: its certificates as they are in use, read again when the files change.

use std::{
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use rustls::{
    ClientConfig, Error, ServerConfig,
    client::Resumption,
    crypto::{CryptoProvider, ring},
    pki_types::UnixTime,
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
    version::TLS13,
};

use crate::{
    Certificate, TlsError, TlsFiles,
    files::{Contents, Stamp},
    verify::{PeerVerifier, in_words},
};

/// Warnings begin this long before a certificate expires.
const WARNING: Duration = Duration::from_secs(30 * 24 * 3600);

/// A node's identity: its certificates as they are in use. [`renew`](Self::renew) reads the files
/// again; connections that exist keep what they began with.
#[derive(Debug)]
pub struct Identity {
    files: TlsFiles,
    /// The name that the certificate must have.
    name: String,
    current: RwLock<Arc<Current>>,
    /// The files that were looked at last, whether they could be used or not.
    seen: Mutex<Stamp>,
}

/// What is in use.
#[derive(Debug)]
struct Current {
    certificate: Certificate,
    dial: Arc<ClientConfig>,
    accept: Arc<ServerConfig>,
    serve: Arc<ServerConfig>,
}

impl Identity {
    /// Reads the files. The certificate must be that of the node of this name.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or the other members would refuse the certificate.
    pub fn open(files: TlsFiles, name: &str) -> Result<Self, TlsError> {
        // Before they are read: a change meanwhile is seen as one.
        let seen = files.stamp();
        let current = Arc::new(current(&files, name)?);
        let (current, seen) = (RwLock::new(current), Mutex::new(seen));
        Ok(Self { files, name: name.to_owned(), current, seen })
    }

    /// Reads the files again if one of them has changed since they were last read; returns whether
    /// new certificates are in use.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open). The certificates that are in use stay in use.
    pub fn renew(&self) -> Result<bool, TlsError> {
        let stamp = self.files.stamp();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == stamp {
            return Ok(false);
        }
        *seen = stamp;
        let new = Arc::new(current(&self.files, &self.name)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(true)
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The configuration for connections to other members.
    pub fn dial(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.current().dial)
    }

    /// The configuration for connections of other members.
    pub fn accept(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().accept)
    }

    /// The configuration for connections of clients, which speak HTTP/2.
    pub fn serve(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().serve)
    }

    /// The certificate in use.
    pub fn certificate(&self) -> Certificate {
        self.current().certificate.clone()
    }

    /// A warning, if the certificate expires soon.
    pub fn warning(&self, now: SystemTime) -> Option<String> {
        let current = self.current();
        let left = current.certificate.left(now);
        let file = self.files.certificate.display();
        let renew = "renew it, and the node takes it up without a restart";
        match left.as_secs() / 86_400 {
            _ if left > WARNING => None,
            _ if left.is_zero() => Some(format!("the certificate {file} has expired: {renew}")),
            0 => Some(format!("the certificate {file} expires within a day: {renew}")),
            days => Some(format!("the certificate {file} expires in {days} days: {renew}")),
        }
    }
}

fn current(files: &TlsFiles, name: &str) -> Result<Current, TlsError> {
    let contents = files.read()?;
    let provider = Arc::new(ring::default_provider());
    let clients = clients(files, &contents, &provider)?;
    let (roots, second) = (Arc::clone(&contents.roots), Arc::clone(&provider));
    let peers = Arc::new(PeerVerifier::new(Arc::clone(&clients), roots, second));
    let certificate = check_own(files, &contents, &peers, name)?;
    let configurations = configurations(contents, &provider, clients, peers);
    let (dial, accept, serve) = configurations.map_err(|error| unusable_pair(files, error))?;
    Ok(Current { certificate, dial, accept, serve })
}

/// The configurations to dial and to accept members, and to serve clients.
type Configurations = (Arc<ClientConfig>, Arc<ServerConfig>, Arc<ServerConfig>);

fn configurations(
    contents: Contents,
    provider: &Arc<CryptoProvider>,
    clients: Arc<dyn ClientCertVerifier>,
    peers: Arc<PeerVerifier>,
) -> Result<Configurations, Error> {
    let Contents { chain, key, .. } = contents;
    let mut dial = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&peers) as _)
        .with_client_auth_cert(chain.clone(), key.clone_key())?;
    // A resumed session would not look at the certificates again.
    dial.resumption = Resumption::disabled();
    dial.enable_sni = false;
    let server = |verifier: Arc<dyn ClientCertVerifier>| {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok::<_, Error>(config)
    };
    let accept = server(peers)?;
    let mut serve = server(clients)?;
    // gRPC, and the JSON gateway for clients without HTTP/2.
    serve.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((dial.into(), accept.into(), serve.into()))
}

fn clients(
    files: &TlsFiles,
    contents: &Contents,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = Arc::clone(&contents.roots);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider))
        .with_crls(contents.revoked.clone());
    // A list of one CA says nothing of the certificates of another.
    builder.allow_unknown_revocation_status().build().map_err(|error| TlsError::Unusable {
        path: files.revoked.clone().unwrap_or_else(|| files.ca.clone()),
        why: error.to_string(),
    })
}

/// Checks the own certificate as another member would.
fn check_own(
    files: &TlsFiles,
    contents: &Contents,
    peers: &PeerVerifier,
    name: &str,
) -> Result<Certificate, TlsError> {
    let path = || files.certificate.clone();
    let unusable = |why: String| TlsError::Unusable { path: path(), why };
    let [own, intermediates @ ..] = contents.chain.as_slice() else {
        return Err(unusable("it has no certificate".to_owned()));
    };
    peers.check(own, intermediates, UnixTime::now()).map_err(|error| unusable(in_words(&error)))?;
    let certificate = Certificate::of(own).ok_or_else(|| unusable("it is invalid".to_owned()))?;
    if certificate.name.as_deref() == Some(name) {
        return Ok(certificate);
    }
    let found = certificate.shown_name().to_owned();
    Err(TlsError::WrongName { path: path(), wanted: name.to_owned(), found })
}

fn unusable_pair(files: &TlsFiles, error: Error) -> TlsError {
    let certificate = files.certificate.clone();
    match error {
        Error::InconsistentKeys(_) => TlsError::Mismatch { certificate, key: files.key.clone() },
        other => TlsError::Unusable { path: certificate, why: in_words(&other) },
    }
}

#[cfg(test)]
mod tests;

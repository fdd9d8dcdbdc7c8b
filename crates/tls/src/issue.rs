//! Makes a private CA and the certificates that it signs.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevocationReason, RevokedCertParams, SanType, SerialNumber,
};

use rustls::pki_types::{CertificateRevocationListDer, pem::PemObject};
use x509_parser::{prelude::FromDer, revocation_list::CertificateRevocationList};

use crate::Certificate;

/// Certificates are valid from this long ago on: clocks differ.
const BACKDATED: Duration = Duration::from_secs(3600);

/// The time in which a list of revoked certificates should be replaced. It counts after it too.
const LIST_VALID: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why no certificate was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IssueError {
    /// A host is neither a host name nor an address.
    #[error("invalid host `{0}`: use a host name or an IP address, without a port")]
    Host(String),
    /// The CA has expired, so that nothing it signs is valid.
    #[error(
        "the CA has expired: renew it with `mutua cert renew ca`, and copy ca.crt to all nodes"
    )]
    Expired,
    /// The certificate or key cannot be made or read.
    #[error("{0}")]
    Failed(#[from] rcgen::Error),
}

/// A certificate and its key, as PEM.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The key: a secret.
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is not for logs.
        f.debug_struct("Issued").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Makes a CA of this name.
///
/// # Errors
///
/// See [`IssueError`].
pub fn new_authority(name: &str, valid: Duration) -> Result<Issued, IssueError> {
    let key = KeyPair::generate()?;
    let certificate = authority_certificate(name, valid, &key)?;
    Ok(Issued { certificate, key: key.serialize_pem() })
}

fn authority_certificate(name: &str, valid: Duration, key: &KeyPair) -> Result<String, IssueError> {
    let mut parameters = parameters(name, valid);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(parameters.self_signed(key)?.pem())
}

fn parameters(name: &str, valid: Duration) -> CertificateParams {
    let now = SystemTime::now();
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = (now - BACKDATED).into();
    parameters.not_after = (now + valid).into();
    parameters
}

/// A CA with its key: signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    about: Certificate,
}

/// The holder of a new certificate.
#[derive(Clone, Copy, Debug)]
pub enum Holder<'a> {
    /// A member, which serves clients at these hosts.
    Node {
        /// Host names and addresses.
        hosts: &'a [String],
    },
    /// A client.
    Client,
}

impl Authority {
    /// Reads a CA; `about` is its certificate as read already.
    ///
    /// # Errors
    ///
    /// See [`IssueError`].
    pub fn open(certificate: &str, key: &str, about: Certificate) -> Result<Self, IssueError> {
        let issuer = Issuer::from_ca_cert_pem(certificate, KeyPair::from_pem(key)?)?;
        Ok(Self { issuer, about })
    }

    /// Makes the CA's certificate anew with the same name and key: what it has signed stays valid.
    ///
    /// # Errors
    ///
    /// See [`IssueError`].
    pub fn renew(&self, valid: Duration) -> Result<String, IssueError> {
        authority_certificate(self.about.shown_name(), valid, self.issuer.key())
    }

    /// Makes a key and a certificate for it, valid for this long, and no longer than the CA.
    ///
    /// # Errors
    ///
    /// See [`IssueError`].
    pub fn issue(
        &self,
        name: &str,
        holder: Holder<'_>,
        valid: Duration,
    ) -> Result<Issued, IssueError> {
        let left = self.about.left(SystemTime::now());
        if left.is_zero() {
            return Err(IssueError::Expired);
        }
        let mut parameters = parameters(name, valid.min(left));
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Holder::Node { hosts } = holder {
            parameters.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
            let hosts = hosts.iter().map(|host| alternative_name(host));
            parameters.subject_alt_names = hosts.collect::<Result<_, _>>()?;
        }
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem() })
    }

    /// Makes the list of revoked certificates, from their serial numbers.
    ///
    /// # Errors
    ///
    /// See [`IssueError`].
    pub fn revoke(&self, serials: &[Vec<u8>]) -> Result<String, IssueError> {
        let now = SystemTime::now();
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: now.into(),
            reason_code: Some(RevocationReason::Unspecified),
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: (now - BACKDATED).into(),
            next_update: (now + LIST_VALID).into(),
            // Grows with each list, as the time does.
            crl_number: SerialNumber::from(
                now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs(),
            ),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&self.issuer)?.pem()?)
    }
}

fn alternative_name(host: &str) -> Result<SanType, IssueError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let invalid = || IssueError::Host(host.to_owned());
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    if host.is_empty() || !host.chars().all(letter) {
        return Err(invalid());
    }
    host.try_into().map(SanType::DnsName).map_err(|_| invalid())
}

/// The serial numbers in a list of revoked certificates, as PEM; `None` if it is not one.
pub fn revoked_serials(pem: &[u8]) -> Option<Vec<Vec<u8>>> {
    let list = CertificateRevocationListDer::from_pem_slice(pem).ok()?;
    let (_, list) = CertificateRevocationList::from_der(&list).ok()?;
    Some(list.iter_revoked_certificates().map(|one| one.raw_serial().to_vec()).collect())
}

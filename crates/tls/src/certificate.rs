//! What a certificate says.

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, ParsedExtension},
    prelude::FromDer,
};

use crate::TlsError;

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// It signs other certificates.
    Authority,
    /// A member: it accepts connections and makes them.
    Node,
    /// A client: it only makes connections.
    Client,
    /// A server that is not a member, since it may not make connections.
    Server,
}

impl Role {
    /// The role in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Authority => "ca",
            Self::Node => "node",
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// What a certificate says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Certificate {
    /// Its name: the common name of its subject or, without one, its only DNS name.
    pub name: Option<String>,
    /// The host names and addresses at which it may serve clients.
    pub hosts: Vec<String>,
    /// What it may be used for.
    pub role: Role,
    /// The name of its issuer.
    pub issuer: String,
    /// Its serial number, in hexadecimal digits.
    pub serial: String,
    /// When it becomes valid.
    pub from: SystemTime,
    /// When it expires.
    pub until: SystemTime,
}

impl Certificate {
    /// Reads a certificate; `None` if these bytes are not one.
    pub fn of(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = X509Certificate::from_der(der).ok()?;
        let hosts = hosts(&parsed);
        let mut common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        let name = match (common.next(), hosts.as_slice()) {
            (Some(name), _) => Some(name.to_owned()),
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
        };
        let issuer = parsed.issuer().iter_common_name().find_map(|name| name.as_str().ok());
        let validity = parsed.validity();
        Some(Self {
            name,
            role: role(&parsed),
            issuer: issuer.map_or_else(|| parsed.issuer().to_string(), str::to_owned),
            serial: parsed.raw_serial_as_string().replace(':', ""),
            from: moment(validity.not_before.timestamp()),
            until: moment(validity.not_after.timestamp()),
            hosts,
        })
    }

    /// Reads the first certificate of a PEM file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has no certificate.
    pub fn read(path: &Path) -> Result<Self, TlsError> {
        let der = read_first(path)?;
        let why = || "it is not an X.509 certificate".to_owned();
        Self::of(&der).ok_or_else(|| TlsError::Unusable { path: path.to_owned(), why: why() })
    }

    /// The bytes of its serial number.
    pub fn serial_bytes(&self) -> Vec<u8> {
        let digits = self.serial.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        digits.filter_map(byte).collect()
    }

    /// The name for people and logs.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or("(no name)")
    }

    /// The time until it expires; zero if it has.
    pub fn left(&self, now: SystemTime) -> Duration {
        self.until.duration_since(now).unwrap_or_default()
    }
}

/// The first certificate of a PEM file.
pub(crate) fn read_first(path: &Path) -> Result<CertificateDer<'static>, TlsError> {
    let bytes =
        std::fs::read(path).map_err(|error| TlsError::Read { path: path.to_owned(), error })?;
    CertificateDer::from_pem_slice(&bytes).map_err(|error| TlsError::Pem {
        path: path.to_owned(),
        what: "a certificate",
        why: error.to_string(),
    })
}

fn moment(seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

fn hosts(parsed: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(names)) = parsed.subject_alternative_name() else { return Vec::new() };
    let shown = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => Some(std::net::Ipv4Addr::new(a, b, c, d).to_string()),
            ref bytes => {
                let bytes: [u8; 16] = bytes.try_into().ok()?;
                Some(std::net::Ipv6Addr::from(bytes).to_string())
            }
        },
        _ => None,
    };
    names.value.general_names.iter().filter_map(shown).collect()
}

fn role(parsed: &X509Certificate<'_>) -> Role {
    if parsed.is_ca() {
        return Role::Authority;
    }
    let usage = parsed.extensions().iter().find_map(|one| match one.parsed_extension() {
        ParsedExtension::ExtendedKeyUsage(usage) => Some(usage),
        _ => None,
    });
    // Without the extension every usage is allowed.
    let Some(usage) = usage.filter(|usage| !usage.any) else { return Role::Node };
    match (usage.server_auth, usage.client_auth) {
        (true, true) => Role::Node,
        (true, false) => Role::Server,
        (false, _) => Role::Client,
    }
}

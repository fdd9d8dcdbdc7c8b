//! Which certificates a member accepts from another one.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{
        ParsedCertificate,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

/// Accepts the certificates of members, in both directions alike: signed by the CA, valid now, not
/// revoked, and made for accepting and making connections. A client's certificate is not: a client
/// could otherwise take the place of the member that has its name.
///
/// Whose certificate it is, is compared behind the handshake, when the other side has said which
/// member it is: addresses of members may change, and their names need not be host names.
#[derive(Debug)]
pub(crate) struct PeerVerifier {
    /// Checks the chain, the dates and the list of revoked certificates.
    clients: Arc<dyn ClientCertVerifier>,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl PeerVerifier {
    pub(crate) fn new(
        clients: Arc<dyn ClientCertVerifier>,
        roots: Arc<RootCertStore>,
        provider: Arc<CryptoProvider>,
    ) -> Self {
        Self { clients, roots, provider }
    }

    pub(crate) fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        self.clients.verify_client_cert(certificate, intermediates, now)?;
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let roots = &self.roots;
        verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)
    }

    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }
}

/// The configurations allow TLS 1.3 alone.
fn older_tls() -> Error {
    Error::General("TLS 1.3 is required".to_owned())
}

/// The methods on signatures, which rustls requires alike of both sides' verifiers.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(older_tls())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.check_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.clients.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity, intermediates, now).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}

/// An error of TLS as a sentence's end for logs and errors.
pub(crate) fn in_words(error: &Error) -> String {
    let why = match error {
        Error::InvalidCertificate(why) => why,
        Error::InvalidMessage(_) => return "it does not speak TLS".to_owned(),
        Error::AlertReceived(alert) => return alert_in_words(&format!("{alert:?}")),
        Error::NoCertificatesPresented => return "it presents no certificate".to_owned(),
        other => return other.to_string(),
    };
    let text = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet: compare the clocks"
        }
        CertificateError::Revoked => "the certificate is revoked",
        // The latter is of another CA that has the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the certificate is not signed by this cluster's CA"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is not made for a node: it must allow server and client authentication"
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            // `DnsName("a")` and `IpAddress(::1)`.
            let plain = |name: &String| {
                let value = name.split_once('(').map_or(&**name, |(_, value)| value);
                value.trim_matches(['(', ')', '"']).to_owned()
            };
            let names = presented.iter().map(plain).collect::<Vec<_>>().join(", ");
            return format!(
                "the certificate is not for the name in the endpoint: it is for {names}"
            );
        }
        CertificateError::NotValidForName => "the certificate is not for the name in the endpoint",
        other => return format!("invalid certificate: {other}"),
    };
    text.to_owned()
}

/// Why the other side refuses the connection, by the name of its alert.
pub(crate) fn alert_in_words(alert: &str) -> String {
    let text = match alert {
        "CertificateExpired" => "it says that this side's certificate has expired",
        "CertificateRevoked" => "it says that this side's certificate is revoked",
        "UnknownCA" | "DecryptError" => {
            "it says that this side's certificate is not signed by its CA"
        }
        "CertificateRequired" => {
            "it requires a certificate of this side: name one with MUTUA_CERT and MUTUA_KEY"
        }
        // Of a client's certificate, at the port where members connect to each other.
        "UnsupportedCertificate" => {
            "it accepts certificates of nodes alone, as the nodes' own port does: clients use the \
             client port, which is the address of `mutua node --listen`"
        }
        other => return format!("it refuses this side's certificate ({other})"),
    };
    text.to_owned()
}

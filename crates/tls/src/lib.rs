//! Mutual TLS 1.3: the certificates of members and clients.
//!
//! A cluster has a private certificate authority (CA). Each member has a certificate whose name is
//! the member's and that is made for both ends of a connection; a client has one that is made for
//! making connections only. [`Identity`] is a node's: the configurations for both ends, read from
//! files and read again when these change. `issue` (a feature) makes a CA and certificates;
//! those of any other CA serve as well.

mod certificate;
mod client;
mod error;
mod files;
mod identity;
#[cfg(any(test, feature = "issue"))]
pub mod issue;
mod verify;

pub use certificate::{Certificate, Role};
pub use client::NotSet;
pub use error::TlsError;
pub use files::TlsFiles;
pub use identity::Identity;
pub use rustls;

/// An error of TLS in words for a log.
pub fn in_words(error: &rustls::Error) -> String {
    verify::in_words(error)
}

/// What an alert of the other side means, by its name in the text of an error; `None` for another
/// text. Libraries pass errors of TLS on as text.
pub fn alert_in_words(text: &str) -> Option<String> {
    let (_, alert) = text.split_once("received fatal alert: ")?;
    Some(verify::alert_in_words(alert))
}

/// A point in time as a date, in UTC.
pub fn date(time: std::time::SystemTime) -> String {
    time::OffsetDateTime::from(time).date().to_string()
}

#[cfg(test)]
mod tests {
    use super::alert_in_words;

    #[test]
    fn an_alert_in_a_librarys_text_is_put_into_words() {
        let in_words = |name: &str| alert_in_words(&format!("received fatal alert: {name}"));
        for (name, word) in [
            ("CertificateExpired", "expired"),
            ("UnknownCA", "CA"),
            ("CertificateRevoked", "revoked"),
            ("UnsupportedCertificate", "clients use the client port"),
        ] {
            assert!(in_words(name).is_some_and(|text| text.contains(word)), "{name}");
        }
        assert!(in_words("BadCertificate").is_some_and(|text| text.contains("BadCertificate")));
        assert_eq!(alert_in_words("connection reset"), None);
    }
}

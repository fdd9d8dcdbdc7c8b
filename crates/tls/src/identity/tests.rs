//! Handshakes in memory: members reach each other, and nobody else reaches them.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use rustls::{ClientConnection, Connection, ServerConnection, pki_types::ServerName};
use tempfile::TempDir;

use super::*;
use crate::{
    Role,
    issue::{Authority, Holder, Issued, new_authority},
};

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
const NODE: Holder<'_> = Holder::Node { hosts: &[] };

/// A CA in a directory of its own.
struct Ca {
    directory: TempDir,
    authority: Authority,
}

impl Ca {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let Issued { certificate, key } = new_authority("test CA", YEAR).expect("a CA");
        let path = directory.path().join("ca.crt");
        fs::write(&path, &certificate).expect("written");
        let about = Certificate::read(&path).expect("a certificate");
        assert_eq!((about.role, about.shown_name()), (Role::Authority, "test CA"));
        let authority = Authority::open(&certificate, &key, about).expect("the CA");
        Self { directory, authority }
    }

    fn files(&self, name: &str) -> TlsFiles {
        TlsFiles {
            ca: "ca.crt".into(),
            certificate: format!("{name}.crt").into(),
            key: format!("{name}.key").into(),
            revoked: None,
        }
        .beside(self.directory.path())
    }

    fn issue(&self, name: &str, holder: Holder<'_>, valid: Duration) -> TlsFiles {
        let files = self.files(name);
        let issued = self.authority.issue(name, holder, valid).expect("a certificate");
        write(&files.certificate, &issued.certificate);
        write(&files.key, &issued.key);
        files
    }

    fn node(&self, name: &str) -> Identity {
        Identity::open(self.issue(name, NODE, YEAR), name).expect("an identity")
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("private");
}

/// What these files would do in a program that does not check them first.
fn unchecked(files: &TlsFiles) -> Configurations {
    let contents = files.read().expect("files");
    let provider = Arc::new(ring::default_provider());
    let clients = clients(files, &contents, &provider).expect("a verifier");
    let (roots, second) = (Arc::clone(&contents.roots), Arc::clone(&provider));
    let peers = Arc::new(PeerVerifier::new(Arc::clone(&clients), roots, second));
    configurations(contents, &provider, clients, peers).expect("configurations")
}

/// Lets the two ends speak until one fails or a byte has come through each way; returns the error
/// of the side that refuses.
fn converse(dial: Arc<ClientConfig>, accept: Arc<ServerConfig>) -> Result<(), String> {
    let name = ServerName::try_from("member.invalid").expect("a name");
    let mut one = Connection::from(ClientConnection::new(dial, name).expect("a client"));
    let mut other = Connection::from(ServerConnection::new(accept).expect("a server"));
    one.writer().write_all(b"1").expect("buffered");
    other.writer().write_all(b"2").expect("buffered");
    for _ in 0..10 {
        for turn in 0..2 {
            let (from, to) =
                if turn == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
            let mut bytes = Vec::new();
            while from.wants_write() {
                from.write_tls(&mut bytes).expect("in memory");
            }
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                to.read_tls(&mut rest).expect("in memory");
                to.process_new_packets().map_err(|error| in_words(&error))?;
            }
        }
    }
    for end in [&mut one, &mut other] {
        assert_eq!(end.reader().read(&mut [0]).expect("the other end's byte"), 1);
    }
    Ok(())
}

#[test]
fn members_of_one_ca_reach_each_other() {
    let ca = Ca::new();
    let (a, b) = (ca.node("a"), ca.node("b"));
    converse(a.dial(), b.accept()).expect("connected");
    converse(b.dial(), a.accept()).expect("connected");
}

#[test]
fn a_stranger_reaches_nobody_and_is_reached_by_nobody() {
    let (ours, theirs) = (Ca::new(), Ca::new());
    let (a, b) = (ours.node("a"), theirs.node("b"));
    let unknown = Err("the certificate is not signed by this cluster's CA".to_owned());
    // Each side checks, though the other one would accept it.
    assert_eq!(converse(b.dial(), a.accept()), unknown);
    let mut files = theirs.files("b");
    files.ca = ours.files("a").ca;
    let accepting = unchecked(&files);
    assert_eq!(converse(accepting.0, a.accept()), unknown);
    assert_eq!(converse(a.dial(), accepting.1), unknown);
}

#[test]
fn an_expired_certificate_reaches_nobody() {
    let ca = Ca::new();
    let a = ca.node("a");
    let files = ca.issue("b", NODE, Duration::ZERO);
    std::thread::sleep(Duration::from_millis(1100));
    let expired = "the certificate has expired";
    let error = Identity::open(files.clone(), "b").expect_err("expired").to_string();
    assert!(error.contains(expired), "{error}");
    let (dial, accept, _) = unchecked(&files);
    assert_eq!(converse(dial, a.accept()), Err(expired.to_owned()));
    assert_eq!(converse(a.dial(), accept), Err(expired.to_owned()));
}

#[test]
fn a_client_s_certificate_is_not_a_member_s() {
    let ca = Ca::new();
    let a = ca.node("a");
    let files = ca.issue("b", Holder::Client, YEAR);
    let (dial, ..) = unchecked(&files);
    let error = converse(Arc::clone(&dial), a.accept()).expect_err("a client");
    assert!(error.contains("not made for a node"), "{error}");
    let mut dial = (*dial).clone();
    dial.alpn_protocols = vec![b"h2".to_vec()];
    converse(dial.into(), a.serve()).expect("it is served as a client");
}

#[test]
fn a_revoked_certificate_reaches_nobody() {
    let ca = Ca::new();
    let files = ca.issue("b", NODE, YEAR);
    let b = Identity::open(files.clone(), "b").expect("an identity");
    let mut ours = ca.issue("a", NODE, YEAR);
    ours.revoked = Some(ca.directory.path().join("revoked.pem"));
    let list = |serials: &[Vec<u8>]| ca.authority.revoke(serials).expect("a list");
    let path = ours.revoked.clone().expect("a path");
    write(&path, &list(&[]));
    let a = Identity::open(ours, "a").expect("an identity");
    converse(b.dial(), a.accept()).expect("not revoked yet");
    let serial = Certificate::read(&files.certificate).expect("a certificate").serial_bytes();
    write(&path, &list(&[serial]));
    assert!(a.renew().expect("read"), "the list has changed");
    let revoked = Err("the certificate is revoked".to_owned());
    assert_eq!(converse(b.dial(), a.accept()), revoked);
    assert_eq!(converse(a.dial(), b.accept()), revoked);
}

#[test]
fn new_files_are_taken_up_and_bad_ones_change_nothing() {
    let ca = Ca::new();
    let files = ca.issue("a", NODE, YEAR);
    let a = Identity::open(files.clone(), "a").expect("an identity");
    let first = a.certificate();
    assert!(!a.renew().expect("unchanged"), "nothing has changed");
    // Only the certificate is written yet: the key is the old one.
    let issued = ca.authority.issue("a", NODE, 2 * YEAR).expect("a certificate");
    write(&files.certificate, &issued.certificate);
    let error = a.renew().expect_err("half of it").to_string();
    assert!(error.contains("does not belong to"), "{error}");
    assert_eq!(a.certificate(), first);
    assert!(!a.renew().expect("it is reported once"), "nothing has changed since");
    write(&files.key, &issued.key);
    assert!(a.renew().expect("both"), "the new pair is in use");
    assert_ne!(a.certificate().serial, first.serial);
}

#[test]
fn files_that_cannot_be_used_are_refused_with_the_reason() {
    let ca = Ca::new();
    let files = ca.issue("a", NODE, YEAR);
    let refused = |files: &TlsFiles, why: &str| {
        let error = Identity::open(files.clone(), "a").expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(&ca.issue("b", NODE, YEAR), "is for `b`, but this node is `a`");
    refused(&ca.files("c"), "cannot read");
    refused(&TlsFiles { ca: files.key.clone(), ..files.clone() }, "no valid PEM section");
    refused(&ca.issue("a", Holder::Client, YEAR), "not made for a node");
    ca.issue("a", NODE, YEAR);
    let readable = fs::Permissions::from_mode(0o644);
    fs::set_permissions(&files.key, readable).expect("set");
    refused(&files, "can be read by every user");
}

#[test]
fn a_certificate_that_expires_soon_is_warned_about() {
    let ca = Ca::new();
    let a = Identity::open(ca.issue("a", NODE, YEAR), "a").expect("an identity");
    let now = SystemTime::now();
    assert_eq!(a.warning(now), None);
    let day = Duration::from_secs(24 * 3600);
    let warning = a.warning(now + YEAR - 3 * day - Duration::from_secs(60)).expect("a warning");
    assert!(warning.contains("expires in 3 days"), "{warning}");
    let warning = a.warning(now + 2 * YEAR).expect("a warning");
    assert!(warning.contains("has expired"), "{warning}");
}

#[test]
fn a_renewed_authority_still_vouches_for_what_it_signed() {
    let ca = Ca::new();
    let a = ca.node("a");
    write(&ca.directory.path().join("ca.crt"), &ca.authority.renew(2 * YEAR).expect("renewed"));
    assert!(a.renew().expect("read"), "the CA has changed");
    converse(a.dial(), ca.node("b").accept()).expect("connected");
}

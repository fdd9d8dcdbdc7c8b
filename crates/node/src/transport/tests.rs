use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use mutua_tls::{
    Certificate, TlsFiles,
    issue::{Authority, Holder, new_authority},
};

use super::*;

/// An identity of its own CA.
fn identity(directory: &Path, name: &str) -> Arc<Identity> {
    let year = Duration::from_secs(365 * 24 * 3600);
    let path = |file: &str| directory.join(file);
    let ca = new_authority("test CA", year).expect("a CA");
    fs::write(path("ca.crt"), &ca.certificate).expect("written");
    let about = Certificate::read(&path("ca.crt")).expect("a certificate");
    let authority = Authority::open(&ca.certificate, &ca.key, about).expect("the CA");
    let issued = authority.issue(name, Holder::Node { hosts: &[] }, year).expect("issued");
    fs::write(path("crt"), issued.certificate).expect("written");
    fs::write(path("key"), issued.key).expect("written");
    fs::set_permissions(path("key"), fs::Permissions::from_mode(0o600)).expect("private");
    let (ca, certificate, key) = (path("ca.crt"), path("crt"), path("key"));
    let files = TlsFiles { ca, certificate, key, revoked: None };
    Arc::new(Identity::open(files, name).expect("an identity"))
}

/// Both ends of a connection.
async fn pair(transport: &Transport) -> (Stream, Stream) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let acceptor = transport.listen(&[any]).await.expect("a port");
    let (Acceptor::Tcp(listener) | Acceptor::Tls(listener, _)) = &acceptor;
    let address = listener.local_addr().expect("an address").to_string();
    let accept = async {
        let (incoming, _) = acceptor.accept().await?;
        incoming.establish().await
    };
    tokio::try_join!(transport.dial(&address), accept).expect("connected")
}

/// More bytes than buffers hold, to a reader that begins late, and back: they arrive once and in
/// order, though the writer must wait often.
async fn transfer(transport: Transport) {
    let sent: Vec<u8> = (0..4u32 << 18).flat_map(u32::to_le_bytes).collect();
    let (one, other) = pair(&transport).await;
    let (reader, writer) = one.into_split();
    let (mut far_reader, far_writer) = other.into_split();
    let mut waits = 0;
    let write = async {
        let mut rest = sent.as_slice();
        while !rest.is_empty() {
            match writer.try_write(rest) {
                Ok(length) => rest = &rest[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    waits += 1;
                    writer.writable().await.expect("writable");
                }
                Err(error) => panic!("{error}"),
            }
        }
        drop((writer, reader));
    };
    let read = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let (mut arrived, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match far_reader.read(&mut buffer).await.expect("bytes") {
                0 => break,
                length => arrived.extend_from_slice(&buffer[..length]),
            }
        }
        drop(far_writer);
        arrived
    };
    let ((), arrived) = tokio::join!(write, read);
    assert!(arrived == sent, "{} bytes of {} are right", arrived.len(), sent.len());
    assert!(waits > 0, "the buffers were never full");
}

#[tokio::test]
async fn bytes_arrive_once_and_in_order_by_tcp() {
    transfer(Transport::Tcp).await;
}

#[tokio::test]
async fn bytes_arrive_once_and_in_order_by_tls() {
    let directory = tempfile::tempdir().expect("a directory");
    transfer(Transport::Tls(identity(directory.path(), "a"))).await;
}

#[tokio::test]
async fn a_connection_speaks_for_the_member_of_its_certificate_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let (one, other) = pair(&Transport::Tls(identity(directory.path(), "a"))).await;
    for end in [one, other] {
        end.check_member("a").expect("its name");
        let error = end.check_member("b").expect_err("another name").to_string();
        assert_eq!(error, "the certificate is for `a`, not for member b");
    }
}

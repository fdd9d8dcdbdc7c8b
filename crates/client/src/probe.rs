//! What kind of server closes the connections of clients.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::normal;

/// How long a server may take to show that it speaks HTTP/2.
const LIMIT: Duration = Duration::from_secs(3);

/// What a client of HTTP/2 sends first: the preface, and no settings.
const BEGINNING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Whether a server closes a connection on which a client begins, before it has sent anything. A
/// node does that at the address for the other members; every server of gRPC sends its settings,
/// and one of TLS an alert.
pub(crate) async fn closes_silently(endpoint: &str) -> bool {
    let address = normal(endpoint).unwrap_or_default();
    let Some(address) = address.strip_prefix("http://") else { return false };
    let closes = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(BEGINNING).await.ok()?;
        Some(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)))
    };
    timeout(LIMIT, closes).await.ok().flatten().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Whether a server that replies with these bytes and closes counts as silent.
    async fn is_silent(reply: &'static [u8]) -> bool {
        let address = mutua_host::free_addresses(1).expect("a free port")[0];
        let listener = TcpListener::bind(address).await.expect("bound");
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("it connects");
            stream.read_exact(&mut [0; BEGINNING.len()]).await.expect("it begins");
            stream.write_all(reply).await.expect("sent");
        });
        let silent = closes_silently(&address.to_string()).await;
        serving.await.expect("served");
        silent
    }

    #[tokio::test]
    async fn only_a_server_that_sends_nothing_and_closes_is_silent() {
        assert!(is_silent(b"").await);
        assert!(!is_silent(b"\0\0\0\x04\0\0\0\0\0").await, "settings");
        assert!(!is_silent(b"\x15\x03\x03\0\x02\x02\x32").await, "an alert of TLS");
        let nowhere = mutua_host::free_addresses(1).expect("a free port")[0];
        assert!(!closes_silently(&nowhere.to_string()).await, "nothing listens");
        assert!(!closes_silently("unix:/nonexistent/socket").await, "not TCP");
    }
}

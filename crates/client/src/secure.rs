//! Connections to `https` endpoints: TLS with the client's certificate.

use std::{io, sync::Arc, time::Duration};

use hyper_util::rt::TokioIo;
use mutua_tls::{
    TlsFiles, in_words,
    rustls::{ClientConfig, pki_types::ServerName},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::{Channel, Endpoint, Error, Uri};

use crate::ConnectError;

/// How long connecting and the handshake may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Connects to `https://HOST:PORT`. The files are read each time, so that renewed certificates are
/// used.
pub(crate) async fn connect(
    address: &str,
    failed: impl FnOnce(Error) -> ConnectError,
) -> Result<Channel, ConnectError> {
    let invalid = |why: String| ConnectError::Invalid(format!("{address}: {why}"));
    let files = TlsFiles::of_environment().map_err(|error| invalid(error.to_string()))?;
    let config = files.client().map_err(|error| invalid(error.to_string()))?;
    let origin: Uri = address.parse().map_err(|error| invalid(format!("{error}")))?;
    let authority = address.trim_start_matches("https://").to_owned();
    let host = origin.host().unwrap_or_default().trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).map_err(|error| invalid(error.to_string()))?;
    // The connector below encrypts; this address would otherwise be refused for its scheme.
    let endpoint = Endpoint::from_shared(format!("http://{authority}"))
        .map_err(|error| invalid(error.to_string()))?
        .origin(origin);
    let connector = tower::service_fn(move |_| {
        let (authority, name, config) = (authority.clone(), name.clone(), Arc::clone(&config));
        async move {
            let connected = timeout(PATIENCE, establish(&authority, name, config)).await;
            connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map(TokioIo::new)
        }
    });
    endpoint.connect_with_connector(connector).await.map_err(failed)
}

async fn establish(
    authority: &str,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner.map(in_words) {
            Some(words) => io::Error::other(words),
            None => error,
        }
    })
}

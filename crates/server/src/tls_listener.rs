//! Clients over TCP with TLS: connections whose handshake has succeeded.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use mutua_node::{Identity, RefusalLog};
use mutua_tls::in_words;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::{Stream, wrappers::ReceiverStream};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The most handshakes at a time. More connections wait in the system's backlog.
const HANDSHAKES: usize = 512;

/// The pause after an error of accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

type Connections = mpsc::Sender<io::Result<TlsStream<TcpStream>>>;

/// The connections of clients that have presented a certificate of the CA.
pub(crate) fn incoming(
    listener: TcpListener,
    identity: Arc<Identity>,
) -> impl Stream<Item = io::Result<TlsStream<TcpStream>>> {
    let (sender, receiver) = mpsc::channel(64);
    // Ends when the stream is dropped.
    tokio::spawn(accept(listener, identity, sender));
    ReceiverStream::new(receiver)
}

async fn accept(listener: TcpListener, identity: Arc<Identity>, connections: Connections) {
    let refusals = Arc::new(Mutex::new(RefusalLog::default()));
    let mut handshakes = JoinSet::new();
    loop {
        tokio::select! {
            () = connections.closed() => return,
            Some(_) = handshakes.join_next() => {}
            accepted = listener.accept(), if handshakes.len() < HANDSHAKES => {
                let Ok((stream, from)) = accepted else {
                    sleep(PAUSE).await;
                    continue;
                };
                let (identity, refusals) = (Arc::clone(&identity), Arc::clone(&refusals));
                let connections = connections.clone();
                handshakes.spawn(async move {
                    let why = match timeout(HANDSHAKE, establish(&identity, stream)).await {
                        Ok(Ok(stream)) => return drop(connections.send(Ok(stream)).await),
                        Ok(Err(error)) => reason(&error),
                        Err(_) => "its TLS handshake takes too long".to_owned(),
                    };
                    let mut refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(line) = refusals.line(mutua_node::now(), from, &why) {
                        tracing::warn!("{line}");
                    }
                });
            }
        }
    }
}

async fn establish(identity: &Identity, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    // Small messages are sent at once.
    stream.set_nodelay(true)?;
    TlsAcceptor::from(identity.serve()).accept(stream).await
}

fn reason(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    inner.map_or_else(|| error.to_string(), in_words)
}

//! Connections of clients: on Unix sockets, over TCP and over TLS.
//!
//! A connection reaches the server when it is established: its client is identified and has sent
//! the first bytes. Until then it is cheap, its time is limited, and there is a limit on the number
//! of such connections, beyond which the oldest is closed. The same limit holds for established
//! connections on which no request has arrived. So connections that send nothing, or too slowly,
//! keep no other client out, and cost little memory.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use mutua_client::frames::Socket;
use mutua_node::{Identity as OwnIdentity, RefusalLog};
use mutua_tls::{Certificate, in_words};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_stream::{Stream, wrappers::ReceiverStream};

use crate::{
    Service,
    caller::{Caller, Identity},
    connection::Connection,
    framed,
};

/// How long a client may take until it has sent the first bytes, with TLS the handshake included.
const ESTABLISH: Duration = Duration::from_secs(5);

/// The most connections that are not established yet, and the most without a request.
const PENDING: usize = 1024;

/// So many more without a request are let in before the list is looked through, which takes as long
/// as the list.
const SLACK: usize = 128;

/// The pause after an error of accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A listener of one kind.
pub(crate) trait Listener: Send + Sync + 'static {
    /// A connection that is accepted.
    type Accepted: Send;
    /// The stream of one that is established.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Accepts the next connection.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send;

    /// Establishes a connection; a failure is reported already.
    fn establish(
        &self,
        accepted: Self::Accepted,
    ) -> impl Future<Output = Option<Connection<Self::Stream>>> + Send;
}

/// The established connections of a listener.
pub(crate) fn incoming<L: Listener>(
    listener: L,
) -> impl Stream<Item = io::Result<Connection<L::Stream>>> {
    let (sender, receiver) = mpsc::channel(64);
    // Ends when the stream is dropped.
    tokio::spawn(accept(Arc::new(listener), sender));
    ReceiverStream::new(receiver)
}

/// The established connections on which no request has arrived, the oldest first.
#[derive(Clone, Default)]
struct Silent(Arc<Mutex<VecDeque<oneshot::Sender<()>>>>);

impl Silent {
    fn add<S>(&self, connection: &mut Connection<S>)
    where
        S: AsyncRead + Unpin,
    {
        let mut silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        silent.push_back(connection.closer());
        if silent.len() < PENDING + SLACK {
            return;
        }
        // Others have sent a request or have ended meanwhile.
        silent.retain(|closer| !closer.is_closed());
        let beyond = silent.len().saturating_sub(PENDING);
        for closer in silent.drain(..beyond) {
            let _ = closer.send(());
        }
    }
}

async fn accept<L: Listener>(
    listener: Arc<L>,
    connections: mpsc::Sender<io::Result<Connection<L::Stream>>>,
) {
    let (mut pending, silent) = (JoinSet::new(), Silent::default());
    let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            () = connections.closed() => return,
            Some(_) = pending.join_next() => {
                while oldest.front().is_some_and(AbortHandle::is_finished) {
                    oldest.pop_front();
                }
            }
            accepted = listener.accept() => {
                let Ok(accepted) = accepted else {
                    // With too many open files, closing one helps.
                    if let Some(first) = oldest.pop_front() {
                        first.abort();
                    }
                    sleep(PAUSE).await;
                    continue;
                };
                let (listener, connections) = (Arc::clone(&listener), connections.clone());
                let silent = silent.clone();
                oldest.push_back(pending.spawn(async move {
                    if let Some(mut connection) = listener.establish(accepted).await {
                        silent.add(&mut connection);
                        // An error means that the server ends.
                        let _ = connections.send(Ok(connection)).await;
                    }
                }));
                if pending.len() > PENDING && let Some(first) = oldest.pop_front() {
                    first.abort();
                }
            }
        }
    }
}

/// A Unix socket, by its path or by the kernel's name for it.
pub(crate) struct Local {
    pub(crate) listener: UnixListener,
    pub(crate) service: Arc<Service>,
}

impl Listener for Local {
    type Accepted = UnixStream;
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }

    async fn establish(&self, stream: UnixStream) -> Option<Connection<UnixStream>> {
        let peer = stream.peer_cred().ok()?;
        // A name of the kernel has no permissions, and a path may have others by now.
        if !self.service.access.lets_in(peer.uid()) {
            return None;
        }
        let user = self.service.users.find(peer.uid(), peer.gid()).await;
        let process = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        let caller = Caller::local(user, process);
        if timeout(ESTABLISH, framed::is_framed(&stream)).await.ok()? {
            framed::spawn(&self.service, Socket::Unix(stream), caller);
            return None;
        }
        timeout(ESTABLISH, Connection::greeted(stream, caller)).await.ok()?.ok()
    }
}

/// TCP without TLS.
pub(crate) struct Plain {
    pub(crate) listener: TcpListener,
    pub(crate) service: Arc<Service>,
}

impl Listener for Plain {
    type Accepted = (TcpStream, SocketAddr);
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<Self::Accepted> {
        self.listener.accept().await
    }

    async fn establish(&self, (stream, from): Self::Accepted) -> Option<Connection<TcpStream>> {
        without_delay(&stream);
        let caller = Caller::remote(Identity::Unknown, from.to_string());
        if timeout(ESTABLISH, framed::is_framed(&stream)).await.ok()? {
            framed::spawn(&self.service, Socket::Tcp(stream), caller);
            return None;
        }
        timeout(ESTABLISH, Connection::greeted(stream, caller)).await.ok()?.ok()
    }
}

/// Small messages are sent at once. An error means that the peer has closed the connection, which
/// its reader notices.
fn without_delay(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
}

/// TCP with TLS: clients have presented a certificate of the CA.
pub(crate) struct Secure {
    listener: TcpListener,
    identity: Arc<OwnIdentity>,
    refusals: Mutex<RefusalLog>,
}

impl Secure {
    pub(crate) fn new(listener: TcpListener, identity: Arc<OwnIdentity>) -> Self {
        Self { listener, identity, refusals: Mutex::default() }
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        from: SocketAddr,
    ) -> Result<Connection<TlsStream<TcpStream>>, String> {
        let accepted = TlsAcceptor::from(self.identity.serve()).accept(stream).await;
        let stream = accepted.map_err(|error| reason(&error))?;
        let certificates = stream.get_ref().1.peer_certificates();
        let own = certificates.and_then(|chain| Certificate::of(chain.first()?)?.name);
        let name = own.ok_or("its certificate has no name")?;
        let caller = Caller::remote(Identity::Certificate(name), from.to_string());
        let closed = |_| "it was closed before its first request".to_owned();
        Connection::greeted(stream, caller).await.map_err(closed)
    }
}

impl Listener for Secure {
    type Accepted = (TcpStream, SocketAddr);
    type Stream = TlsStream<TcpStream>;

    async fn accept(&self) -> io::Result<Self::Accepted> {
        self.listener.accept().await
    }

    async fn establish(
        &self,
        (stream, from): Self::Accepted,
    ) -> Option<Connection<TlsStream<TcpStream>>> {
        without_delay(&stream);
        let why = match timeout(ESTABLISH, self.handshake(stream, from)).await {
            Ok(Ok(connection)) => return Some(connection),
            Ok(Err(why)) => why,
            Err(_) => "its TLS handshake takes too long".to_owned(),
        };
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = refusals.line(mutua_node::now(), from, &why) {
            tracing::warn!("{line}");
        }
        None
    }
}

fn reason(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    inner.map_or_else(|| error.to_string(), in_words)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };
    use tokio_stream::StreamExt;

    use super::{Caller, Connection, Identity, Listener, PENDING, incoming, without_delay};

    /// TCP without frames.
    struct Bare(TcpListener);

    impl Listener for Bare {
        type Accepted = TcpStream;
        type Stream = TcpStream;

        async fn accept(&self) -> std::io::Result<TcpStream> {
            self.0.accept().await.map(|(stream, _)| stream)
        }

        async fn establish(&self, stream: TcpStream) -> Option<Connection<TcpStream>> {
            let caller = Caller::remote(Identity::Unknown, String::new());
            Connection::greeted(stream, caller).await.ok()
        }
    }

    #[tokio::test]
    async fn an_accepted_connection_sends_small_messages_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).await;
        let _client = client.expect("connected");
        let (accepted, _) = listener.accept().await.expect("accepted");
        without_delay(&accepted);
        assert!(accepted.nodelay().expect("the option"));
    }

    #[tokio::test]
    async fn silent_connections_keep_no_client_out_and_the_oldest_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut connections = Box::pin(incoming(Bare(listener)));
        let mut silent = Vec::new();
        for _ in 0..=PENDING {
            silent.push(TcpStream::connect(address).await.expect("connected"));
        }
        let mut client = TcpStream::connect(address).await.expect("connected");
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrest").await.expect("written");
        let mut served = connections.next().await.expect("one").expect("established");
        let mut bytes = [0; 28];
        served.read_exact(&mut bytes).await.expect("read");
        assert!(bytes.ends_with(b"rest"));
        let closed = silent[0].read(&mut [0]).await;
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    }
}

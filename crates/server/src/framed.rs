//! Clients that speak frames, on the sockets where gRPC is served.

use std::{io, os::fd::AsFd, sync::Arc, time::Duration};

use mutua_client::frames::{Decoder, Frames, MAGIC, Socket};
use rustix::net::RecvFlags;
use tokio::{
    io::Interest,
    net::{TcpStream, UnixStream},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};

use super::{
    Service,
    clients::Replies,
    session_stream::{self, Requests},
};

/// How long a client may take to send its first byte, and the rest of its beginning. Without one,
/// the connection is taken for gRPC.
const FIRST: Duration = Duration::from_secs(10);

/// A connection whose first byte can be read without taking it.
pub(crate) trait Connection: Send + Sized + 'static {
    /// The first byte.
    fn first(&self) -> impl Future<Output = io::Result<u8>> + Send;

    /// The process at the other end, if it is on this machine.
    fn process(&self) -> Option<u32>;

    fn into_socket(self) -> Socket;
}

impl Connection for UnixStream {
    async fn first(&self) -> io::Result<u8> {
        let mut byte = [0];
        loop {
            self.readable().await?;
            let peeked = self.try_io(Interest::READABLE, || {
                let (count, _) = rustix::net::recv(self.as_fd(), &mut byte[..], RecvFlags::PEEK)?;
                Ok(count)
            });
            match peeked {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn process(&self) -> Option<u32> {
        u32::try_from(self.peer_cred().ok()?.pid()?).ok()
    }

    fn into_socket(self) -> Socket {
        Socket::Unix(self)
    }
}

impl Connection for TcpStream {
    async fn first(&self) -> io::Result<u8> {
        let mut byte = [0];
        match self.peek(&mut byte).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(byte[0]),
        }
    }

    fn process(&self) -> Option<u32> {
        None
    }

    fn into_socket(self) -> Socket {
        Socket::Tcp(self)
    }
}

/// Serves the connections that speak frames; the others are returned.
pub(crate) fn apart<S: Connection>(
    incoming: impl Stream<Item = io::Result<S>> + Send + 'static,
    service: &Arc<Service>,
) -> ReceiverStream<io::Result<S>> {
    let (others, receiver) = mpsc::channel(64);
    // Ends when the stream is dropped.
    tokio::spawn(sort(Box::pin(incoming), others, Arc::clone(service)));
    ReceiverStream::new(receiver)
}

async fn sort<S: Connection>(
    mut incoming: impl Stream<Item = io::Result<S>> + Unpin,
    others: mpsc::Sender<io::Result<S>>,
    service: Arc<Service>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = others.closed() => return,
            Some(_) = connections.join_next() => {}
            accepted = incoming.next() => match accepted {
                Some(Ok(stream)) => {
                    connections.spawn(look(stream, others.clone(), Arc::clone(&service)));
                }
                // An error of one connection, or of the system: the server handles it.
                Some(Err(error)) => drop(others.send(Err(error)).await),
                None => return,
            },
        }
    }
}

/// Looks at the first byte of a connection.
async fn look<S: Connection>(
    stream: S,
    others: mpsc::Sender<io::Result<S>>,
    service: Arc<Service>,
) {
    match timeout(FIRST, stream.first()).await {
        Ok(Ok(byte)) if byte == MAGIC[0] => {
            let process = stream.process();
            serve(service, stream.into_socket(), process).await;
        }
        Ok(Ok(_)) | Err(_) => drop(others.send(Ok(stream)).await),
        // It has ended.
        Ok(Err(_)) => {}
    }
}

async fn serve(service: Arc<Service>, socket: Socket, process: Option<u32>) {
    let Ok(Ok(frames)) = timeout(FIRST, Frames::accept(socket)).await else { return };
    let frames = Arc::new(frames);
    frames.send(&service.about());
    let requests = Requests::Framed(Arc::clone(&frames), Decoder::default());
    session_stream::run(service, requests, Replies::Framed(frames), process).await;
}

//! Clients that speak frames, on the sockets where gRPC is served.

use std::{io, os::fd::AsFd, sync::Arc, time::Duration};

use mutua_client::frames::{Decoder, Frames, MAGIC, Socket};
use rustix::net::RecvFlags;
use tokio::{
    io::Interest,
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::{
    Service,
    caller::Caller,
    clients::Replies,
    session_stream::{self, Requests},
};

/// How long a client may take to send the rest of its beginning.
const FIRST: Duration = Duration::from_secs(10);

/// A connection whose first byte can be read without taking it.
pub(crate) trait First {
    /// The first byte.
    fn first(&self) -> impl Future<Output = io::Result<u8>> + Send;
}

impl First for UnixStream {
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
}

impl First for TcpStream {
    async fn first(&self) -> io::Result<u8> {
        let mut byte = [0];
        match self.peek(&mut byte).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(byte[0]),
        }
    }
}

/// Whether the client of a connection speaks frames, by its first byte.
pub(crate) async fn is_framed(stream: &impl First) -> bool {
    stream.first().await.is_ok_and(|byte| byte == MAGIC[0])
}

/// Serves a client that speaks frames, on a task of its own.
pub(crate) fn spawn(service: &Arc<Service>, socket: Socket, caller: Caller) {
    tokio::spawn(serve(Arc::clone(service), socket, caller));
}

async fn serve(service: Arc<Service>, socket: Socket, caller: Caller) {
    let Ok(Ok(frames)) = timeout(FIRST, Frames::accept(socket)).await else { return };
    let frames = Arc::new(frames);
    frames.send(&service.about());
    let requests = Requests::Framed(Arc::clone(&frames), Decoder::default());
    session_stream::run(service, requests, Replies::Framed(frames), caller).await;
}

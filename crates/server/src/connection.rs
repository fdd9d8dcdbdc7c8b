//! A connection of a client that has sent its greeting: its stream and the client at its other end.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    sync::oneshot,
};
use tonic::transport::server::Connected;

use crate::caller::Caller;

/// The preface of HTTP/2, which a client of gRPC sends at once. Any other beginning is a request of
/// HTTP/1.1, which may be shorter.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// More bytes than a client sends before its first request: the preface, settings, the size of a
/// window and acknowledgements.
const BEFORE_REQUESTS: usize = 160;

/// A connection.
pub(crate) struct Connection<S> {
    stream: S,
    caller: Caller,
    /// The greeting, as far as it is not read yet.
    greeting: Vec<u8>,
    /// The order to close it, until it has sent a request.
    closing: Option<oneshot::Receiver<()>>,
    /// The bytes that were read while it is.
    read: usize,
}

impl<S: AsyncRead + Unpin> Connection<S> {
    /// Waits for the first bytes, so that a silent connection costs no more than this.
    ///
    /// # Errors
    ///
    /// If the connection ends before.
    pub(crate) async fn greeted(mut stream: S, caller: Caller) -> io::Result<Self> {
        let mut greeting = Vec::with_capacity(PREFACE.len());
        while greeting.len() < PREFACE.len() && PREFACE.starts_with(&greeting) {
            let mut rest = (&mut stream).take((PREFACE.len() - greeting.len()) as u64);
            if rest.read_buf(&mut greeting).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Self { stream, caller, greeting, closing: None, read: 0 })
    }

    /// The means to close the connection, while it has sent no request.
    pub(crate) fn closer(&mut self) -> oneshot::Sender<()> {
        let (sender, receiver) = oneshot::channel();
        self.closing = Some(receiver);
        sender
    }

    fn poll_any(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.greeting.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let length = self.greeting.len().min(buffer.remaining());
        let rest = self.greeting.split_off(length);
        buffer.put_slice(&std::mem::replace(&mut self.greeting, rest));
        Poll::Ready(Ok(()))
    }
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(closing) = &mut self.closing else { return self.poll_any(context, buffer) };
        if let Poll::Ready(Ok(())) = Pin::new(closing).poll(context) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buffer.filled().len();
        let read = self.poll_any(context, buffer);
        self.read += buffer.filled().len() - before;
        if self.read > BEFORE_REQUESTS {
            self.closing = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::{BEFORE_REQUESTS, Connection, PREFACE};
    use crate::caller::{Caller, Identity};

    #[tokio::test]
    async fn what_was_read_before_is_read_again() {
        let (mut client, server) = tokio::io::duplex(1000);
        let bytes: Vec<u8> = (0..100).collect();
        client.write_all(&bytes).await.expect("written");
        drop(client);
        let caller = Caller::remote(Identity::Unknown, String::new());
        let mut connection = Connection::greeted(server, caller).await.expect("greeted");
        let mut read = vec![connection.read_u8().await.expect("one byte")];
        connection.read_to_end(&mut read).await.expect("the rest");
        assert_eq!(read, bytes);
    }

    #[tokio::test]
    async fn a_connection_is_closed_on_order_until_a_request_was_read() {
        for (length, closes) in [(PREFACE.len(), true), (2 * BEFORE_REQUESTS, false)] {
            let (mut client, server) = tokio::io::duplex(1000);
            client.write_all(&vec![0; length]).await.expect("written");
            let caller = Caller::remote(Identity::Unknown, String::new());
            let mut connection = Connection::greeted(server, caller).await.expect("greeted");
            let closer = connection.closer();
            connection.read_exact(&mut vec![0; length]).await.expect("read");
            assert_eq!(closer.send(()).is_ok(), closes);
            client.write_all(&[0]).await.expect("written");
            assert_eq!(connection.read_u8().await.is_err(), closes);
        }
    }

    #[tokio::test]
    async fn a_connection_that_ends_before_its_greeting_is_an_error() {
        let (mut client, server) = tokio::io::duplex(1000);
        client.write_all(&PREFACE[..PREFACE.len() - 1]).await.expect("written");
        drop(client);
        let caller = Caller::remote(Identity::Unknown, String::new());
        assert!(Connection::greeted(server, caller).await.is_err());
    }
}

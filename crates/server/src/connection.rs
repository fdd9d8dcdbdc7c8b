//! A connection of a client that has sent its greeting: its stream and the client at its other end.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::caller::Caller;

/// The length of the preface of HTTP/2, which every client sends at once.
const GREETING: usize = 24;

/// A connection.
pub(crate) struct Connection<S> {
    stream: S,
    caller: Caller,
    /// The greeting, as far as it is not read yet.
    greeting: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Connection<S> {
    /// Waits for the greeting, so that a silent connection costs no more than this.
    ///
    /// # Errors
    ///
    /// If the connection ends before.
    pub(crate) async fn greeted(mut stream: S, caller: Caller) -> io::Result<Self> {
        let mut greeting = vec![0; GREETING];
        stream.read_exact(&mut greeting).await?;
        Ok(Self { stream, caller, greeting })
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
        if self.greeting.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let length = self.greeting.len().min(buffer.remaining());
        let rest = self.greeting.split_off(length);
        buffer.put_slice(&std::mem::replace(&mut self.greeting, rest));
        Poll::Ready(Ok(()))
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

    use super::{Connection, GREETING};
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
    async fn a_connection_that_ends_before_its_greeting_is_an_error() {
        let (mut client, server) = tokio::io::duplex(1000);
        client.write_all(&[0; GREETING - 1]).await.expect("written");
        drop(client);
        let caller = Caller::remote(Identity::Unknown, String::new());
        assert!(Connection::greeted(server, caller).await.is_err());
    }
}

//! The transport: streams of bytes between members.
//!
//! The rest of the node dials, accepts, reads and writes through the types of this module alone.
//! Each transport (plain TCP, mutual TLS) is a variant of each enum; calls are dispatched by a
//! `match`, never through a pointer, since a node that hands over a lock writes to its connection
//! itself.
//!
//! The contract:
//!
//! - Bytes arrive once and in order, or the stream ends. Messages, acknowledgements and reconnects
//!   are the protocol's.
//! - [`Acceptor::accept`] does not wait for the other side: whatever takes a round trip belongs to
//!   [`Incoming::establish`], which runs in a task of its own.
//! - [`WriteHalf::try_write`] takes `&self`, never blocks and never waits for the reading half. One
//!   caller at a time uses it. After `WouldBlock` the next call begins with the same bytes.
//! - [`Stream::check_member`] is asked before anything of the other side is believed.
//! - [`ErrorKind::ConnectionReset`](io::ErrorKind), [`ErrorKind::BrokenPipe`](io::ErrorKind) and a
//!   read of 0 bytes mean that the other side has closed the stream; other errors do not.

mod tls;

use std::{io, net::SocketAddr, sync::Arc};

use mutua_tls::Identity;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use tls::{TlsReadHalf, TlsStream, TlsWriteHalf};

/// The way in which members connect to each other.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    /// Plain TCP: nothing is secret or authenticated.
    Tcp,
    /// TLS 1.3, in which both sides present the certificates of members.
    Tls(Arc<Identity>),
}

impl Transport {
    /// Accepts connections at the first of these addresses that is free.
    pub(crate) async fn listen(&self, addresses: &[SocketAddr]) -> io::Result<Acceptor> {
        let listener = TcpListener::bind(addresses).await?;
        Ok(match self {
            Self::Tcp => Acceptor::Tcp(listener),
            Self::Tls(identity) => Acceptor::Tls(listener, Arc::clone(identity)),
        })
    }

    /// Connects to a host and port.
    pub(crate) async fn dial(&self, address: &str) -> io::Result<Stream> {
        let stream = without_delay(TcpStream::connect(address).await?)?;
        match self {
            Self::Tcp => Ok(Stream::Tcp(stream)),
            Self::Tls(identity) => {
                TlsStream::dial(identity, stream).await.map(|stream| Stream::Tls(stream.into()))
            }
        }
    }
}

/// Accepts connections of other members.
#[derive(Debug)]
pub(crate) enum Acceptor {
    Tcp(TcpListener),
    Tls(TcpListener, Arc<Identity>),
}

impl Acceptor {
    /// The next connection, and its address.
    pub(crate) async fn accept(&self) -> io::Result<(Incoming, SocketAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Incoming::Tcp(stream), from))
            }
            Self::Tls(listener, identity) => {
                let (stream, from) = listener.accept().await?;
                Ok((Incoming::Tls(stream, Arc::clone(identity)), from))
            }
        }
    }
}

/// A connection that was accepted and is not established yet.
#[derive(Debug)]
pub(crate) enum Incoming {
    Tcp(TcpStream),
    Tls(TcpStream, Arc<Identity>),
}

impl Incoming {
    /// Makes the connection ready for use.
    pub(crate) async fn establish(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(stream) => without_delay(stream).map(Stream::Tcp),
            Self::Tls(stream, identity) => {
                let stream = TlsStream::accept(&identity, without_delay(stream)?).await?;
                Ok(Stream::Tls(stream.into()))
            }
        }
    }
}

/// An established connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
}

fn without_delay(stream: TcpStream) -> io::Result<TcpStream> {
    // A token is a small write that must not wait for an acknowledgement.
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl Stream {
    /// Checks that the other end may speak for the member of this name: that its certificate is
    /// that member's. Plain TCP cannot tell.
    pub(crate) fn check_member(&self, member: &str) -> io::Result<()> {
        match self {
            Self::Tcp(_) => Ok(()),
            Self::Tls(stream) if stream.name() == Some(member) => Ok(()),
            Self::Tls(stream) => {
                let name = stream.name().unwrap_or_default();
                let why = format!("the certificate is for `{name}`, not for member {member}");
                Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
            }
        }
    }

    /// Appends bytes that have arrived, at least one; 0 at the end of the stream.
    pub(crate) async fn read_buf(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read_buf(buffer).await,
            Self::Tls(stream) => stream.read_buf(buffer).await,
        }
    }

    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes).await,
            Self::Tls(stream) => stream.write_all(bytes).await,
        }
    }

    pub(crate) fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Self::Tcp(stream) => {
                let (reader, writer) = stream.into_split();
                (ReadHalf::Tcp(reader), WriteHalf::Tcp(writer))
            }
            Self::Tls(stream) => {
                let (reader, writer) = stream.into_split();
                (ReadHalf::Tls(reader), WriteHalf::Tls(writer))
            }
        }
    }
}

/// The reading half of a connection.
#[derive(Debug)]
pub(crate) enum ReadHalf {
    Tcp(OwnedReadHalf),
    Tls(TlsReadHalf),
}

impl ReadHalf {
    /// Waits for bytes; 0 at the end of the stream.
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(reader) => reader.read(buffer).await,
            Self::Tls(reader) => reader.read(buffer).await,
        }
    }
}

/// The writing half of a connection. Dropped, it ends the stream.
#[derive(Debug)]
pub(crate) enum WriteHalf {
    Tcp(OwnedWriteHalf),
    Tls(TlsWriteHalf),
}

impl WriteHalf {
    /// Writes as many bytes as are accepted now; `WouldBlock` if none are.
    #[inline]
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(writer) => writer.try_write(bytes),
            Self::Tls(writer) => writer.try_write(bytes),
        }
    }

    /// Waits until [`try_write`](Self::try_write) may accept bytes.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(writer) => writer.writable().await,
            Self::Tls(writer) => writer.writable().await,
        }
    }

    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(writer) => writer.write_all(bytes).await,
            Self::Tls(writer) => writer.write_all(bytes).await,
        }
    }

    /// The address of the other end.
    pub(crate) fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(writer) => writer.peer_addr(),
            Self::Tls(writer) => writer.peer_addr(),
        }
    }
}

#[cfg(test)]
mod tests;

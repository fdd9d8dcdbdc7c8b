//! The sockets that frames are sent on.

use std::{io, os::fd::AsFd};

use rustix::net::Shutdown;
use tokio::{
    io::Interest,
    net::{TcpStream, UnixStream},
};

/// A connected socket. Reading and writing take `&self`: one task reads, any thread writes.
#[derive(Debug)]
pub enum Socket {
    /// To a node on this machine.
    Unix(UnixStream),
    /// Plain TCP.
    Tcp(TcpStream),
}

impl Socket {
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.try_read(buffer),
            Self::Tcp(stream) => stream.try_read(buffer),
        }
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.try_write(bytes),
            Self::Tcp(stream) => stream.try_write(bytes),
        }
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.readable().await,
            Self::Tcp(stream) => stream.readable().await,
        }
    }

    /// Waits until bytes can be read or written.
    pub(super) async fn ready(&self) -> io::Result<()> {
        let either = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Unix(stream) => stream.ready(either).await.map(drop),
            Self::Tcp(stream) => stream.ready(either).await.map(drop),
        }
    }

    /// Ends both directions, for the other side and for this one's reader.
    pub(super) fn shut_down(&self) {
        let fd = match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        };
        // The other side may have ended it already.
        let _ = rustix::net::shutdown(fd, Shutdown::Both);
    }
}

//! TLS on top of TCP.
//!
//! Reading and writing share the state of the connection, behind a mutex that is held while bytes
//! are encrypted or decrypted, and never while anything waits.

use std::{
    io::{self, IoSlice, Read, Write},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mutua_tls::{
    Certificate, Identity, in_words,
    rustls::{self, Connection, pki_types::ServerName},
};
use tokio::{
    io::AsyncReadExt,
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Sent and compared by nobody: members are known by the names of their certificates.
const SERVER: &str = "member.invalid";

/// A connection whose ends have checked each other's certificates.
#[derive(Debug)]
pub(crate) struct TlsStream {
    reader: TlsReadHalf,
    writer: TlsWriteHalf,
    /// The name of the other end's certificate.
    name: Option<String>,
}

impl TlsStream {
    pub(super) async fn dial(identity: &Identity, stream: TcpStream) -> io::Result<Self> {
        let server = ServerName::try_from(SERVER).map_err(io::Error::other)?;
        let connected = TlsConnector::from(identity.dial()).connect(server, stream).await;
        let (stream, session) = connected.map_err(readable)?.into_inner();
        Ok(Self::new(stream, session.into()))
    }

    pub(super) async fn accept(identity: &Identity, stream: TcpStream) -> io::Result<Self> {
        let accepted = TlsAcceptor::from(identity.accept()).accept(stream).await;
        let (stream, session) = accepted.map_err(readable)?.into_inner();
        Ok(Self::new(stream, session.into()))
    }

    fn new(stream: TcpStream, session: Connection) -> Self {
        let certificate = session.peer_certificates().and_then(|chain| chain.first());
        let name = certificate.and_then(Certificate::of).and_then(|certificate| certificate.name);
        let session = Arc::new(Mutex::new(session));
        let (reader, writer) = stream.into_split();
        Self {
            reader: TlsReadHalf {
                reader,
                session: Arc::clone(&session),
                arrived: vec![0; 16 << 10],
                taken: 0,
                length: 0,
            },
            writer: TlsWriteHalf { writer, session, owed: Mutex::new(0) },
            name,
        }
    }

    /// The name of the other end's certificate.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) async fn read_buf(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let mut piece = [0; 4096];
        let length = self.reader.read(&mut piece).await?;
        buffer.extend_from_slice(&piece[..length]);
        Ok(length)
    }

    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes).await
    }

    pub(super) fn into_split(self) -> (TlsReadHalf, TlsWriteHalf) {
        (self.reader, self.writer)
    }
}

/// The reading half of a connection.
#[derive(Debug)]
pub(crate) struct TlsReadHalf {
    reader: OwnedReadHalf,
    session: Arc<Mutex<Connection>>,
    /// Encrypted bytes that have arrived, of which some were decrypted.
    arrived: Vec<u8>,
    taken: usize,
    length: usize,
}

impl TlsReadHalf {
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(length) = self.decrypt(buffer)? {
                return Ok(length);
            }
            (self.taken, self.length) = (0, self.reader.read(&mut self.arrived).await?);
            if self.length == 0 {
                // The other end's process may have ended without a word. An attacker who can forge
                // the end of a TCP connection gains what cutting the line would gain.
                return Ok(0);
            }
        }
    }

    /// Takes what is decrypted, and decrypts what has arrived; `None` if more bytes must arrive.
    fn decrypt(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut session = lock(&self.session);
        loop {
            match session.reader().read(buffer) {
                Ok(length) => return Ok(Some(length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.taken == self.length {
                return Ok(None);
            }
            let mut rest = &self.arrived[self.taken..self.length];
            self.taken += session.read_tls(&mut rest)?;
            session.process_new_packets().map_err(|error| readable(io::Error::other(error)))?;
        }
    }
}

/// The writing half of a connection.
#[derive(Debug)]
pub(crate) struct TlsWriteHalf {
    writer: OwnedWriteHalf,
    session: Arc<Mutex<Connection>>,
    /// Bytes of the caller that are encrypted and not yet reported as written.
    owed: Mutex<usize>,
}

impl TlsWriteHalf {
    /// Encrypts, and writes until all of it is accepted. If the system accepts no more, the bytes
    /// that were encrypted are reported when a later call has written them: the caller then passes
    /// the same bytes again.
    #[inline]
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut session = lock(&self.session);
        if *owed == 0 {
            *owed = session.writer().write(bytes)?;
        }
        while session.wants_write() {
            session.write_tls(&mut Direct(&self.writer))?;
        }
        Ok(std::mem::take(&mut *owed))
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        self.writer.writable().await
    }

    pub(super) async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_write(bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.writer.peer_addr()
    }
}

impl Drop for TlsWriteHalf {
    fn drop(&mut self) {
        let mut session = lock(&self.session);
        session.send_close_notify();
        // The other side may have closed the connection already.
        let _ = session.write_tls(&mut Direct(&self.writer));
    }
}

/// Writes what the system accepts now.
struct Direct<'a>(&'a OwnedWriteHalf);

impl Write for Direct<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock(session: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error with words for the log.
fn readable(error: io::Error) -> io::Error {
    let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
    else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "it closed the connection during the TLS handshake")
            }
            _ => error,
        };
    };
    io::Error::new(io::ErrorKind::InvalidData, in_words(inner))
}

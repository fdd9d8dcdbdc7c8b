//! The beginning of a connection that speaks frames.

use std::io;

use super::{
    BEGINNING, BeginError, Frames, Socket, check_node, client_beginning, node_beginning, refusal,
};

impl Frames {
    /// Begins as a client on a new connection.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the other side does not speak a version of frames that is known here; the
    /// system's errors otherwise.
    pub async fn begin(socket: Socket) -> io::Result<Self> {
        write(&socket, &client_beginning()).await?;
        let other = |error: BeginError| io::Error::new(io::ErrorKind::Unsupported, error);
        let node = read(&socket).await.map_err(|error| match error.kind() {
            // An HTTP/2 server closes the connection.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                other(BeginError::Other)
            }
            _ => error,
        })?;
        check_node(node).map_err(other)?;
        Ok(Self::new(socket))
    }

    /// Begins as a node on a connection whose first byte is that of [`MAGIC`](super::MAGIC).
    ///
    /// # Errors
    ///
    /// `InvalidData` if the client does not speak a version that is known here; the system's errors
    /// otherwise.
    pub async fn accept(socket: Socket) -> io::Result<Self> {
        let client = read(&socket).await?;
        match node_beginning(client) {
            Ok(reply) => write(&socket, &reply).await?,
            Err(error) => {
                write(&socket, &refusal()).await?;
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(Self::new(socket))
    }
}

async fn read(socket: &Socket) -> io::Result<[u8; BEGINNING]> {
    let (mut bytes, mut count) = ([0; BEGINNING], 0);
    while count < BEGINNING {
        match socket.try_read(&mut bytes[count..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.readable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

async fn write(socket: &Socket, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match socket.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.ready().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

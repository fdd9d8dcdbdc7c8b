//! A connection to a node: in frames where the node speaks them, by gRPC otherwise.

use std::{path::Path, time::Duration};

use tokio::{net::TcpStream, time::timeout};
use tonic::transport::Channel;

use crate::{
    About, CallError, ConnectError, about, connect, connect_to_socket,
    frames::{Decoder, Frames, Socket},
    normal,
    proto::v1,
};

/// How long a node may take to reply to the beginning.
const REPLY_LIMIT: Duration = Duration::from_secs(2);

/// A connection on which nothing was requested yet.
pub(super) enum Connection {
    Frames(Frames, Decoder, Box<About>),
    Grpc(Channel),
}

impl Connection {
    /// What the node reports about itself.
    pub(super) async fn about(&self) -> Result<About, CallError> {
        match self {
            Self::Frames(_, _, about) => Ok(About::clone(about)),
            Self::Grpc(channel) => about(channel.clone()).await,
        }
    }
}

/// Connects.
pub(super) async fn open(endpoint: &str) -> Result<Connection, ConnectError> {
    let address = normal(endpoint)?;
    if let Ok(Some(connection)) = timeout(REPLY_LIMIT, framed(&address)).await {
        return Ok(connection);
    }
    // Another server, an older node, or none: the error is then the same.
    Ok(Connection::Grpc(connect(&address).await?))
}

async fn framed(address: &str) -> Option<Connection> {
    let socket = if let Some(path) = address.strip_prefix("unix:") {
        Socket::Unix(connect_to_socket(Path::new(path)).await.ok()?)
    } else {
        let stream = TcpStream::connect(address.strip_prefix("http://")?).await.ok()?;
        stream.set_nodelay(true).ok()?;
        Socket::Tcp(stream)
    };
    let (frames, mut decoder) = (Frames::begin(socket).await.ok()?, Decoder::default());
    let about = frames.receive::<v1::AboutResponse>(&mut decoder).await.ok()??;
    Some(Connection::Frames(frames, decoder, Box::new(about.into())))
}

//! Connections to the other members: dialled or accepted, greeted, read and written.

use std::{io, sync::Arc, time::Duration};

use mutua_brain::{Connection, Hello, Member};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{Config, line::Line, shared::Shared};

/// How long the other side may take to say hello.
const GREETING: Duration = Duration::from_secs(5);

/// The first pause between two attempts to connect, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// Starts the tasks: one that accepts, and one for each member that this one dials. Of two members
/// the later one in the list dials, so that there is one connection.
pub(crate) fn spawn(
    tasks: &mut JoinSet<()>,
    shared: &Arc<Shared>,
    config: &Config,
    me: usize,
    listener: Option<TcpListener>,
) {
    if let Some(listener) = listener {
        tasks.spawn(accept(Arc::clone(shared), listener));
    }
    for (place, member) in config.members[..me].iter().enumerate() {
        let peer = Member(u32::try_from(place).unwrap_or(u32::MAX));
        tasks.spawn(dial(Arc::clone(shared), peer, member.address.clone()));
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut guests = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    let shared = Arc::clone(&shared);
                    guests.spawn(async move {
                        if let Err(error) = welcome(&shared, stream).await {
                            tracing::warn!("a connection from {from} is refused: {error}");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    sleep(LAST_PAUSE).await;
                }
            },
            Some(_) = guests.join_next() => {}
        }
    }
}

async fn welcome(shared: &Arc<Shared>, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (hello, rest) = timeout(GREETING, read_hello(&mut stream)).await??;
    let ours = shared.call(|core, _| {
        let known = hello.from.index() < shared.names().len() && hello.from != core.brain.me();
        known.then(|| core.brain.hello(hello.from))
    });
    // A stranger gets no answer; the greeting below says what is wrong with it.
    if let Some(ours) = ours {
        stream.write_all(&ours).await?;
    }
    converse(shared, stream, &hello, &rest).await
}

async fn dial(shared: Arc<Shared>, peer: Member, address: String) {
    let mut pause = FIRST_PAUSE;
    let mut last_error = String::new();
    loop {
        match connect(&shared, peer, &address).await {
            Ok(()) => pause = FIRST_PAUSE,
            Err(error) => {
                // Said once, not at every attempt.
                let text = error.to_string();
                if text != last_error {
                    let name = shared.name(peer);
                    tracing::info!("member {name} at {address} cannot be reached: {text}");
                    last_error = text;
                }
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
        sleep(pause).await;
    }
}

/// Connects and stays until the connection is over.
async fn connect(shared: &Arc<Shared>, peer: Member, address: &str) -> io::Result<()> {
    let mut stream = timeout(GREETING, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    let ours = shared.call(|core, _| core.brain.hello(peer));
    stream.write_all(&ours).await?;
    let (hello, rest) = timeout(GREETING, read_hello(&mut stream)).await??;
    if hello.from != peer {
        let (there, wanted) = (shared.name(hello.from), shared.name(peer));
        return Err(io::Error::other(format!("{there} answers where {wanted} should")));
    }
    converse(shared, stream, &hello, &rest).await
}

/// The other's hello, and what has arrived behind it.
async fn read_hello(stream: &mut TcpStream) -> io::Result<(Hello, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::Error::other("it says no hello, so it has refused ours"));
        }
        if let Some((hello, length)) = Hello::decode(&bytes).map_err(io::Error::other)? {
            bytes.drain(..length);
            return Ok((hello, bytes));
        }
    }
}

/// Carries bytes both ways until the connection is over.
async fn converse(
    shared: &Arc<Shared>,
    stream: TcpStream,
    hello: &Hello,
    rest: &[u8],
) -> io::Result<()> {
    let (reader, writer) = stream.into_split();
    let connected = shared.call(|core, now| {
        let connection = core.new_connection();
        let peer = core.brain.connected(now, connection, hello)?;
        let line = Arc::new(Line::new(peer, connection, writer));
        core.connect(peer, connection, &line);
        core.brain.received(now, peer, connection, rest);
        Ok((peer, connection, line))
    });
    let (peer, connection, line) =
        connected.map_err(|rejected: mutua_brain::Rejected| io::Error::other(rejected))?;
    let result = tokio::select! {
        result = read(shared, reader, peer, connection) => result,
        result = line.keep_writing(shared) => result,
        () = line.close.notified() => Ok(()),
    };
    shared.call(|core, now| {
        core.brain.disconnected(now, peer, connection);
        core.end_connection(peer, connection);
    });
    if let Err(error) = result {
        tracing::info!("the connection to member {} broke: {error}", shared.name(peer));
    }
    Ok(())
}

async fn read(
    shared: &Arc<Shared>,
    mut reader: OwnedReadHalf,
    peer: Member,
    connection: Connection,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = reader.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let bytes = &buffer[..length];
        shared.call(|core, now| core.brain.received(now, peer, connection, bytes));
    }
}

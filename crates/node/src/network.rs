//! Connections to the other members: dialled or accepted, greeted, read and written.

use std::{
    io::{self, ErrorKind},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use mutua_host::now;
use mutua_protocol::{Connection, Hello, HelloRefused, Member, Rejected, WireError};
use tokio::{
    task::JoinSet,
    time::{error::Elapsed, sleep, timeout},
};

use crate::{
    control,
    driver::Driver,
    refusal_log::RefusalLog,
    strangers::{Stranger, Strangers},
    transport::{Acceptor, Incoming, ReadHalf, Stream, Transport},
    writer::Writer,
};

/// How long a connection and a hello may take.
const GREETING: Duration = Duration::from_secs(5);

/// The first pause between two attempts to connect, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause while the peer refuses this node.
const LAST_REFUSED: Duration = Duration::from_secs(2);

/// Accepts connections until it is aborted.
pub(crate) async fn accept(driver: Arc<Driver>, acceptor: Acceptor) {
    let mut connections = JoinSet::new();
    let refusals = Arc::new(Mutex::new(RefusalLog::default()));
    let strangers = Strangers::default();
    loop {
        tokio::select! {
            accepted = acceptor.accept() => match accepted {
                Ok((incoming, from)) => {
                    let (driver, refusals) = (Arc::clone(&driver), Arc::clone(&refusals));
                    let welcome = |stranger| async move {
                        let Err(error) = welcome(&driver, incoming, stranger).await else { return };
                        let mut refusals = refusals.lock().unwrap_or_else(PoisonError::into_inner);
                        if let Some(line) = refusals.line(now(), from, &error.to_string()) {
                            tracing::warn!("{line}");
                        }
                    };
                    strangers.add(|stranger| connections.spawn(welcome(stranger)));
                }
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    sleep(LAST_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn welcome(
    driver: &Arc<Driver>,
    incoming: Incoming,
    stranger: Stranger,
) -> Result<(), Ended> {
    let mut stream = timeout(GREETING, incoming.establish()).await??;
    let mut bytes = Vec::new();
    timeout(GREETING, read_magic(&mut stream, &mut bytes)).await??;
    if let Some(consensus) = driver.consensus.get().filter(|_| bytes.starts_with(control::MAGIC)) {
        let served = control::serve(consensus, stream, bytes, stranger).await;
        return served.map_err(|error| Ended::Failed(error.to_string()));
    }
    let (hello, rest) = timeout(GREETING, read_hello(&mut stream, bytes)).await??;
    stream.check_member(&driver.name(hello.from))?;
    drop(stranger);
    converse(driver, stream, &hello, &rest, Side::Accepts).await
}

/// Reads the bytes that tell the kind of a connection.
async fn read_magic(stream: &mut Stream, bytes: &mut Vec<u8>) -> Result<(), Ended> {
    while bytes.len() < control::MAGIC.len() {
        if stream.read_buf(bytes).await? == 0 {
            return Err(Ended::Failed("it closed the connection before its hello".to_owned()));
        }
    }
    Ok(())
}

/// Keeps a connection to a member until it is aborted.
pub(crate) async fn dial(driver: Arc<Driver>, transport: Transport, peer: Member, address: String) {
    let mut pause = FIRST_PAUSE;
    let mut last_error = String::new();
    loop {
        match connect(&driver, &transport, peer, &address).await {
            Ok(()) => {
                pause = FIRST_PAUSE;
                last_error.clear();
            }
            Err(Ended::Refused(HelloRefused::Outdated { known })) => {
                // Another process has run as this member since this one started.
                return driver.outdated(known);
            }
            Err(Ended::Refused(why)) => {
                driver.call(|core, now| core.protocol.refused(now, peer, &why));
                // The protocol logs a conflict.
                let conflict = matches!(why, HelloRefused::Conflict { .. });
                log_once(&driver, peer, &address, &why, &mut last_error, conflict);
                pause = (pause * 2).min(LAST_REFUSED);
            }
            Err(error) => {
                log_once(&driver, peer, &address, &error, &mut last_error, false);
                let conflict = matches!(error, Ended::Rejected(_));
                pause = (pause * 2).min(if conflict { LAST_REFUSED } else { LAST_PAUSE });
            }
        }
        sleep(pause).await;
    }
}

/// Logs an error that differs from the last one.
fn log_once(
    driver: &Driver,
    peer: Member,
    address: &str,
    error: &impl ToString,
    last_error: &mut String,
    is_logged: bool,
) {
    let text = error.to_string();
    if text != *last_error && !is_logged {
        let name = driver.name(peer);
        tracing::info!("member {name} at {address} cannot be reached: {text}");
    }
    *last_error = text;
}

/// Connects and stays until the connection is over.
async fn connect(
    driver: &Arc<Driver>,
    transport: &Transport,
    peer: Member,
    address: &str,
) -> Result<(), Ended> {
    let mut stream = timeout(GREETING, transport.dial(address)).await??;
    stream.check_member(&driver.name(peer))?;
    let ours = driver.call(|core, _| core.protocol.hello(peer));
    stream.write_all(&ours).await?;
    let (hello, rest) = timeout(GREETING, read_hello(&mut stream, Vec::new())).await??;
    if hello.from != peer {
        let (there, wanted) = (driver.name(hello.from), driver.name(peer));
        return Err(Ended::Failed(format!(
            "member {there} answers at the address of member {wanted}"
        )));
    }
    converse(driver, stream, &hello, &rest, Side::Dials).await
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// An error of the transport, or bytes that are not a hello.
    #[error("{0}")]
    Failed(String),
    /// The other side refuses this node's hello.
    #[error(transparent)]
    Refused(#[from] HelloRefused),
    /// This node refuses the other side's hello.
    #[error(transparent)]
    Rejected(#[from] Rejected),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<Elapsed> for Ended {
    fn from(error: Elapsed) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<WireError> for Ended {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Refused(why) => Self::Refused(why),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// The other side's hello, and the bytes behind it.
async fn read_hello(stream: &mut Stream, mut bytes: Vec<u8>) -> Result<(Hello, Vec<u8>), Ended> {
    loop {
        if let Some((hello, length)) = Hello::decode(&bytes)? {
            bytes.drain(..length);
            return Ok((hello, bytes));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(Ended::Failed("it closed the connection before its hello".to_owned()));
        }
    }
}

/// An end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Side {
    /// This side sent its hello first.
    Dials,
    /// This side answers a hello.
    Accepts,
}

/// Carries bytes both ways until the connection is over.
async fn converse(
    driver: &Arc<Driver>,
    stream: Stream,
    hello: &Hello,
    rest: &[u8],
    side: Side,
) -> Result<(), Ended> {
    let (reader, writer) = stream.into_split();
    let mut unused = Some(writer);
    let connected = driver.call(|core, now| {
        let connection = core.new_connection();
        let peer = core.protocol.connected(now, connection, hello).map_err(|rejected| {
            let answer = rejected.answer(core.address_of(hello.from));
            (rejected, answer)
        })?;
        // Made now, since `connected` may have started the link anew.
        let first = if side == Side::Accepts { core.protocol.hello(peer) } else { Vec::new() };
        let writer = unused.take().expect("used once");
        let writer = Arc::new(Writer::new(peer, connection, writer, first));
        core.connect(peer, connection, &writer);
        core.protocol.received(now, peer, connection, rest);
        Ok((peer, connection, writer))
    });
    let (peer, connection, writer) = match connected {
        Ok(connected) => connected,
        Err((rejected, answer)) => {
            if let Some(mut writer) = unused.filter(|_| side == Side::Accepts) {
                // The other side may have closed the connection already.
                let _ = timeout(GREETING, writer.write_all(&answer)).await;
            }
            return Err(rejected.into());
        }
    };
    let result = tokio::select! {
        result = read(driver, reader, peer, connection) => result,
        result = writer.keep_writing(driver) => result,
        () = writer.close.notified() => Ok(()),
    };
    driver.call(|core, now| {
        // The system closes the connections of a process that ends.
        match result.as_ref().map_err(io::Error::kind) {
            Ok(()) | Err(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                core.protocol.disconnected(now, peer, connection);
            }
            Err(_) => core.protocol.broken(now, peer, connection),
        }
        core.end_connection(peer, connection);
    });
    if let Err(error) = result {
        tracing::info!("the connection to member {} broke: {error}", driver.name(peer));
    }
    Ok(())
}

async fn read(
    driver: &Arc<Driver>,
    mut reader: ReadHalf,
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
        driver.call(|core, now| core.protocol.received(now, peer, connection, bytes));
    }
}

//! The network between the nodes: a proxy in front of each node, which forwards nothing between the
//! two sides of a partition. It needs no privileges.
//!
//! A proxy knows which node has connected by the process that owns the other end of the connection.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// The proxies.
pub(super) struct Network {
    addresses: Vec<SocketAddr>,
    processes: Arc<Mutex<Vec<Option<u32>>>>,
    /// The nodes on one side of the partition; none if there is no partition.
    apart: watch::Sender<BTreeSet<usize>>,
}

impl Network {
    /// A proxy in front of each of these addresses.
    pub(super) async fn new(nodes: &[SocketAddr]) -> Result<Self> {
        let (apart, cuts) = watch::channel(BTreeSet::new());
        let processes = Arc::new(Mutex::new(vec![None; nodes.len()]));
        let mut addresses = Vec::new();
        for (index, &node) in nodes.iter().enumerate() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            addresses.push(listener.local_addr()?);
            tokio::spawn(accept(listener, index, node, Arc::clone(&processes), cuts.clone()));
        }
        Ok(Self { addresses, processes, apart })
    }

    /// The addresses at which the nodes reach each other.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The process of a node, which connects from now on.
    pub(super) fn set_process(&self, node: usize, process: Option<u32>) {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)[node] = process;
    }

    /// Cuts these nodes off from the others.
    pub(super) fn cut(&self, nodes: impl IntoIterator<Item = usize>) {
        self.apart.send_replace(nodes.into_iter().collect());
    }

    /// Ends the partition.
    pub(super) fn heal(&self) {
        self.apart.send_replace(BTreeSet::new());
    }
}

async fn accept(
    listener: TcpListener,
    to: usize,
    address: SocketAddr,
    processes: Arc<Mutex<Vec<Option<u32>>>>,
    cuts: watch::Receiver<BTreeSet<usize>>,
) {
    while let Ok((stream, source)) = listener.accept().await {
        let known = processes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A process that has ended meanwhile needs no connection.
        let Some(from) = owner(source, &known) else { continue };
        let cuts = cuts.clone();
        tokio::spawn(async move {
            let mut pair = Pair { nodes: [from, to], cuts };
            pair.joined().await;
            let Ok(node) = TcpStream::connect(address).await else { return };
            let _ = (stream.set_nodelay(true), node.set_nodelay(true));
            let ((from_read, from_write), (to_read, to_write)) =
                (stream.into_split(), node.into_split());
            // One that ends ends both, as the connection of the two nodes would.
            tokio::select! {
                () = forward(pair.clone(), from_read, to_write) => {}
                () = forward(pair, to_read, from_write) => {}
            }
        });
    }
}

/// Two nodes, and whether they reach each other.
#[derive(Clone)]
struct Pair {
    nodes: [usize; 2],
    cuts: watch::Receiver<BTreeSet<usize>>,
}

impl Pair {
    /// Waits until no partition is between the two.
    async fn joined(&mut self) {
        let [one, other] = self.nodes;
        let joined = |apart: &BTreeSet<usize>| apart.contains(&one) == apart.contains(&other);
        // It fails only when the demonstration ends.
        let _ = self.cuts.wait_for(joined).await;
    }
}

/// Forwards bytes; during a partition they wait, as in the buffers of a host.
async fn forward(mut pair: Pair, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        pair.joined().await;
        if to.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
    pair.joined().await;
}

/// Which of these processes owns the socket with this address on this machine.
fn owner(address: SocketAddr, processes: &[Option<u32>]) -> Option<usize> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let inode = inode(&table, address)?;
    let socket = format!("socket:[{inode}]");
    processes.iter().position(|process| process.is_some_and(|process| has_open(process, &socket)))
}

/// The inode of the socket with this local address, by the kernel's table.
fn inode(table: &str, address: SocketAddr) -> Option<&str> {
    let SocketAddr::V4(address) = address else { return None };
    // The kernel shows the address as a number in the byte order of the machine.
    let number = u32::from_ne_bytes(address.ip().octets());
    let local = format!("{number:08X}:{:04X}", address.port());
    let row = table.lines().map(str::split_whitespace).find_map(|mut row| {
        let found = row.nth(1)? == local;
        found.then_some(row)
    });
    // Behind the local address: remote, state, queues, timer, retransmits, user, timeout, inode.
    row?.nth(7)
}

fn has_open(process: u32, file: &str) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    let target = |entry: io::Result<fs::DirEntry>| fs::read_link(entry.ok()?.path()).ok();
    entries.filter_map(target).any(|target| target.as_os_str() == file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_process_behind_a_connection_is_found() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let _stream = TcpStream::connect(address).await.expect("connected");
        let (_accepted, source) = listener.accept().await.expect("a connection");
        let me = std::process::id();
        assert_eq!(owner(source, &[None, Some(1), Some(me)]), Some(2));
        assert_eq!(owner(source, &[None]), None);
    }

    #[tokio::test]
    async fn a_partition_holds_bytes_back_until_it_ends() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let node = listener.local_addr().expect("an address");
        let network = Network::new(&[node, node]).await.expect("proxies");
        network.set_process(1, Some(std::process::id()));
        let mut client = TcpStream::connect(network.addresses()[0]).await.expect("connected");
        let (mut server, _) = listener.accept().await.expect("forwarded");
        let mut byte = [0];
        client.write_all(b"a").await.expect("written");
        server.read_exact(&mut byte).await.expect("read");
        network.cut([1]);
        client.write_all(b"b").await.expect("written");
        let wait = std::time::Duration::from_millis(50);
        let held = tokio::time::timeout(wait, server.read_exact(&mut byte)).await;
        assert!(held.is_err(), "a byte came through the partition");
        network.heal();
        server.read_exact(&mut byte).await.expect("read");
        assert_eq!(&byte, b"b");
    }
}

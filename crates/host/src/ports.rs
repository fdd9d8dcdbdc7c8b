//! Addresses for programs that listen later.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
};

/// Ports below these are often those of well-known services.
const FIRST: u16 = 10_000;

/// Where the kernel's own range begins if it does not say so.
const LINUX_FIRST_EPHEMERAL: u16 = 32_768;

/// Addresses of 127.0.0.1, all different, at which nothing listens now.
///
/// A port that the kernel chooses (port 0) is from the range that it also takes the ports of
/// outgoing connections from: a program that listens there later, or again after a restart, may
/// find it in use. These ports are below that range.
pub fn free_addresses(count: usize) -> io::Result<Vec<SocketAddr>> {
    let ports = FIRST..first_ephemeral();
    // All are bound until the last is chosen, so that no two are the same.
    let mut bound = Vec::new();
    for port in from_a_random_one(ports) {
        if bound.len() == count {
            break;
        }
        bound.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    }
    // There may be few below the kernel's range, or none.
    while bound.len() < count {
        bound.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
    }
    bound.iter().map(TcpListener::local_addr).collect()
}

fn first_ephemeral() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    first.unwrap_or(LINUX_FIRST_EPHEMERAL)
}

/// Two programs that choose at the same time rarely try the same ports.
fn from_a_random_one(ports: Range<u16>) -> impl Iterator<Item = u16> {
    let count = u64::from(ports.end.saturating_sub(ports.start)).max(1);
    let skipped = usize::try_from(RandomState::new().hash_one(()) % count).unwrap_or_default();
    ports.clone().skip(skipped).chain(ports.take(skipped))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, net::TcpStream};

    use super::*;

    #[test]
    fn free_addresses_differ_and_no_outgoing_connection_takes_them() {
        let free = free_addresses(50).expect("free ports");
        let ports: BTreeSet<u16> = free.iter().map(SocketAddr::port).collect();
        assert_eq!(ports.len(), 50);
        assert!(ports.iter().all(|&port| (FIRST..first_ephemeral()).contains(&port)), "{ports:?}");
        let listener = TcpListener::bind(free[0]).expect("it is free");
        let outgoing = TcpStream::connect(listener.local_addr().expect("bound")).expect("open");
        assert!(outgoing.local_addr().expect("bound").port() >= first_ephemeral());
    }

    #[test]
    fn every_port_is_tried_once() {
        let mut tried: Vec<_> = from_a_random_one(5..9).collect();
        tried.sort_unstable();
        assert_eq!(tried, [5, 6, 7, 8]);
        assert_eq!(from_a_random_one(9..9).count(), 0);
    }
}

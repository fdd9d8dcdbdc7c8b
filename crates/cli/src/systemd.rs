//! Notifications for systemd: the node is ready, alive, or stopping.
//!
//! The protocol is a datagram of `KEY=VALUE` lines to the socket that `NOTIFY_SOCKET` names, so no
//! library is needed. Without the variable nothing is sent.

use std::{
    env,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

/// The supervisor of this process, if it wants to be notified.
#[derive(Debug)]
pub(crate) struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// The longest time between two signs of life.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// The supervisor that the environment names.
    pub(crate) fn of_environment() -> Self {
        let name = env::var("NOTIFY_SOCKET").unwrap_or_default();
        let own = |text: String| text.parse() == Ok(std::process::id());
        let is_ours = env::var("WATCHDOG_PID").map_or(true, own);
        let micros = env::var("WATCHDOG_USEC").ok().filter(|_| is_ours);
        let micros = micros.and_then(|text| text.parse().ok()).filter(|micros| *micros > 0);
        Self::new(&name, micros.map(Duration::from_micros))
    }

    fn new(name: &str, watchdog: Option<Duration>) -> Self {
        // An @ stands for the zero byte of an abstract name.
        let address = match name.strip_prefix('@') {
            Some(rest) => SocketAddr::from_abstract_name(rest).ok(),
            None => Some(name)
                .filter(|name| !name.is_empty())
                .and_then(|name| SocketAddr::from_pathname(name).ok()),
        };
        Self { socket: UnixDatagram::unbound().ok().zip(address), watchdog }
    }

    /// The node serves its clients.
    pub(crate) fn ready(&self) {
        self.send("READY=1\nSTATUS=serving clients\n");
    }

    /// The node has been asked to stop.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// Sends signs of life as long as it is polled, twice in the time that the supervisor allows: a
    /// node whose runtime stands still is restarted. Does not return.
    pub(crate) async fn keep_alive(&self) {
        let Some(limit) = self.watchdog else { return std::future::pending().await };
        loop {
            self.send("WATCHDOG=1\n");
            tokio::time::sleep(limit / 2).await;
        }
    }

    fn send(&self, text: &str) {
        if let Some((socket, address)) = &self.socket {
            // A supervisor that does not listen must not stop the node.
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixDatagram, time::Duration};

    use super::Notifier;

    #[test]
    fn a_supervisor_hears_of_start_life_and_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        let supervisor = UnixDatagram::bind(&path).expect("a socket");
        let notifier = Notifier::new(path.to_str().expect("text"), Some(Duration::from_millis(20)));
        notifier.ready();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let _ = tokio::time::timeout(Duration::from_millis(50), notifier.keep_alive()).await;
        });
        notifier.stopping();
        supervisor.set_nonblocking(true).expect("set");
        let mut heard = Vec::new();
        let mut buffer = [0; 64];
        while let Ok(length) = supervisor.recv(&mut buffer) {
            heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        assert!(heard[0].starts_with("READY=1\n"), "{heard:?}");
        assert!(heard.iter().filter(|text| *text == "WATCHDOG=1\n").count() >= 2, "{heard:?}");
        assert_eq!(heard.last().map(String::as_str), Some("STOPPING=1\n"));
        // Nothing listens any more, and that changes nothing.
        drop(supervisor);
        notifier.ready();
        Notifier::new("", None).ready();
    }
}

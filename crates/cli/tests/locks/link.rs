//! A link to a node that can drop everything, as a network does.

use std::{
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::spawn,
};

pub(crate) struct Link {
    socket: PathBuf,
    silent: Arc<AtomicBool>,
}

impl Link {
    /// A link to a node's socket, at a socket of its own.
    pub(crate) fn new(node: &Path) -> Self {
        let socket = node.with_extension("link");
        let listener = UnixListener::bind(&socket).expect("bound");
        let silent = Arc::new(AtomicBool::new(false));
        let (node, is_silent) = (node.to_owned(), Arc::clone(&silent));
        spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = UnixStream::connect(&node) else { continue };
                let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { continue };
                let (one, other) = (Arc::clone(&is_silent), Arc::clone(&is_silent));
                spawn(move || pass_on(from, to, &one));
                spawn(move || pass_on(server, client, &other));
            }
        });
        Self { socket, silent }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// From now on all bytes are dropped, and no connection is closed.
    pub(crate) fn drop_all(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }
}

fn pass_on(mut from: UnixStream, mut to: UnixStream, silent: &AtomicBool) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !silent.load(Ordering::SeqCst) && to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
    if silent.load(Ordering::SeqCst) {
        // The other end must not notice the close either, until the test ends.
        std::mem::forget((from, to));
    }
}

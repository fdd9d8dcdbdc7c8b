//! The client for threads: the same locks, without async.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = mutua_client::blocking::Client::connect("unix:/run/mutua/locks.sock")?;
//! let guard = client.lock("nightly").acquire()?;
//! println!("held with fencing token {}", guard.fencing_token());
//! # Ok(()) }
//! ```
//!
//! A thread of the client keeps the session. These calls block their thread: from async code, use
//! the types of the [crate root](crate).

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use tokio::{
    runtime,
    sync::mpsc::{Receiver, channel},
};

use super::{AcquireError, Leader, Lost, Options, Scope, state::Wait};
use crate::{CallError, ConnectError};

/// A client of a node. See [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client {
    client: super::Client,
    runtime: runtime::Handle,
}

/// A named lock. See [`crate::Lock`].
#[derive(Clone, Debug)]
pub struct Lock(super::Lock);

/// A lock that is held until this value is dropped, or until it is lost. See [`crate::Guard`].
#[must_use = "the lock is released when the guard is dropped"]
#[derive(Debug)]
pub struct Guard(super::Guard);

impl Client {
    /// Connects to a node with the default options.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub fn connect(endpoint: impl Into<String>) -> Result<Self, ConnectError> {
        Options::new([endpoint]).connect_blocking()
    }

    /// The lock of this name. Nothing is sent.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        Lock(self.client.lock(name))
    }

    /// The election of this name. Nothing is sent.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election { election: self.client.election(name), runtime: self.runtime.clone() }
    }

    /// The clients that the locks of this session exclude.
    pub fn scope(&self) -> &Scope {
        self.client.scope()
    }
}

impl Options {
    /// Connects as [`connect`](Self::connect) does; a thread keeps the session.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect).
    pub fn connect_blocking(self) -> Result<Client, ConnectError> {
        let failed = |error| ConnectError::Unreachable(format!("cannot start a thread: {error}"));
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let client = runtime.block_on(self.connect())?;
        let shared = Arc::clone(&client.0.shared);
        let handle = runtime.handle().clone();
        let keep = move || runtime.block_on(shared.ended());
        thread::Builder::new().name("mutua-client".to_owned()).spawn(keep).map_err(failed)?;
        Ok(Client { client, runtime: handle })
    }
}

impl Lock {
    /// The lock's name.
    pub fn name(&self) -> &[u8] {
        self.0.name()
    }

    /// Waits until the lock is granted.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    pub fn acquire(&self) -> Result<Guard, AcquireError> {
        wait_for(self.0.request(Wait::Forever)).map(Guard)
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Busy`] if it is held or has waiters. See [`AcquireError`] for others.
    pub fn try_acquire(&self) -> Result<Guard, AcquireError> {
        wait_for(self.0.try_acquire()).map(Guard)
    }

    /// Waits at most this long.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] if it was not granted in time. See [`AcquireError`] for others.
    pub fn acquire_within(&self, limit: Duration) -> Result<Guard, AcquireError> {
        wait_for(self.0.acquire_within(limit)).map(Guard)
    }
}

/// What a guard and a leadership have alike.
macro_rules! held {
    ($held:ident, $first:literal) => {
        impl $held {
            #[doc = $first]
            pub fn fencing_token(&self) -> u64 {
                self.0.fencing_token()
            }

            /// Whether it is held now, as far as this client can know. Reads the clock; nothing is
            /// sent.
            pub fn is_good(&self) -> bool {
                self.0.is_good()
            }

            /// Waits until it is lost. Call it on a thread of its own, with this value in an
            /// [`Arc`](std::sync::Arc).
            pub fn lost(&self) -> Lost {
                wait_for(self.0.lost())
            }
        }
    };
}

held!(Guard, "A number that is greater than that of every earlier guard of the same name.");
held!(
    Leadership,
    "A number that is greater than that of every earlier leader of the same election."
);

impl Guard {
    /// Releases the lock and waits until the node has done it.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the node cannot confirm that the lock was held until then.
    pub fn release(self) -> Result<(), Lost> {
        wait_for(self.0.release())
    }
}

/// A named election. See [`crate::Election`].
#[derive(Clone, Debug)]
pub struct Election {
    election: super::Election,
    runtime: runtime::Handle,
}

impl Election {
    /// Waits until this client is the leader, with this value for observers.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`].
    pub fn campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership, AcquireError> {
        wait_for(self.election.campaign(value)).map(Leadership)
    }

    /// Becomes the leader if there is none.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Busy`] if there is a leader or a candidate. See [`AcquireError`] for others.
    pub fn try_campaign(&self, value: impl AsRef<[u8]>) -> Result<Leadership, AcquireError> {
        wait_for(self.election.try_campaign(value)).map(Leadership)
    }

    /// Waits at most this long.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] if it was not elected in time. See [`AcquireError`] for others.
    pub fn campaign_within(
        &self,
        value: impl AsRef<[u8]>,
        limit: Duration,
    ) -> Result<Leadership, AcquireError> {
        wait_for(self.election.campaign_within(value, limit)).map(Leadership)
    }

    /// Observes the election, on the client's thread.
    pub fn observe(&self) -> Observer {
        let mut observer = self.election.observe();
        let (sender, leaders) = channel(1);
        self.runtime.spawn(async move {
            loop {
                tokio::select! {
                    next = observer.next_leader() => if sender.send(next).await.is_err() {
                        return;
                    },
                    () = sender.closed() => return,
                }
            }
        });
        Observer { leaders }
    }

    /// The leader, if there is one.
    ///
    /// # Errors
    ///
    /// See [`crate::Observer::next_leader`].
    pub fn leader(&self) -> Result<Option<Leader>, CallError> {
        self.observe().next_leader()
    }
}

/// The leadership of this client. Dropping it resigns. See [`crate::Leadership`].
#[must_use = "the leader resigns when this is dropped"]
#[derive(Debug)]
pub struct Leadership(super::Leadership);

impl Leadership {
    /// Gives the leader another value, and waits until the node has it.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the node cannot confirm that this client leads.
    pub fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<(), Lost> {
        wait_for(self.0.proclaim(value))
    }

    /// Resigns, and waits until the node has done it.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the node cannot confirm that this client led until then.
    pub fn resign(self) -> Result<(), Lost> {
        wait_for(self.0.resign())
    }
}

/// The leaders of an election, one after the other. See [`crate::Observer`].
#[derive(Debug)]
pub struct Observer {
    leaders: Receiver<Result<Option<Leader>, CallError>>,
}

impl Observer {
    /// The next leader; at first the present one.
    ///
    /// # Errors
    ///
    /// See [`crate::Observer::next_leader`].
    pub fn next_leader(&mut self) -> Result<Option<Leader>, CallError> {
        let closed = || ConnectError::Unreachable("the client is closed".to_owned());
        wait_for(self.leaders.recv()).unwrap_or_else(|| Err(closed().into()))
    }
}

/// Blocks the thread until a future is complete. The futures here wait for the client's thread
/// only.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

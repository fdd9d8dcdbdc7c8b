//! What no lock between processes can beat: a mutex in one process, a byte there and back, a byte
//! that goes round.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::OwnedMutexGuard,
    time::sleep,
};

/// A mutex of tokio's without contention.
#[derive(Debug, Default)]
pub(crate) struct Mutex {
    mutex: Arc<tokio::sync::Mutex<u64>>,
    guard: Option<OwnedMutexGuard<u64>>,
}

impl super::Lock for Mutex {
    async fn name(&mut self, _name: &str) -> Result<()> {
        Ok(())
    }

    async fn lock(&mut self) -> Result<()> {
        self.guard = Some(Arc::clone(&self.mutex).lock_owned().await);
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        self.guard = None;
        Ok(())
    }
}

/// A byte to a server that sends it back: one round trip. A pair of calls would be two.
#[derive(Debug)]
pub(crate) struct Ping(TcpStream);

impl Ping {
    pub(crate) async fn connect(endpoint: &str) -> Result<Self> {
        let stream = TcpStream::connect(endpoint).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Sends back what comes, for ever.
    pub(crate) async fn serve(address: &str) -> Result<()> {
        let listener = TcpListener::bind(address).await?;
        loop {
            let (mut stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(async move {
                let mut byte = [0];
                while stream.read_exact(&mut byte).await.is_ok() {
                    if stream.write_all(&byte).await.is_err() {
                        break;
                    }
                }
            });
        }
    }
}

impl super::Lock for Ping {
    async fn name(&mut self, _name: &str) -> Result<()> {
        Ok(())
    }

    async fn lock(&mut self) -> Result<()> {
        self.0.write_all(&[1]).await?;
        self.0.read_exact(&mut [0]).await?;
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A byte goes round; the contender that has it holds the lock.
#[derive(Debug)]
pub(crate) struct Ring {
    from: TcpStream,
    to: TcpStream,
    here: bool,
}

impl Ring {
    pub(crate) async fn join(addresses: &[String], me: usize) -> Result<Self> {
        let listener = TcpListener::bind(&addresses[me]).await?;
        let next = &addresses[(me + 1) % addresses.len()];
        let (to, (from, _)) = tokio::try_join!(dial(next), listener.accept())?;
        to.set_nodelay(true)?;
        from.set_nodelay(true)?;
        Ok(Self { from, to, here: me == 0 })
    }
}

async fn dial(address: &str) -> std::io::Result<TcpStream> {
    loop {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            // It does not listen yet; the driver bounds the whole.
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

impl super::Lock for Ring {
    async fn name(&mut self, _name: &str) -> Result<()> {
        Ok(())
    }

    async fn lock(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.here) {
            self.from.read_exact(&mut [0]).await?;
        }
        Ok(())
    }

    async fn unlock(&mut self) -> Result<()> {
        Ok(self.to.write_all(&[1]).await?)
    }

    /// The next one may wait for a byte that would go round no more. What it does with this one is
    /// after the end and does not count.
    async fn finish(&mut self) -> Result<()> {
        self.unlock().await
    }
}

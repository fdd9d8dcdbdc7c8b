//! Locks in a Rust program, with a node of its own: the example of `docs/library.md`.
//!
//!     cargo run -p mutua-node --example embed

use std::{error::Error, time::Duration};

use mutua_node::{AcquireError, Config, Node};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let node = Node::start(Config::alone(directory.path())).await?;
    let lock = node.lock("accounts/1");

    let guard = lock.acquire().await?;
    println!("acquired with fencing token {}", guard.fencing_token());

    match lock.try_acquire().await {
        Ok(_) => println!("acquired a second time"),
        Err(AcquireError::Busy) => println!("held by another client"),
        Err(error) => return Err(error.into()),
    }
    match lock.acquire_within(Duration::from_millis(100)).await {
        Err(AcquireError::TimedOut) => println!("not acquired in time"),
        other => println!("acquired: {}", other.is_ok()),
    }

    tokio::select! {
        () = guard.lost() => println!("lost: stop at once"),
        () = work() => println!("done"),
    }
    drop(guard);
    node.stop().await;
    Ok(())
}

async fn work() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

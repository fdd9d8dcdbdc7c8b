//! A program that holds a lock of a running node: the example of `docs/library.md`.
//!
//!     cargo run -p mutua-client --example nightly -- unix:/run/mutua/locks.sock

use std::{error::Error, time::Duration};

use mutua_client::{AcquireError, Options};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoints: Vec<_> = std::env::args().skip(1).collect();
    let client = Options::new(endpoints).owner("nightly").connect().await?;
    let lock = client.lock("nightly");

    let guard = match lock.acquire_within(Duration::from_secs(5)).await {
        Ok(guard) => guard,
        Err(error @ AcquireError::TimedOut { .. }) => {
            println!("{error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    println!("acquired with fencing token {}", guard.fencing_token());

    tokio::select! {
        lost = guard.lost() => println!("{lost}: stop at once"),
        () = work() => println!("done"),
    }
    guard.release().await?;
    Ok(())
}

async fn work() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

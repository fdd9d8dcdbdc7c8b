//! Leads while it works, and shows the leaders: `scheduler ENDPOINT lead` or `scheduler ENDPOINT`.

use std::{error::Error, time::Duration};

use mutua_client::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let endpoint = arguments.next().ok_or("give the endpoint of a node, as unix:PATH")?;
    let client = Client::connect(endpoint).await?;
    match arguments.next().as_deref() {
        Some("lead") => lead(&client).await,
        _ => observe(&client).await,
    }
}

async fn lead(client: &Client) -> Result<(), Box<dyn Error>> {
    let election = client.election("scheduler");
    let leadership = election.campaign("10.0.0.1:8080").await?;
    leadership.proclaim("10.0.0.1:8081").await?;
    tokio::select! {
        lost = leadership.lost() => println!("{lost}: stop at once"),
        () = work() => leadership.resign().await?,
    }
    Ok(())
}

async fn observe(client: &Client) -> Result<(), Box<dyn Error>> {
    let mut observer = client.election("scheduler").observe();
    loop {
        match observer.next_leader().await? {
            Some(leader) => println!("{} leads: {}", leader.holder, leader.fencing_token),
            None => println!("no leader"),
        }
    }
}

async fn work() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

//! The bank of every textbook: an account with 1,000 in it, and two cash machines that each pay in
//! 10,000 at the same time. Reading, adding and writing take a while; without a lock one of the two
//! deposits is lost. Here three processes run a node each, the bank and the two machines, and the
//! deposits are made inside one lock:
//!
//!     cargo run -p mutua-node --example bank
//!
//! The account is a file with two numbers: the balance, and the fence of who wrote it last. Who
//! writes compares, so that even somebody whose lock was lost long ago could do no harm.

use std::{
    env,
    error::Error,
    fs,
    io::{self, BufRead, BufReader, stdin},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use mutua_node::{Config, Fence, MemberConfig, Node};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [place, name, rest @ ..] => run(machine(Path::new(place), name, rest)),
        _ => bank(),
    }
}

/// The first process: it opens the account, starts the two machines, and looks at the end.
fn bank() -> Outcome<()> {
    let place = tempfile::tempdir()?;
    let account = place.path().join("account");
    fs::write(&account, "1000 0")?;
    println!("the account has 1000");
    let free = || TcpListener::bind("127.0.0.1:0")?.local_addr().map(|address| address.to_string());
    let addresses = [free()?, free()?, free()?];
    let mut machines = Vec::new();
    for name in ["machine-1", "machine-2"] {
        let mut command = Command::new(env::current_exe()?);
        command.arg(place.path()).arg(name).args(&addresses);
        machines.push(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    }
    run(async {
        let node = join(place.path(), "bank", &addresses.each_ref().map(String::as_str)).await?;
        for machine in &mut machines {
            let mut output = BufReader::new(machine.stdout.take().ok_or("no output")?);
            print!("{}", aside(move || line(&mut output)).await?);
        }
        let guard = node.lock("account").acquire().await?;
        let (balance, _) = read(&account)?;
        println!("the account has {balance}, seen with fence {}", guard.fence());
        assert_eq!(balance, 21_000, "1,000 + 10,000 + 10,000");
        Ok(())
    })?;
    for mut machine in machines {
        // Its input ends, and so does it.
        drop(machine.stdin.take());
        machine.wait()?;
    }
    Ok(())
}

/// One of the two machines. It stays when it has paid in, since the others need its node.
async fn machine(place: &Path, name: &str, addresses: &[&str]) -> Outcome<()> {
    let node = join(place, name, addresses).await?;
    let guard = node.lock("account").acquire().await?;
    deposit(&place.join("account"), 10_000, guard.fence()).await?;
    println!("{name} paid in 10000 with fence {}", guard.fence());
    drop(guard);
    aside(|| line(&mut stdin().lock())).await?;
    Ok(())
}

fn line(from: &mut dyn BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line)
}

/// Waits for something without holding up the node.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Outcome<T> {
    Ok(tokio::task::spawn_blocking(work).await??)
}

async fn join(place: &Path, name: &str, addresses: &[&str]) -> Outcome<Node> {
    let names = ["bank", "machine-1", "machine-2"];
    let members = names.iter().zip(addresses).map(|(name, address)| MemberConfig {
        name: (*name).to_owned(),
        address: (*address).to_owned(),
    });
    let config = Config {
        cluster: "bank".to_owned(),
        node: name.to_owned(),
        members: members.collect(),
        data: place.join(name),
        ..Config::alone(place)
    };
    Ok(Node::start(config).await?)
}

/// Reads, thinks, writes: what goes wrong when two do it at once.
async fn deposit(account: &Path, amount: u64, fence: Fence) -> Outcome<()> {
    let (balance, last) = read(account)?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    if fence.number() <= last {
        return Err(format!("fence {fence} is not after {last}: the lock was lost").into());
    }
    Ok(fs::write(account, format!("{} {fence}", balance + amount))?)
}

fn read(account: &Path) -> Outcome<(u64, u64)> {
    let text = fs::read_to_string(account)?;
    let (balance, fence) = text.split_once(' ').ok_or("an account is two numbers")?;
    Ok((balance.parse()?, fence.parse()?))
}

fn run<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

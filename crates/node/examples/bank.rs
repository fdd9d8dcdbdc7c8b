//! The bank of every textbook: an account with 1,000 in it, and two cash machines that each pay in
//! 10,000 at the same time. Reading, adding and writing take a while; without a lock one of the two
//! deposits is lost. Here three processes run a node each, the bank and the two machines, and each
//! deposit is made while a lock is held:
//!
//!     cargo run -p mutua-node --example bank
//!
//! The account is a file with two numbers: the balance, and the fencing token of the last writer. A
//! writer compares, so that one that has lost its lock long ago does no harm.

use std::{
    env,
    error::Error,
    fs,
    io::{self, BufRead, BufReader, stdin},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use mutua_node::{Config, FencingToken, MemberConfig, Node};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [directory, name, rest @ ..] => run(machine(Path::new(directory), name, rest)),
        _ => bank(),
    }
}

/// The first process: it opens the account, starts the two machines, and looks at the end.
fn bank() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    let account = directory.path().join("account");
    fs::write(&account, "1000 0")?;
    println!("the account has 1000");
    let free = mutua_host::free_addresses(3)?;
    let addresses = [0, 1, 2].map(|index: usize| free[index].to_string());
    let mut machines = Vec::new();
    for name in ["machine-1", "machine-2"] {
        let mut command = Command::new(env::current_exe()?);
        command.arg(directory.path()).arg(name).args(&addresses);
        machines.push(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    }
    run(async {
        let node =
            join(directory.path(), "bank", &addresses.each_ref().map(String::as_str)).await?;
        for machine in &mut machines {
            let mut output = BufReader::new(machine.stdout.take().ok_or("no output")?);
            print!("{}", aside(move || line(&mut output)).await?);
        }
        let guard = node.lock("account").acquire().await?;
        let (balance, _) = read(&account)?;
        println!("the account has {balance}, seen with fencing token {}", guard.fencing_token());
        assert_eq!(balance, 21_000, "1,000 + 10,000 + 10,000");
        Ok(())
    })?;
    for mut machine in machines {
        // It ends when its input ends.
        drop(machine.stdin.take());
        machine.wait()?;
    }
    Ok(())
}

/// One of the two machines. It keeps running when it has paid in, since the others need its node.
async fn machine(directory: &Path, name: &str, addresses: &[&str]) -> Outcome<()> {
    let node = join(directory, name, addresses).await?;
    let guard = node.lock("account").acquire().await?;
    deposit(&directory.join("account"), 10_000, guard.fencing_token()).await?;
    println!("{name} paid in 10000 with fencing token {}", guard.fencing_token());
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

async fn join(directory: &Path, name: &str, addresses: &[&str]) -> Outcome<Node> {
    let names = ["bank", "machine-1", "machine-2"];
    let members =
        names.iter().zip(addresses).map(|(name, address)| MemberConfig::new(*name, *address));
    let config = Config {
        cluster: "bank".to_owned(),
        node: name.to_owned(),
        members: members.collect(),
        data: directory.join(name),
        ..Config::alone(directory)
    };
    Ok(Node::start(config).await?)
}

/// Reads, waits and writes, which goes wrong when two do it at once.
async fn deposit(account: &Path, amount: u64, fence: FencingToken) -> Outcome<()> {
    let (balance, last) = read(account)?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    if fence.number() <= last {
        return Err(format!("fencing token {fence} is not after {last}: the lock was lost").into());
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

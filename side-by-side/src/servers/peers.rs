//! How each system's servers are started: as their manuals say, with their defaults, on loopback.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::{
    free_addresses,
    process::{Server, User, command},
};
use crate::node::NodeSpec;

type Started = (Vec<Server>, Vec<String>);

fn this_program() -> Result<String> {
    Ok(env::current_exe()?.to_str().context("this program's path is not UTF-8")?.to_owned())
}

pub(super) fn mutua(home: &Path, nodes: usize, algorithm: &str) -> Result<Started> {
    let (addresses, endpoints) = (free_addresses(nodes)?, free_addresses(nodes)?);
    let mut servers = Vec::new();
    for (me, listen) in endpoints.iter().enumerate() {
        let spec = NodeSpec {
            directory: home.to_owned(),
            algorithm: algorithm.to_owned(),
            addresses: addresses.clone(),
            me,
            listen: listen.clone(),
        };
        let mut command = command(&this_program()?, User::Same);
        command.arg("node").arg(serde_json::to_string(&spec)?);
        servers.push(Server::start(command, &format!("node-{me}"), home)?);
    }
    Ok((servers, endpoints))
}

pub(super) fn ping(home: &Path) -> Result<Started> {
    let endpoints = free_addresses(1)?;
    let mut command = command(&this_program()?, User::Same);
    command.arg("echo").arg(&endpoints[0]);
    let server = Server::start(command, "echo", home)?;
    Ok((vec![server], endpoints))
}

pub(super) fn etcd(home: &Path, nodes: usize) -> Result<Started> {
    let (endpoints, peers) = (free_addresses(nodes)?, free_addresses(nodes)?);
    let members: Vec<_> =
        peers.iter().enumerate().map(|(me, peer)| format!("e{me}=http://{peer}")).collect();
    let mut servers = Vec::new();
    for me in 0..nodes {
        let name = format!("e{me}");
        let (client, peer) = (format!("http://{}", endpoints[me]), format!("http://{}", peers[me]));
        let mut command = command("etcd", User::Same);
        command.args(["--name", &name, "--log-level", "error", "--logger", "zap"]);
        command.arg("--data-dir").arg(home.join(&name));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &members.join(","), "--initial-cluster-state", "new"]);
        servers.push(Server::start(command, &name, home)?);
    }
    Ok((servers, endpoints))
}

/// Where Debian puts ZooKeeper; its manifest names the rest.
const ZOOKEEPER_JAR: &str = "/usr/share/java/zookeeper.jar";

pub(super) fn zookeeper(home: &Path, nodes: usize) -> Result<Started> {
    let endpoints = free_addresses(nodes)?;
    let (quorum, election) = (free_addresses(nodes)?, free_addresses(nodes)?);
    let port = |address: &str| address.rsplit_once(':').map_or("", |(_, port)| port).to_owned();
    let mut members = String::new();
    for me in 0..nodes {
        let (quorum, election) = (&quorum[me], port(&election[me]));
        members += &format!("server.{}={quorum}:{election}\n", me + 1);
    }
    let mut servers = Vec::new();
    for (me, endpoint) in endpoints.iter().enumerate() {
        let directory = home.join(format!("z{me}"));
        fs::create_dir(&directory)?;
        fs::write(directory.join("myid"), (me + 1).to_string())?;
        let mut config = format!(
            "tickTime=2000\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\ndataDir={}\n\
             clientPortAddress=127.0.0.1\nclientPort={}\nadmin.enableServer=false\n",
            directory.display(),
            port(endpoint)
        );
        if nodes > 1 {
            config += &members;
        }
        fs::write(directory.join("zoo.cfg"), config)?;
        fs::write(directory.join("log4j.properties"), LOG4J)?;
        let mut command = command("java", User::Same);
        command.arg("-cp").arg(format!("{}:{ZOOKEEPER_JAR}", directory.display()));
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain");
        command.arg(directory.join("zoo.cfg"));
        servers.push(Server::start(command, &format!("zookeeper-{me}"), home)?);
    }
    Ok((servers, endpoints))
}

const LOG4J: &str = "log4j.rootLogger=ERROR, CONSOLE
log4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender
log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout
";

pub(super) fn redis(home: &Path, count: usize) -> Result<Started> {
    let endpoints = free_addresses(count)?;
    let mut servers = Vec::new();
    for (me, endpoint) in endpoints.iter().enumerate() {
        let (_, port) = endpoint.rsplit_once(':').context("an address has a port")?;
        let mut command = command("redis-server", User::Same);
        command.args(["--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"]);
        command.args(["--daemonize", "no", "--dir"]).arg(home);
        servers.push(Server::start(command, &format!("redis-{me}"), home)?);
    }
    Ok((servers, endpoints))
}

/// The newest of the versions that Debian installs beside each other.
pub(crate) fn postgres_programs() -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").context("no PostgreSQL is installed")?;
    let newest = versions
        .flatten()
        .filter(|entry| entry.path().join("bin/postgres").exists())
        .max_by_key(|entry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    Ok(newest.context("no PostgreSQL server is installed")?.path().join("bin"))
}

pub(super) fn postgres(home: &Path) -> Result<Started> {
    let programs = postgres_programs()?;
    let program = |name| programs.join(name).display().to_string();
    let data = home.join("data");
    fs::create_dir(&data)?;
    let mut own = command("true", User::Same);
    if rustix::process::getuid().is_root() {
        own = command("chown", User::Same);
        own.arg("postgres:").arg(&data);
    }
    if !own.status()?.success() {
        bail!("the user `postgres`, which must run PostgreSQL, is missing");
    }
    let mut init = command(&program("initdb"), User::Postgres);
    init.args(["--auth=trust", "--no-sync", "--username=postgres", "-D"]).arg(&data);
    let output = init.current_dir("/").output()?;
    if !output.status.success() {
        bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let endpoints = free_addresses(1)?;
    let (_, port) = endpoints[0].rsplit_once(':').context("an address has a port")?;
    let mut command = command(&program("postgres"), User::Postgres);
    command.arg("-D").arg(&data).args(["-c", "listen_addresses=127.0.0.1", "-p", port]);
    command.args(["-c", "unix_socket_directories="]).current_dir("/");
    let server = Server::start(command, "postgres", home)?;
    // At once, but so that its own processes end too.
    Ok((vec![server.stopped_by(Signal::QUIT)], endpoints))
}

//! `mutua config`: checks and explains configuration files.

use std::{fmt::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Args, Subcommand};
use mutua_node::{CONFIG_KEYS, Config, ConfigKey, KeyDefault, StartError};
use mutua_tls::date;
use serde::Serialize;

use crate::{
    exit::{CONFIG, Coded, usage},
    local::config_file,
};

/// The end of the help.
pub(crate) const HELP: &str = "\
Exit codes: 0 the file is valid; 64 bad usage; 78 the file, or a certificate that it names, cannot \
be used.";

/// Check a configuration file, or print an example.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check a file and the certificates that it names, without starting anything.
    Check {
        /// Configuration file [default: MUTUA_CONFIG, else /etc/mutua/mutua.toml].
        file: Option<PathBuf>,
    },
    /// Print an example with every key.
    Example,
    /// Print the configuration of one member of a new cluster.
    New {
        /// Name of the cluster.
        #[arg(long, value_name = "NAME")]
        cluster: String,
        /// The member that the file is for.
        #[arg(long, value_name = "NAME")]
        node: String,
        /// Data directory.
        #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/mutua")]
        data: String,
        /// Without TLS: everybody who can reach the addresses can take and release locks.
        #[arg(long)]
        insecure: bool,
        /// The members, and where each accepts the others.
        #[arg(required = true, value_name = "NAME=HOST:PORT", value_parser = member)]
        members: Vec<(String, String)>,
    },
    /// List the keys with type, default and meaning.
    Keys {
        /// Print JSON: one list of objects.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.action {
        Action::Check { file } => check(&config_file(file.as_deref()))?,
        Action::Example => print!("{}", example()),
        Action::New { cluster, node, data, insecure, members } => {
            print!("{}", new(cluster, node, data, *insecure, members)?);
        }
        Action::Keys { json: true } => {
            let rows: Vec<_> = CONFIG_KEYS.iter().map(Row::of).collect();
            println!("{}", serde_json::to_string_pretty(&rows)?);
        }
        Action::Keys { json: false } => {
            for key in CONFIG_KEYS {
                let row = Row::of(key);
                let table = if key.table.is_empty() { "" } else { " " };
                println!(
                    "{}{table}{} ({}; {})",
                    key.table,
                    key.name,
                    key.kind,
                    row.default_words()
                );
                println!("    {}", key.meaning);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(file: &std::path::Path) -> Result<()> {
    let config = super::read_config(file)?;
    let identity = config.identity().map_err(|error| Coded(CONFIG, error.to_string()))?;
    let security = match identity {
        Some(identity) => {
            format!("TLS, certificate valid until {}", date(identity.certificate().until))
        }
        None if config.insecure => "no TLS, insecure".to_owned(),
        None => {
            must_be_loopback(&config)?;
            "no TLS, loopback only".to_owned()
        }
    };
    let alone = match config.is_clustered() {
        true => "",
        false => {
            "it lists no other member: a single node, in no cluster, whose locks exclude no other \
             host; it does not use its member address\n"
        }
    };
    println!("{} is valid", file.display());
    println!("node {} of cluster {}, {security}", config.node, config.cluster);
    println!("data directory {}", config.data.display());
    print!("{}{alone}", members(&config));
    Ok(())
}

/// Refuses what the node would refuse at its start, as far as it shows in the file.
fn must_be_loopback(config: &Config) -> Result<()> {
    let own = config.members.iter().find(|member| member.name == config.node);
    let own = own.filter(|_| config.members.len() > 1).map(|member| member.address.clone());
    let Some(address) = config.listen.clone().or(own) else { return Ok(()) };
    match address.parse::<std::net::SocketAddr>() {
        Ok(found) if !found.ip().is_loopback() => {
            Err(Coded(CONFIG, StartError::NotLoopback { address }.to_string()).into())
        }
        // A host name is resolved when the node starts.
        Ok(_) | Err(_) => Ok(()),
    }
}

fn member(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, address)) if !name.is_empty() => Ok((name.to_owned(), address.to_owned())),
        _ => Err(format!("invalid member `{text}`: use NAME=HOST:PORT")),
    }
}

fn new(
    cluster: &str,
    node: &str,
    data: &str,
    insecure: bool,
    members: &[(String, String)],
) -> Result<String> {
    // A text of JSON is one of TOML too.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = format!(
        "cluster = {}\nnode = {}\ndata = {}\n",
        quoted(cluster),
        quoted(node),
        quoted(data)
    );
    if insecure {
        text += "insecure = true\n";
    }
    for (name, address) in members {
        let (name, address) = (quoted(name), quoted(address));
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[[members]]\nname = {name}\naddress = {address}\n");
    }
    if !insecure {
        let (cert, key) = (format!("tls/{node}.crt"), format!("tls/{node}.key"));
        let _ = write!(
            text,
            "\n[tls]\nca = \"tls/ca.crt\"\ncert = {}\nkey = {}\n",
            quoted(&cert),
            quoted(&key)
        );
    }
    match Config::parse(&text, "new") {
        Ok(_) => Ok(text),
        // The text has lines, the command line has none.
        Err(error) => Err(usage(error.problem.to_string())),
    }
}

fn members(config: &Config) -> String {
    let mut text = String::new();
    for member in &config.members {
        let own = if member.name == config.node { " (this node)" } else { "" };
        let _ = writeln!(text, "member {} at {}{own}", member.name, member.address);
    }
    text
}

/// A key for programs.
#[derive(Serialize)]
struct Row {
    table: &'static str,
    name: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    required: bool,
    default: Option<&'static str>,
    meaning: &'static str,
}

impl Row {
    fn of(key: &ConfigKey) -> Self {
        let ConfigKey { table, name, kind, default, meaning, .. } = *key;
        let (required, default) = match default {
            KeyDefault::Required => (true, None),
            KeyDefault::Value(value) => (false, Some(value)),
            KeyDefault::Words(words) => (false, Some(words)),
        };
        Self { table, name, kind, required, default, meaning }
    }

    fn default_words(&self) -> String {
        self.default.map_or_else(|| "required".to_owned(), |value| format!("default: {value}"))
    }
}

/// A file with every key: those that are needed as they are written, the others commented out.
fn example() -> String {
    let mut text = "\
# Configuration of a Mutua node; a value behind # is an example or the default.
# A duration is a number of seconds (5, 0.5), or has a unit (\"200ms\", \"30s\", \"5m\", \"1h\").
# Paths are relative to this file.
"
    .to_owned();
    let mut table = "";
    for key in CONFIG_KEYS {
        // An optional table is commented out as a whole.
        let is_needed = matches!(key.table, "" | "[[members]]");
        if key.table != table {
            table = key.table;
            let _ = writeln!(text, "\n{}{table}", if is_needed { "" } else { "#" });
        }
        for line in wrapped(&format!("{} ({})", key.meaning, key.kind)) {
            let _ = writeln!(text, "# {line}");
        }
        let mark = if is_needed && key.default == KeyDefault::Required { "" } else { "#" };
        let _ = writeln!(text, "{mark}{} = {}", key.name, key.example);
    }
    text
}

/// Lines of at most 90 characters.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.len() + 1 + word.len() <= 90 {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_valid_or_the_error_says_what_is_wrong() {
        let members = |texts: &[&str]| -> Vec<_> {
            texts.iter().map(|text| member(text).expect("a member")).collect()
        };
        let all = members(&["a=10.0.0.1:7001", "b=h\"2:7001"]);
        let text = new("shop", "a", "/d", false, &all).expect("valid");
        let config = Config::parse(&text, "new").expect("valid");
        assert_eq!(config.members[1].address, "h\"2:7001");
        assert!(config.tls.is_some() && !config.insecure);
        let config = new("shop", "a", "/d", true, &all).expect("valid");
        assert!(config.contains("insecure = true") && !config.contains("[tls]"));
        let error = new("shop", "x", "/d", false, &all).expect_err("not a member").to_string();
        assert_eq!(error, "`x` is none of the members: a, b");
        let error = new("shop", "a", "/d", false, &members(&["a=10.0.0.1"])).expect_err("no port");
        assert_eq!(error.to_string(), "invalid address `10.0.0.1`: use HOST:PORT");
        member("10.0.0.1:7001").expect_err("no name");
        let error = new("", "a", "/d", false, &all).expect_err("no name").to_string();
        assert_eq!(error, "the name of the cluster is empty");
        let open = members(&["a=127.0.0.1:7001", "b=127.0.0.1:0"]);
        let error = new("shop", "a", "/d", true, &open).expect_err("no port").to_string();
        assert!(error.contains("the other members need a port"), "{error}");
    }

    #[test]
    fn a_file_that_its_node_would_refuse_is_not_valid() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("a.toml");
        let with = |address: &str| {
            let text = format!(
                "cluster = \"c\"\nnode = \"a\"\n\
                 [[members]]\nname = \"a\"\naddress = \"{address}:1\"\n\
                 [[members]]\nname = \"b\"\naddress = \"{address}:2\"\n"
            );
            std::fs::write(&file, text).expect("written");
            check(&file)
        };
        with("127.0.0.1").expect("valid");
        let error = with("10.9.9.1").expect_err("without TLS").to_string();
        assert!(error.contains("configure [tls]"), "{error}");
    }

    #[test]
    fn the_example_is_valid_as_it_is_and_with_every_key() {
        let text = example();
        Config::parse(&text, "example").expect("valid as it is");
        let all: Vec<_> = text
            .lines()
            .map(|line| {
                line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line)
            })
            .collect();
        // A rule has the keys of its algorithm, and not those of another one.
        let others: [(_, &[&str]); 2] =
            [("maekawa", &["topology = "]), ("raymond", &["quorums = ", "with = "])];
        for (algorithm, others) in others {
            let is_other = |line: &&&str| others.iter().any(|other| line.starts_with(other));
            let kept = all.iter().filter(|line| !is_other(line));
            let text = kept.map(|line| format!("{line}\n")).collect::<String>();
            let text = text.replace("\"maekawa\"", &format!("\"{algorithm}\""));
            let config = Config::parse(&text, "example").expect("valid with every key");
            assert!(config.tls.is_some() && config.rules.len() == 1, "{algorithm}");
        }
        for key in CONFIG_KEYS {
            assert!(all.contains(&&*format!("{} = {}", key.name, key.example)), "{}", key.name);
        }
    }
}

//! When, where and with what was measured.

use std::{collections::BTreeMap, process::Command};

use serde::{Deserialize, Serialize};

use crate::{machine, servers::peers::postgres_programs};

/// What a report begins with.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Meta {
    pub(crate) date: String,
    pub(crate) machine: String,
    /// Which state of Mutua.
    pub(crate) commit: String,
    pub(crate) quick: bool,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) disk: String,
}

impl Meta {
    pub(crate) fn gather(quick: bool) -> Self {
        let postgres = postgres_programs().map(|bin| bin.join("postgres").display().to_string());
        let postgres = postgres.unwrap_or_else(|_| "postgres".to_owned());
        let query = "dpkg-query -W -f ${Version} zookeeper";
        let asks = [
            ("etcd", "etcd --version"),
            ("ZooKeeper", query),
            ("Java", "java -version"),
            ("Redis", "redis-server --version"),
            ("PostgreSQL", &format!("{postgres} --version")),
            ("Spin", "spin -V"),
            ("gcc", "gcc --version"),
            ("rustc", "rustc --version"),
        ];
        let versions = asks.iter().map(|(name, ask)| ((*name).to_owned(), first_line(ask)));
        Self {
            date: first_line("date -u +%Y-%m-%dT%H:%MZ"),
            machine: machine::describe(),
            commit: first_line("git describe --always --dirty"),
            quick,
            versions: versions.collect(),
            disk: first_line("findmnt -n -o FSTYPE --target /var/tmp"),
        }
    }
}

/// The first line that a command prints, on either output.
fn first_line(command: &str) -> String {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap_or_default()).args(words).output();
    let Ok(output) = output else { return "not found".to_owned() };
    let output = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let output = String::from_utf8_lossy(&output).into_owned();
    let line = output.lines().next().unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

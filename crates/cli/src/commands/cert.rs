//! `mutua cert`: a private CA, and the certificates of nodes and clients.

mod files;
mod show;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Result;
use clap::{Args, Subcommand, builder::NonEmptyStringValueParser};
use mutua_tls::{
    Certificate, Role, date,
    issue::{self, Holder, IssueError, Issued},
};

use crate::exit::{self, CONFIG, Coded};
use files::Directory;

/// The end of the help.
pub(crate) const HELP: &str = "\
Files in the directory: ca.crt and ca.key, the CA; NAME.crt and NAME.key of each node and client; \
revoked.crl, the revoked certificates. Copy ca.crt, NAME.crt and NAME.key to where they are used. \
Keep ca.key away from the nodes: its reader can make a certificate for any name. A running node \
takes up new files within seconds. Certificates from another CA work as well: a node's must have \
the member's name as common name and allow server and client authentication.

Exit codes: 0 success; 1 of show: a certificate has expired, or \
expires within --within; 64 bad usage; 73 a file cannot be \
written; 78 a file cannot be read or used.";

/// Make and renew a private CA and certificates for mutual TLS.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,

    /// Directory of the certificates.
    #[arg(long, global = true, value_name = "DIRECTORY", default_value = "/etc/mutua/tls")]
    directory: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a CA.
    Init {
        /// Name of the CA, as certificates show it.
        #[arg(long, default_value = "mutua CA", value_parser = NonEmptyStringValueParser::new())]
        name: String,

        /// Validity in days, 1 to 36500.
        #[arg(long, default_value_t = 3650, value_parser = days())]
        days: u32,
    },
    /// Make the certificate of a node.
    Node {
        /// Name of the member, as in the configuration.
        name: String,

        /// Host name or address at which clients connect to it; may be repeated. Its name and
        /// localhost are always among them.
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,

        #[command(flatten)]
        valid: Valid,
    },
    /// Make the certificate of a client.
    Client {
        /// Name of the client.
        name: String,

        #[command(flatten)]
        valid: Valid,
    },
    /// Renew certificates, with new keys; without names, those that expire within 30 days.
    Renew {
        /// Names of nodes and clients; ca for the CA, which keeps its key and is valid for another
        /// ten years.
        names: Vec<String>,

        #[command(flatten)]
        valid: Valid,
    },
    /// Revoke a certificate: add it to the list revoked.crl, which `revoked` in `[tls]` of a node
    /// names.
    Revoke {
        /// Name of a node or client.
        name: String,
    },
    /// Show certificates.
    Show {
        /// Names or files [default: all in the directory].
        names: Vec<String>,

        /// Exit with 1 if one expires within this many days.
        #[arg(long, value_name = "DAYS", default_value_t = 0)]
        within: u32,

        /// Print JSON: one object per certificate.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Clone, Copy, Debug)]
struct Valid {
    /// Validity in days, 1 to 36500; no longer than the CA's.
    #[arg(long, default_value_t = 365, value_parser = days())]
    days: u32,
}

/// From a day to a hundred years.
fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=36_500)
}

const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let directory = Directory(&arguments.directory);
    match &arguments.action {
        Action::Init { name, days } => init(&directory, name, *days * DAY)?,
        Action::Node { name, hosts, valid } => {
            let hosts = all_hosts(name, hosts);
            make(&directory, name, Holder::Node { hosts: &hosts }, valid.days * DAY)?;
        }
        Action::Client { name, valid } => {
            make(&directory, name, Holder::Client, valid.days * DAY)?;
        }
        Action::Renew { names, valid } => renew(&directory, names, valid.days * DAY)?,
        Action::Revoke { name } => revoke(&directory, name)?,
        Action::Show { names, within, json } => {
            return show::run(&directory, names, *within * DAY, *json);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn init(directory: &Directory<'_>, name: &str, valid: Duration) -> Result<()> {
    directory.must_not_have(
        "ca",
        "use it, renew it with `mutua cert renew ca`, or give another --directory",
    )?;
    let made = issue::new_authority(name, valid).map_err(failed)?;
    directory.create()?;
    directory.write("ca", &made)?;
    let about = directory.read("ca")?;
    let (at, until) = (directory.0.display(), date(about.until));
    println!("made the CA `{name}`, valid until {until}: {at}/ca.crt and {at}/ca.key");
    println!("keep {at}/ca.key secret: its reader can make a certificate for any name");
    Ok(())
}

/// Its own name and this machine's, beside the given ones.
fn all_hosts(name: &str, given: &[String]) -> Vec<String> {
    let own = [name, "localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut hosts = Vec::new();
    for host in given.iter().cloned().chain(own) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

fn make(directory: &Directory<'_>, name: &str, holder: Holder<'_>, valid: Duration) -> Result<()> {
    files::check_name(name)?;
    let authority = directory.authority()?;
    let renew = format!("renew it with `mutua cert renew {name}`, or remove both files");
    directory.must_not_have(name, &renew)?;
    let made = authority.issue(name, holder, valid).map_err(failed)?;
    directory.write(name, &made)?;
    report(directory, "made", name)
}

fn report(directory: &Directory<'_>, verb: &str, name: &str) -> Result<()> {
    let about = directory.read(name)?;
    let at = directory.0.display();
    let (word, until) = (about.role.word(), date(about.until));
    let whose = match about.role {
        Role::Authority => "the CA".to_owned(),
        _ => format!("{word} {name}"),
    };
    println!("{verb} the certificate of {whose}, valid until {until}: {at}/{name}.crt");
    Ok(())
}

fn renew(directory: &Directory<'_>, names: &[String], valid: Duration) -> Result<()> {
    let authority = directory.authority()?;
    let due = |name: &String| {
        let about = directory.read(name);
        about.is_ok_and(|about| about.left(std::time::SystemTime::now()) < 30 * DAY)
    };
    let names = match names {
        [] => directory.names()?.into_iter().filter(due).collect(),
        names => names.to_vec(),
    };
    if names.is_empty() {
        println!("no certificate expires within 30 days");
    }
    for name in &names {
        let about = directory.read(name)?;
        match about.role {
            Role::Authority => {
                // Ten years, as at first: all nodes need the new file.
                let certificate = authority.renew(3650 * DAY).map_err(failed)?;
                directory.replace(&format!("{name}.crt"), &certificate, 0o644)?;
            }
            role => {
                let made = authority.issue(name, holder(role, &about), valid).map_err(failed)?;
                directory.write(name, &made)?;
            }
        }
        report(directory, "renewed", name)?;
    }
    Ok(())
}

fn holder(role: Role, about: &Certificate) -> Holder<'_> {
    match role {
        Role::Client => Holder::Client,
        _ => Holder::Node { hosts: &about.hosts },
    }
}

fn revoke(directory: &Directory<'_>, name: &str) -> Result<()> {
    let authority = directory.authority()?;
    let known: Vec<_> = directory.names()?.into_iter().filter(|one| one != "ca").collect();
    if !known.iter().any(|one| one == name) && name != "ca" {
        return Err(match known.as_slice() {
            [] => exit::usage(format!("unknown certificate `{name}`: there is none to revoke")),
            known => crate::names::unknown("certificate", name, known.iter().map(String::as_str)),
        });
    }
    let about = directory.read(name)?;
    if about.role == Role::Authority {
        return Err(exit::usage(
            "a CA does not revoke itself: make a new one in another directory",
        ));
    }
    let mut serials = directory.revoked()?;
    let serial = about.serial_bytes();
    if !serials.contains(&serial) {
        serials.push(serial);
    }
    let list = authority.revoke(&serials).map_err(failed)?;
    directory.replace(files::REVOKED, &list, 0o644)?;
    let at = directory.0.display();
    println!("revoked the certificate of {name}; revoked in all: {}", serials.len());
    println!(
        "copy {at}/{} to all nodes, and name it in their [tls]: revoked = ...",
        files::REVOKED
    );
    Ok(())
}

fn failed(error: IssueError) -> anyhow::Error {
    match error {
        IssueError::Host(_) => exit::usage(error.to_string()),
        other => Coded(CONFIG, other.to_string()).into(),
    }
}

impl Directory<'_> {
    /// Writes a key and its certificate.
    fn write(&self, name: &str, made: &Issued) -> Result<()> {
        let mode = if name == "ca" { 0o600 } else { self.key_mode() };
        // A node that reads between the two finds that they do not belong together, and waits.
        self.replace(&format!("{name}.key"), &made.key, mode)?;
        self.replace(&format!("{name}.crt"), &made.certificate, 0o644)
    }
}

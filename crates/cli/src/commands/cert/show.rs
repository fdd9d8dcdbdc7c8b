//! `mutua cert show`.

use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use mutua_tls::{Certificate, date};
use serde::Serialize;

use super::{
    DAY,
    files::{Directory, unusable},
};

/// A certificate for programs.
#[derive(Serialize)]
struct Row<'a> {
    file: &'a str,
    name: Option<&'a str>,
    role: &'a str,
    hosts: &'a [String],
    issuer: &'a str,
    serial: &'a str,
    revoked: bool,
    /// Seconds since 1970.
    valid_from: u64,
    valid_until: u64,
    days_left: u64,
}

pub(super) fn run(
    directory: &Directory<'_>,
    names: &[String],
    within: Duration,
    json: bool,
) -> Result<ExitCode> {
    let found = match names {
        [] => directory.names()?,
        names => names.to_vec(),
    };
    let revoked = directory.revoked().unwrap_or_default();
    let now = SystemTime::now();
    let mut expires = false;
    for name in &found {
        let (file, about) = read(directory, name)?;
        let is_revoked = revoked.contains(&about.serial_bytes());
        expires |= about.left(now) <= within;
        if json {
            println!("{}", serde_json::to_string(&row(&file, &about, is_revoked, now))?);
        } else {
            print!("{}", text(&file, &about, is_revoked, now));
            if about.left(now) <= within && !within.is_zero() {
                println!("  expires within {} days", within.as_secs() / DAY.as_secs());
            }
        }
    }
    if found.is_empty() && !json {
        println!("no certificates in {}", directory.0.display());
    }
    Ok(ExitCode::from(u8::from(expires)))
}

/// A certificate by its name in the directory, or by its path.
fn read(directory: &Directory<'_>, name: &str) -> Result<(String, Certificate)> {
    let path = Path::new(name);
    if name.contains('/') || path.is_file() {
        let about = Certificate::read(path).map_err(|error| unusable(&error))?;
        return Ok((name.to_owned(), about));
    }
    let file = directory.0.join(format!("{name}.crt"));
    Ok((file.display().to_string(), directory.read(name)?))
}

fn row<'a>(file: &'a str, about: &'a Certificate, revoked: bool, now: SystemTime) -> Row<'a> {
    let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Row {
        file,
        name: about.name.as_deref(),
        role: about.role.word(),
        hosts: &about.hosts,
        issuer: &about.issuer,
        serial: &about.serial,
        revoked,
        valid_from: seconds(about.from),
        valid_until: seconds(about.until),
        days_left: about.left(now).as_secs() / 86_400,
    }
}

fn text(file: &str, about: &Certificate, revoked: bool, now: SystemTime) -> String {
    let left = about.left(now);
    let left = match left.as_secs() / 86_400 {
        _ if revoked => "REVOKED".to_owned(),
        _ if left.is_zero() => "EXPIRED".to_owned(),
        0 => "less than a day left".to_owned(),
        1 => "1 day left".to_owned(),
        days => format!("{days} days left"),
    };
    let (from, until) = (date(about.from), date(about.until));
    let mut text = format!("{} {}: {file}\n", about.role.word(), about.shown_name());
    text += &format!("  valid from {from} until {until}, {left}\n");
    text += &format!("  issuer {}, serial {}\n", about.issuer, about.serial);
    if !about.hosts.is_empty() {
        text += &format!("  hosts {}\n", about.hosts.join(", "));
    }
    text
}

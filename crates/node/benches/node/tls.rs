//! Hand-overs with mutual TLS, against the same ones by plain TCP in the same run.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use mutua_node::{Certificate, MemberConfig, TlsFiles};
use mutua_tls::issue::{Authority, Holder, new_authority};

use super::handover::{HOLD, PROCESSES, Run, compare};

pub(crate) fn measure() {
    let kinds = ["node-tls", "node"];
    let (tls, plain) = compare(kinds, Duration::ZERO, Run::per_second);
    println!(
        "hand-over with TLS, {PROCESSES} processes, released at once: {tls:.0} per second, plain \
         {plain:.0}, cost {:.2} (at most 1.2)",
        plain / tls
    );
    let (tls, plain) = compare(kinds, HOLD, Run::median_delay_micros);
    println!(
        "delay from a release to the next grant with TLS, held for {} ms: {tls:.0} us, plain \
         {plain:.0} us, cost {:.2} (at most 1.2)",
        HOLD.as_millis(),
        tls / plain
    );
}

/// The files of a member's certificates.
pub(crate) fn files(directory: &Path, name: &str) -> TlsFiles {
    let path = |file: &str| directory.join(file);
    TlsFiles {
        ca: path("ca.crt"),
        certificate: path(&format!("{name}.crt")),
        key: path(&format!("{name}.key")),
        revoked: None,
    }
}

/// Makes a CA and a certificate for each member.
pub(crate) fn make_certificates(directory: &Path, members: &[MemberConfig]) {
    let day = Duration::from_secs(24 * 3600);
    let ca = new_authority("bench CA", day).expect("a CA");
    let path = directory.join("ca.crt");
    fs::write(&path, &ca.certificate).expect("written");
    let about = Certificate::read(&path).expect("a certificate");
    let authority = Authority::open(&ca.certificate, &ca.key, about).expect("the CA");
    for member in members {
        let files = files(directory, &member.name);
        let made = authority.issue(&member.name, Holder::Node { hosts: &[] }, day);
        let made = made.expect("a certificate");
        fs::write(&files.certificate, made.certificate).expect("written");
        fs::write(&files.key, made.key).expect("written");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&files.key, private).expect("private");
    }
}

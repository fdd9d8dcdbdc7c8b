//! `mutua lab`: what the server serves, and what it refuses. The page itself is tested in a
//! browser, by `web/tests/run`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

struct Lab {
    child: Child,
    /// `127.0.0.1:PORT`.
    host: String,
}

impl Lab {
    fn start(port: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mutua"))
            .args(["lab", "--no-open", "--port", port])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let host = line.trim().strip_prefix("http://").and_then(|rest| rest.split_once("/#token="));
        let (host, _) = host.unwrap_or_else(|| panic!("an address, not {line}"));
        let host = host.to_owned();
        Self { child, host }
    }

    /// Sends a request and returns the status and the whole response.
    fn send(&self, request: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        let host = headers.iter().find(|(name, _)| *name == "Host");
        let host = host.map_or(self.host.as_str(), |(_, value)| value);
        let mut text = format!("{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for (name, value) in headers.iter().filter(|(name, _)| *name != "Host") {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        // A server that refuses a long body may close before it has read all of it.
        let _ = stream.write_all(text.as_bytes());
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response);
        let response = String::from_utf8_lossy(&response).into_owned();
        let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("a status in {response}")), response)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn the_page_is_served_with_a_strict_policy() {
    let lab = Lab::start("0");
    for path in ["/", "/index.html", "/compare.html", "/app.js", "/style.css", "/diagram.css"] {
        let (status, response) = lab.send(&format!("GET {path}"), &[], "");
        assert_eq!(status, 200, "{path}: {response}");
        let lower = response.to_lowercase();
        assert!(lower.contains("content-security-policy: default-src 'none'"), "{path}");
        assert!(!lower.contains("unsafe-inline"), "{path}");
    }
    assert_eq!(lab.send("GET /../Cargo.toml", &[], "").0, 404);
    assert_eq!(lab.send("DELETE /", &[], "").0, 405);
}

#[test]
fn a_query_is_answered_and_an_absurd_one_is_refused_with_a_sentence() {
    let lab = Lab::start("0");
    let query = r#"{"query":"example","name":"scenes/opening"}"#;
    let (status, response) = lab.send("POST /query", &[JSON], query);
    assert_eq!(status, 200);
    assert!(response.contains("Deadlock: P0 needs P2's vote, which P3 has"), "{response}");
    let huge = r#"{"query":"play","script":"algorithm lamport\nprocesses P1..P400000000\n"}"#;
    let (status, response) = lab.send("POST /query", &[JSON], huge);
    assert_eq!(status, 200);
    assert!(response.contains("400000000 processes: the page shows at most"), "{response}");
    let long = format!(r#"{{"query":"play","script":"{}"}}"#, "x".repeat(2_000_000));
    assert_eq!(lab.send("POST /query", &[JSON], &long).0, 413);
}

#[test]
fn other_hosts_other_origins_and_forms_are_refused() {
    let lab = Lab::start("0");
    let query = r#"{"query":"catalogue"}"#;
    let send = |headers: &[(&str, &str)]| lab.send("POST /query", headers, query).0;
    let own = format!("http://{}", lab.host);
    assert_eq!(send(&[JSON, ("Origin", &own)]), 200);
    assert_eq!(send(&[JSON, ("Origin", "http://evil.example")]), 403);
    assert_eq!(send(&[JSON, ("Host", "evil.example")]), 403);
    assert_eq!(send(&[("Content-Type", "text/plain")]), 415);
}

#[test]
fn a_port_in_use_ends_with_75_and_a_reason() {
    let lab = Lab::start("0");
    let port = lab.host.rsplit(':').next().expect("a port");
    let output = Command::new(env!("CARGO_BIN_EXE_mutua"))
        .args(["lab", "--no-open", "--port", port])
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(75));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("use another --port"), "{error}");
}

//! What monitors see of a node: metrics, health, readiness, JSON logs; and the files for monitors.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

struct Node {
    child: Child,
    others: Vec<Child>,
    port: u16,
    directory: tempfile::TempDir,
}

impl Node {
    /// Starts a member of a cluster of so many, of which the others do not run.
    fn start(members: usize) -> Self {
        Self::start_with(members, false)
    }

    /// Starts a member, with or without the others.
    fn start_with(members: usize, others: bool) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let ports = free_ports(members + 1);
        let port = ports[members];
        let head = |data: &str, node: usize| {
            format!("cluster = \"shop\"\nnode = \"n{node}\"\ndata = \"{data}\"\n")
        };
        let mut list = String::new();
        for (index, port) in ports[..members].iter().enumerate() {
            let address = format!("127.0.0.1:{port}");
            list += &format!("[[members]]\nname = \"n{index}\"\naddress = \"{address}\"\n");
        }
        let own = format!("{}metrics_listen = {port}\n{list}", head("data", 0));
        fs::write(directory.path().join("mutua.toml"), own).expect("written");
        let run_other = |node: usize| {
            let file = directory.path().join(format!("n{node}.toml"));
            let text = head(&format!("data{node}"), node) + &list;
            fs::write(&file, text).expect("written");
            let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
            command.args(["node", "--quiet", "--config"]).arg(file).stderr(Stdio::null());
            command.stdin(Stdio::null()).spawn().expect("run")
        };
        let others = if others { (1..members).map(run_other).collect() } else { Vec::new() };
        let child = run(directory.path());
        Self { child, others, port, directory }
    }

    /// Kills the node and starts it again.
    fn crash(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("dead");
        self.child = run(self.directory.path());
    }

    fn endpoint(&self) -> String {
        format!("unix:{}", self.directory.path().join("data/locks.sock").display())
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.request(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    }

    /// Waits until the node says that it is not ready for this reason. It answers its monitors
    /// before it has tried its peers, and says so until it has.
    fn is_not_ready_for(&self, reason: &str) {
        let begun = Instant::now();
        loop {
            let (code, why) = self.get("/ready");
            assert_eq!(code, 503, "{why}");
            if why.contains(reason) {
                return;
            }
            assert!(why.contains("has just started"), "{why}");
            assert!(begun.elapsed() < Duration::from_secs(20), "{reason} is not named: {why}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn request(&self, text: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        stream.write_all(text.as_bytes()).expect("sent");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("a reply");
        let code = reply.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
        let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (code, body.to_owned())
    }

    fn lock(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
        command.args(["lock", "--endpoint", &self.endpoint()]);
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        command.status().expect("run").success()
    }
}

/// Different ports that are free now.
fn free_ports(count: usize) -> Vec<u16> {
    let addresses = mutua_host::free_addresses(count).expect("free ports");
    addresses.iter().map(SocketAddr::port).collect()
}

/// Runs the node of this directory, and returns when it says that it is ready for clients.
fn run(directory: &Path) -> Child {
    let log = fs::File::create(directory.join("log")).expect("a log");
    let notify = directory.join("notify");
    let _ = fs::remove_file(&notify);
    let supervisor = UnixDatagram::bind(&notify).expect("a socket");
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutua"));
    command.args(["node", "--log", "json", "--config"]).arg(directory.join("mutua.toml"));
    command.arg("--audit").arg(directory.join("audit")).stderr(log).stdin(Stdio::null());
    let child = command.env("NOTIFY_SOCKET", &notify).spawn().expect("run");
    supervisor.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let mut buffer = [0; 64];
    let length = supervisor.recv(&mut buffer).expect("a notification");
    assert!(buffer[..length].starts_with(b"READY=1\n"));
    child
}

impl Drop for Node {
    fn drop(&mut self) {
        for child in self.others.iter_mut().chain([&mut self.child]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The value of a metric without labels, or with these.
fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().expect("a number")
}

#[test]
fn a_node_that_grants_is_healthy_and_ready_and_counts_its_grants() {
    let node = Node::start(1);
    assert_eq!(node.get("/health"), (200, "ok\n".to_owned()));
    assert_eq!(node.get("/ready").0, 200);
    for _ in 0..3 {
        assert!(node.lock(&["x", "--", "sleep", "0.02"]));
    }
    assert!(node.lock(&["y", "--", "sh", "-c", "true"]));
    let (code, text) = node.get("/metrics");
    assert_eq!(code, 200);
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(value(&text, "mutua_grants_total") >= 4.0);
    assert_eq!(value(&text, "mutua_requests_total{outcome=\"granted\"}"), 4.0);
    assert_eq!(value(&text, "mutua_wait_seconds_count"), 4.0);
    assert_eq!(value(&text, "mutua_hold_seconds_count"), 4.0);
    assert!(value(&text, "mutua_hold_seconds_sum") >= 0.06);
    assert_eq!(value(&text, "mutua_suspended"), 0.0);
    assert_eq!(value(&text, "mutua_held"), 0.0);
    assert!(value(&text, "process_resident_memory_bytes") > 1e6);
    assert!(text.contains("mutua_build_info{version=\"0.1.0\",cluster=\"shop\",node=\"n0\"} 1"));
    assert_eq!(node.get("/other").0, 404);
    assert_eq!(
        node.request("POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").0,
        405
    );
    let log = fs::read_to_string(node.directory.path().join("log")).expect("a log");
    let message = "\"message\":\"node n0 runs as process";
    let line = log.lines().find(|line| line.contains(message)).unwrap_or_else(|| panic!("{log}"));
    for part in ["{\"timestamp\":\"", "\"level\":\"INFO\""] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn a_node_without_its_peers_is_healthy_and_not_ready() {
    let node = Node::start(2);
    assert_eq!(node.get("/health").0, 200);
    node.is_not_ready_for("n1");
    let (_, text) = node.get("/metrics");
    assert_eq!(value(&text, "mutua_suspended"), 1.0);
    assert_eq!(value(&text, "mutua_link_up{member=\"n1\"}"), 0.0);
}

#[test]
fn a_member_counts_messages_views_margins_and_round_trips() {
    let node = Node::start_with(3, true);
    let begun = Instant::now();
    let until = |what: &str, met: &dyn Fn(&str) -> bool| loop {
        let (_, text) = node.get("/metrics");
        if met(&text) {
            return text;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {text}");
        std::thread::sleep(Duration::from_millis(50));
    };
    until("grants", &|text| value(text, "mutua_suspended") == 0.0);
    // Some of these names have their token elsewhere, so it is requested.
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        assert!(node.lock(&[name, "--", "true"]));
    }
    assert!(node.lock(&["--ttl", "1s", "x", "--", "sleep", "1"]), "renewed meanwhile");
    let round_trip = "mutua_link_round_trip_seconds{member=\"n1\"}";
    let text = until("a round trip", &|text| text.contains(round_trip));
    assert!(value(&text, round_trip) > 0.0);
    let request = "mutua_messages_sent_total{algorithm=\"naimi-trehel\",type=\"request\"}";
    assert!(value(&text, request) > 0.0, "{text}");
    assert!(value(&text, "mutua_view_changes_total") >= 1.0);
    assert!(value(&text, "mutua_view_lease_seconds") > 0.0);
    assert!(value(&text, "mutua_lease_margin_seconds_count") >= 1.0);
    assert_eq!(value(&text, "mutua_longest_queue"), 0.0);
}

#[test]
fn a_node_that_waits_for_leases_after_a_crash_is_not_ready_and_its_status_says_so() {
    let mut node = Node::start(1);
    let mut holder = Command::new(env!("CARGO_BIN_EXE_mutua"));
    holder.args(["lock", "--ttl", "60s", "--endpoint", &node.endpoint(), "x", "--", "sleep", "60"]);
    let mut holder = holder.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("run");
    let begun = Instant::now();
    while value(&node.get("/metrics").1, "mutua_held") < 1.0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the lock is not held");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Without its client nobody reclaims the lock, and without its record of holds the node waits
    // for all names until the lease has expired.
    holder.kill().expect("killed");
    fs::remove_file(node.directory.path().join("data/holds")).expect("there");
    node.crash();
    holder.wait().expect("dead");
    node.is_not_ready_for("did not stop cleanly");
    let mut status = Command::new(env!("CARGO_BIN_EXE_mutua"));
    let status = status.args(["status", "--endpoint", &node.endpoint()]).output().expect("run");
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(status.status.code(), Some(69), "{text}");
    assert!(text.contains("grants are suspended: the node did not stop cleanly"), "{text}");
}

#[test]
fn the_audit_log_has_grants_releases_and_losses() {
    let node = Node::start(1);
    assert!(node.lock(&["x", "--", "sleep", "0.05"]));
    let text = fs::read_to_string(node.directory.path().join("audit")).expect("a log");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let [granted, released] = lines.as_slice() else { panic!("{text}") };
    assert!(granted["event"] == "granted" && granted["name"] == "x", "{granted}");
    assert!(granted["pid"].as_u64() > Some(0) && granted["command"] == "sleep 0.05", "{granted}");
    assert!(released["event"] == "released" && released["held_ms"].as_u64() >= Some(50), "{text}");
    assert_eq!(granted["fencing_token"], released["fencing_token"]);

    // A holder whose lock is broken.
    let mut holder = Command::new(env!("CARGO_BIN_EXE_mutua"));
    holder.args(["lock", "--endpoint", &node.endpoint(), "y", "--", "sleep", "60"]);
    let mut holder = holder.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("run");
    let begun = Instant::now();
    let breaks = || {
        let mut broken = Command::new(env!("CARGO_BIN_EXE_mutua"));
        broken.args(["break", "--yes", "--reason", "test", "--endpoint", &node.endpoint(), "y"]);
        broken.output().expect("run")
    };
    while !breaks().status.success() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", breaks());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(holder.wait().expect("ended").code(), Some(79));
    let text = fs::read_to_string(node.directory.path().join("audit")).expect("a log");
    assert!(text.contains("\"event\":\"lost\"") && text.contains("test"), "{text}");
}

#[test]
fn locks_are_named_only_if_the_configuration_says_so() {
    let mut node = Node::start(1);
    let mut holder = Command::new(env!("CARGO_BIN_EXE_mutua"));
    holder.args(["lock", "--endpoint", &node.endpoint(), "night \"job\"", "--", "sleep", "60"]);
    let mut holder = holder.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("run");
    let begun = Instant::now();
    let until_held = |node: &Node| loop {
        let (_, text) = node.get("/metrics");
        if value(&text, "mutua_held") == 1.0 {
            return text;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "the lock is not held");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(!until_held(&node).contains("night"), "not asked for");
    let file = node.directory.path().join("mutua.toml");
    let text = fs::read_to_string(&file).expect("read");
    fs::write(&file, format!("metrics_names = true\n{text}")).expect("written");
    node.crash();
    let text = until_held(&node);
    assert_eq!(value(&text, r#"mutua_lock_waiting{lock="night \"job\""}"#), 0.0);
    assert!(text.contains("mutua_lock_held_seconds{lock="), "{text}");
    holder.kill().expect("killed");
    holder.wait().expect("dead");
}

#[test]
fn silent_connections_do_not_keep_monitors_away() {
    let node = Node::start(1);
    let silent: Vec<_> = (0..100)
        .map(|_| TcpStream::connect(("127.0.0.1", node.port)).expect("connected"))
        .collect();
    assert_eq!(node.get("/health").0, 200, "answered once silent connections are given up");
    assert!(node.lock(&["x", "--", "true"]), "clients are served meanwhile");
    drop(silent);
}

#[test]
fn sighup_takes_up_the_log_level_and_reports_what_it_cannot_read() {
    let node = Node::start(1);
    let file = node.directory.path().join("mutua.toml");
    let good = fs::read_to_string(&file).expect("read");
    let log = || fs::read_to_string(node.directory.path().join("log")).expect("a log");
    let hang_up = |text: &str| {
        fs::write(&file, text).expect("written");
        let pid = node.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().expect("run").success());
    };
    let until = |what: &str, count: usize| {
        let begun = Instant::now();
        while log().matches(what).count() < count {
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    hang_up(&good);
    until("SIGHUP: certificates, limits and the log level are read again", 1);
    hang_up(&good.replace("cluster", "clutser"));
    until("SIGHUP: only the certificates are read again", 1);
    assert!(log().contains("did you mean `cluster`"), "{}", log());
    // INFO is left out from the second on at the latest: which of the two readers of the file is
    // first is not decided.
    let quiet = format!("log_level = \"error\"\n{good}");
    hang_up(&quiet);
    std::thread::sleep(Duration::from_millis(500));
    let before = log().lines().count();
    hang_up(&quiet.replace("cluster", "clutser"));
    hang_up(&quiet);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(log().lines().count(), before, "{}", log());
    assert!(node.lock(&["x", "--", "true"]), "the node runs");
    hang_up(&good);
    std::thread::sleep(Duration::from_millis(500));
    hang_up(&good);
    until("are read again; other changes", 2);
}

/// The metrics in a text: words that begin as ours do.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let ours = words.filter(|word| word.starts_with("mutua_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

#[test]
fn the_dashboard_and_the_alerts_use_metrics_that_exist() {
    let node = Node::start(2);
    let (_, text) = node.get("/metrics");
    let mut known = metrics_in(&text);
    // They appear with the first of their kind, and with TLS.
    known.insert("mutua_requests_total".to_owned());
    known.insert("mutua_certificate_expiry_timestamp_seconds".to_owned());
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring");
    for file in ["alerts.yml", "dashboard.json"] {
        let used = metrics_in(&fs::read_to_string(files.join(file)).expect(file));
        assert!(used.len() > 5, "{file} uses {used:?}");
        let unknown: Vec<_> = used.difference(&known).collect();
        assert!(unknown.is_empty(), "{file} uses unknown metrics {unknown:?}");
    }
    let dashboard = fs::read_to_string(files.join("dashboard.json")).expect("a file");
    serde_json::from_str::<serde_json::Value>(&dashboard).expect("JSON");
}

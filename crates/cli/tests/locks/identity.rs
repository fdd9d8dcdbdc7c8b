//! One process is a member, and one serves at a socket: a second one is refused.

use std::{
    fs,
    io::Read,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use crate::scene::{Scene, alive, wait_for};

/// A node's process, which ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The configuration of the only member of a cluster, with a data directory of its own.
fn one_member(scene: &Scene, data: &str, address: &str) -> PathBuf {
    let file = scene.path().join(format!("{data}.toml"));
    let text = format!(
        "cluster = \"one\"\nnode = \"a\"\ndata = \"{data}\"\n[[members]]\nname = \"a\"\n\
         address = \"{address}\"\n"
    );
    fs::write(&file, text).expect("written");
    file
}

fn run_node(scene: &Scene, config: &Path, socket: &Path) -> Process {
    let mut command = scene.command(&["node", "--quiet", "--config"]);
    command.arg(config).arg("--socket").arg(socket).stderr(Stdio::piped());
    Process(command.spawn().expect("run"))
}

/// A node that runs, and answers at its socket.
fn running(scene: &Scene, config: &Path, socket: &Path) -> Process {
    let node = run_node(scene, config, socket);
    let endpoint = format!("unix:{}", socket.display());
    let list = || scene.command(&["ls", "--endpoint", &endpoint]).output().expect("run");
    wait_for("the node to serve", || list().status.success());
    node
}

/// The exit code of a process that should end, and its standard error.
fn ended(mut node: Process) -> (Option<i32>, String) {
    let mut stderr = node.0.stderr.take().expect("a pipe");
    let pid = node.0.id();
    wait_for("the second node to be refused", || !alive(pid));
    let mut text = String::new();
    stderr.read_to_string(&mut text).expect("read");
    (node.0.wait().expect("ended").code(), text)
}

/// The second node is refused with the sentence that names the first one's process.
fn assert_refused(second: Process, first: u32) {
    let (code, text) = ended(second);
    assert_eq!(code, Some(75), "{text}");
    assert!(text.contains(&format!("process {first}")), "{text}");
}

/// The lock that is held at this socket is not granted a second time.
fn assert_held(scene: &Scene, socket: &Path) {
    let endpoint = format!("unix:{}", socket.display());
    let code = scene.lock(&["-n", "--endpoint", &endpoint, "x"], &["true"]).status();
    assert_eq!(code.expect("run").code(), Some(75));
}

#[test]
fn a_second_node_at_the_socket_of_a_running_one_is_refused() {
    let scene = Scene::new();
    let socket = scene.path().join("shared.sock");
    let configs = ["first", "second"].map(|data| one_member(&scene, data, "127.0.0.1:0"));
    let first = running(&scene, &configs[0], &socket);
    let endpoint = format!("unix:{}", socket.display());
    let mut holder = scene.holder_with("x", &["--endpoint", &endpoint]);
    assert_refused(run_node(&scene, &configs[1], &socket), first.0.id());
    // By another way to the same file, too.
    let link = scene.path().join("link");
    std::os::unix::fs::symlink(scene.path(), &link).expect("made");
    let other_way = link.join("shared.sock");
    assert_refused(run_node(&scene, &configs[1], &other_way), first.0.id());
    assert_held(&scene, &socket);
    holder.release();
}

#[test]
fn a_configured_node_does_not_take_the_socket_of_a_users_node() {
    let scene = Scene::new();
    let mut holder = scene.holder("x");
    let node = scene.node_pid();
    let config = one_member(&scene, "one", "127.0.0.1:0");
    assert_refused(run_node(&scene, &config, &scene.socket()), node);
    assert_held(&scene, &scene.socket());
    assert_eq!(scene.node_pid(), node);
    holder.release();
}

#[test]
fn a_node_without_its_directory_is_not_replaced_while_it_runs() {
    let scene = Scene::new();
    let config = one_member(&scene, "one", "127.0.0.1:0");
    let directory = scene.path().join("one");
    let socket = directory.join("locks.sock");
    let first = running(&scene, &config, &socket);
    let endpoint = format!("unix:{}", socket.display());
    let mut holder = scene.holder_with("x", &["--endpoint", &endpoint]);
    fs::remove_dir_all(&directory).expect("removed");
    assert_refused(run_node(&scene, &config, &socket), first.0.id());
    // Another socket does not make it another node.
    assert_refused(run_node(&scene, &config, &scene.path().join("t")), first.0.id());
    assert_held(&scene, &socket);
    holder.release();
    drop(first);
    drop(running(&scene, &config, &socket));
}

#[test]
fn the_only_member_of_a_cluster_owns_its_address() {
    let scene = Scene::new();
    let address = mutua_host::free_addresses(1).expect("a free port")[0].to_string();
    let configs = ["first", "second"].map(|data| one_member(&scene, data, &address));
    let first = running(&scene, &configs[0], &scene.path().join("one.sock"));
    let second = run_node(&scene, &configs[1], &scene.path().join("two.sock"));
    assert_refused(second, first.0.id());
}

#[test]
fn a_port_in_use_is_exit_code_75() {
    let scene = Scene::new();
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("an address");
    let config = one_member(&scene, "two", &address.to_string());
    let text = fs::read_to_string(&config).expect("there");
    let other = "[[members]]\nname = \"b\"\naddress = \"127.0.0.1:1\"\n";
    fs::write(&config, text + other).expect("written");
    let (code, text) = ended(run_node(&scene, &config, &scene.path().join("s2")));
    assert_eq!(code, Some(75), "{text}");
    assert!(text.contains("another process listens there"), "{text}");
}

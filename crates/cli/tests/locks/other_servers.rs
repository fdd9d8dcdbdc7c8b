//! Endpoints at which a server is that is not for these clients: the error says what is there, and
//! what to name instead.

use std::{process::Command, thread};

use tokio::{net::TcpListener, runtime::Builder};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{service::Routes, transport::Server};

use crate::{nodes::Cluster, scene::Scene};

/// The exit code of a command, and its standard error.
fn finish(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("run");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A server of gRPC that knows none of the services of a node; it runs as long as the test.
fn serve_nothing() -> String {
    let address = mutua_host::free_addresses(1).expect("a free port")[0];
    let runtime = Builder::new_current_thread().enable_all().build().expect("made");
    let listener = runtime.block_on(TcpListener::bind(address)).expect("bound");
    thread::spawn(move || {
        let routes = Server::builder().add_routes(Routes::default());
        runtime.block_on(routes.serve_with_incoming(TcpListenerStream::new(listener)))
    });
    address.to_string()
}

#[test]
fn a_server_without_the_services_of_a_node_is_named_as_such() {
    let (scene, endpoint) = (Scene::new(), serve_nothing());
    let commands: [&[&str]; 5] =
        [&["status"], &["cluster", "members"], &["ls"], &["show", "x"], &["verify", "x", "1"]];
    for words in commands {
        let mut command = scene.command(words);
        let (code, text) = finish(command.args(["--endpoint", &endpoint]));
        assert_eq!(code, Some(69), "{words:?}: {text}");
        let right = format!("{endpoint} speaks gRPC but is not a Mutua node (it may be an etcd)");
        assert!(text.contains(&right), "{words:?}: {text}");
        assert!(text.contains("name the socket of a node, unix:PATH"), "{words:?}: {text}");
    }
}

#[test]
fn the_port_at_which_members_connect_to_each_other_is_named_as_such() {
    let scene = Scene::new();
    let cluster = Cluster::start(&scene);
    let endpoint = cluster.address(0);
    // Not `lock -n`, which waits for a second only, also for what shows the cause.
    let commands: [&[&str]; 4] = [&["status"], &["ls"], &["show", "x"], &["watch", "x"]];
    for words in commands {
        let (code, text) = finish(scene.command(words).args(["--endpoint", &endpoint]));
        assert_eq!(code, Some(69), "{words:?}: {text}");
        assert!(text.contains("closes the connection at once, as the nodes' own port"), "{text}");
        assert!(text.contains("clients use the client port"), "{words:?}: {text}");
    }
}

//! `mutua lock` with a node that cannot serve, does not answer, cannot start, or is not the right
//! one.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::{
        ffi::OsStrExt,
        net::{UnixListener, UnixStream},
        process::ExitStatusExt,
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::nodes::Cluster;
use crate::scene::{Scene, kill, wait_for};

/// The exit code of a command, and its standard error.
fn finish(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("run");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn token(scene: &Scene) -> Option<String> {
    token_in(&scene.show("x"))
}

fn token_in(state: &str) -> Option<String> {
    state.split("\"fencing_token\":\"").nth(1)?.split('"').next().map(str::to_owned)
}

/// Starts a command and waits until it prints `in`; it has a standard input of its own.
fn held(command: &mut Command) -> Child {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run");
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("read");
    assert_eq!(line, "in\n");
    child
}

fn release(child: &mut Child) -> Option<i32> {
    drop(child.stdin.take());
    child.wait().expect("ended").code()
}

#[test]
fn a_server_that_accepts_and_does_not_answer_is_given_up() {
    let scene = Scene::new();
    let _silent = UnixListener::bind(scene.socket()).expect("bound");
    let endpoint = format!("unix:{}", scene.socket().display());
    for wait in [["-w", "1"], ["-w", "0"]] {
        let all = [&wait[..], &["--endpoint", &endpoint, "x"]].concat();
        let (code, text) = finish(&mut scene.lock(&all, &["true"]));
        assert_eq!(code, Some(69), "{text}");
        assert!(text.contains("does not answer"), "{text}");
    }
}

#[test]
fn a_signal_ends_the_wait_for_an_answer() {
    let scene = Scene::new();
    let silent = UnixListener::bind(scene.socket()).expect("bound");
    let endpoint = format!("unix:{}", scene.socket().display());
    for (signal, number) in [("-TERM", 15), ("-INT", 2), ("-HUP", 1)] {
        let mut child = scene.lock(&["--endpoint", &endpoint, "x"], &["true"]);
        let mut child = child.spawn().expect("run");
        let _connection = silent.accept().expect("it connects");
        kill(signal, child.id());
        let status = child.wait().expect("ended");
        // An interrupt kills it, which a shell shows in the same way.
        assert_eq!(status.signal().or(status.code().map(|code| code - 128)), Some(number));
    }
}

#[test]
fn a_replaced_program_file_starts_the_next_node_nevertheless() {
    let scene = Scene::new();
    let copy = scene.path().join("mutua");
    // Not by this process: what it has open for writing while another test forks cannot be run.
    let copied = Command::new("cp").arg(scene.mutua()).arg(&copy).status().expect("run");
    assert!(copied.success());
    let text = format!("exec {} lock x -- sh -c 'echo in; cat'", copy.display());
    let mut holder = held(&mut scene.shell(&text));
    let before = token(&scene).expect("it is held");
    fs::remove_file(&copy).expect("removed");
    let node = scene.node_pid();
    kill("-KILL", node);
    wait_for("the next node", || ![0, node].contains(&scene.node_pid()));
    wait_for("it to know the holder", || token(&scene).as_ref() == Some(&before));
    assert_eq!(release(&mut holder), Some(0));
}

/// A command with a small disk of its own at the directory, if this user may mount one.
fn on_a_small_disk(scene: &Scene, text: &str) -> Option<Command> {
    let mount = format!("mount -t tmpfs -o size=64k none {}", scene.path().display());
    let own = |text: &str| {
        let mut command = scene.shell("exec unshare --mount sh -c \"$0\"");
        command.arg(format!("{mount} && {text}"));
        command
    };
    let may = own("true").stderr(Stdio::null()).status().expect("run").success();
    may.then(|| own(text))
}

#[test]
fn a_full_disk_does_not_keep_the_next_node_from_starting_under_a_holder() {
    let scene = Scene::new();
    let text = format!("exec {} lock x -- sh -c 'echo in; cat'", scene.mutua());
    let Some(mut holder) = on_a_small_disk(&scene, &text) else {
        return println!("skipped: this user may not create namespaces");
    };
    let mut holder = held(&mut holder);
    // Queried on the full disk: on another there would be space for a node.
    let ask = |text: &str| {
        let text = format!("exec nsenter -m -t {} {} {text}", holder.id(), scene.mutua());
        scene.shell(&text)
    };
    let token = || {
        let mut show = ask("show --json x");
        let output = show.stderr(Stdio::null()).output().expect("run");
        token_in(&String::from_utf8_lossy(&output.stdout))
    };
    let before = token().expect("it is held");
    let there = format!("/proc/{}/root{}", holder.id(), scene.path().display());
    let mut fill = fs::File::create(format!("{there}/fill")).expect("made");
    while fill.write_all(&[0; 512]).is_ok() {}
    let node = scene.node_pid();
    kill("-KILL", node);
    wait_for("the next node", || ![0, node].contains(&scene.node_pid()));
    wait_for("it to know the holder", || token().as_ref() == Some(&before));
    // A log that cannot be written does not stop it either.
    let (code, text) = finish(&mut ask("break x --reason full --yes"));
    assert_eq!(code, Some(0), "{text}");
    // Waiting would close it, and the command might end by that before it is ended.
    let _stdin = holder.stdin.take();
    assert_eq!(holder.wait().expect("ended").code(), Some(79));
}

#[test]
fn a_full_disk_is_named_when_no_node_can_start() {
    let scene = Scene::new();
    let text = format!(
        "{{ dd if=/dev/zero of={}/fill bs=512 2>/dev/null; exec {} lock x -- true; }}",
        scene.path().display(),
        scene.mutua()
    );
    let Some(mut command) = on_a_small_disk(&scene, &text) else {
        return println!("skipped: this user may not create namespaces");
    };
    let (code, text) = finish(&mut command);
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains("No space left on device"), "{text}");
}

#[test]
fn a_node_that_cannot_start_is_started_once_and_says_why() {
    let scene = Scene::new();
    assert_eq!(scene.lock(&["x"], &["true"]).status().expect("run").code(), Some(0));
    kill("-KILL", scene.node_pid());
    // A process that ends has no command line any more before its sockets are closed.
    wait_for("the socket to be closed", || UnixStream::connect(scene.socket()).is_err());
    let directory = scene.socket().with_extension("d");
    fs::write(directory.join("epoch"), "many").expect("written");
    fs::write(directory.join("log"), "").expect("written");
    let (code, text) = finish(&mut scene.lock(&["-n", "x"], &["true"]));
    assert_eq!(code, Some(69), "{text}");
    assert!(text.contains("invalid epoch `many`"), "{text}");
    let log = fs::read_to_string(directory.join("log")).expect("there");
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn a_socket_that_cannot_be_is_refused_at_once() {
    let scene = Scene::new();
    let within = |name: &[u8]| {
        let mut path = scene.path().as_os_str().to_owned();
        path.push("/");
        path.push(OsStr::from_bytes(name));
        path
    };
    fs::create_dir(scene.path().join("dir")).expect("made");
    fs::write(scene.path().join("data.txt"), "not ours").expect("written");
    let before = fs::read_dir(scene.path()).expect("read").count();
    let cases: [(OsString, &str); 7] = [
        (within(&[b'a'; 100]), "107 bytes at most"),
        (within(b"dir"), "is a directory"),
        (within(b"ee/"), "is a directory"),
        ("/".into(), "is a directory"),
        (within(b"\xff\xfe"), "not UTF-8"),
        (within(b"data.txt"), "not a socket"),
        (within(b"no/such/s"), "cannot create"),
    ];
    for (socket, why) in cases {
        for arguments in [&["lock", "-n", "x", "--", "true"][..], &["ls"]] {
            let (code, text) = finish(scene.command(arguments).env("MUTUA_SOCKET", &socket));
            assert_eq!(code, Some(78), "{socket:?}: {text}");
            assert!(text.contains(why), "{socket:?}: {text}");
        }
    }
    assert_eq!(fs::read_dir(scene.path()).expect("read").count(), before);
    assert_eq!(fs::read(scene.path().join("data.txt")).expect("there"), b"not ours");
    let gone = format!(
        "mkdir {0}/gone && cd {0}/gone && rmdir {0}/gone && MUTUA_SOCKET=s {1} lock x -- true",
        scene.path().display(),
        scene.mutua()
    );
    let (code, text) = finish(&mut scene.shell(&gone));
    assert_eq!(code, Some(78), "{text}");
}

#[test]
fn what_is_beside_a_socket_stays_there() {
    let scene = Scene::new();
    let (socket, beside) = (scene.path().join("s.sock"), scene.path().join("s.new"));
    fs::write(&beside, "not ours").expect("written");
    let mut command = scene.lock(&["x"], &["true"]);
    command.env("MUTUA_SOCKET", &socket).env("MUTUA_IDLE_MS", "10");
    assert_eq!(finish(&mut command).0, Some(0));
    assert_eq!(fs::read(&beside).expect("there"), b"not ours");
    wait_for("the node to leave", || !socket.exists());
}

#[test]
fn an_invalid_endpoint_address_or_name_is_bad_usage_in_every_command() {
    let scene = Scene::new();
    let config = scene.path().join("m.toml");
    let text = "cluster = \"c\"\nnode = \"a\"\nclustered = true\n[[members]]\nname = \"a\"\n\
                address = \"127.0.0.1:1\"\n";
    fs::write(&config, text).expect("written");
    let config = config.to_str().expect("text");
    let cases: [&[&str]; 7] = [
        &["status", "--endpoint", "foo"],
        &["cluster", "members", "--endpoint", "foo"],
        &["cluster", "join", "--at", "foo", "--config", config],
        &["show", ""],
        &["watch", ""],
        &["verify", "", "1"],
        &["break", "", "--reason", "x", "--yes"],
    ];
    for arguments in cases {
        let (code, text) = finish(&mut scene.command(arguments));
        assert_eq!(code, Some(64), "{arguments:?}: {text}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_done() {
    let scene = Scene::new();
    let cases: [(&[&str], &str); 14] = [
        (&["--ttl", "9000000001", "x", "--", "true"], "at most its longest_lease"),
        (&["--ttl", "0", "x", "--", "true"], "at least 1s"),
        (&["-w", "-5", "x", "--", "true"], "invalid duration `-5`"),
        (&["--grace", "10000000000000000000", "x", "--", "true"], "is too short for"),
        (&["x", "--"], "no command after `--`"),
        (&["--endpoint", "", "x", "--", "true"], "invalid endpoint"),
        (&["--endpoint", "::bad", "x", "--", "true"], "invalid endpoint"),
        (&["--endpoint", "https://127.0.0.1:1", "x", "--", "true"], "MUTUA_CA is not set"),
        (&["--endpoint", "unix:", "x", "--", "true"], "invalid endpoint"),
        (&["--", "-x"], "NAME"),
        (&["--name=", "--", "true"], "is empty"),
        (&["x", "--", ""], "COMMAND is empty"),
        (&["x", "", "--all"], "COMMAND is empty"),
        (&["-E", "-1", "x", "--", "true"], "invalid exit code `-1`: use 0 to 255"),
    ];
    for (arguments, why) in cases {
        let (code, text) = finish(&mut scene.command(&[&["lock"], arguments].concat()));
        assert_eq!(code, Some(64), "{arguments:?}: {text}");
        assert!(text.contains(why), "{arguments:?}: {text}");
    }
    let (code, text) = finish(&mut scene.command(&["elect", "e", "value", "--", ""]));
    assert!(code == Some(64) && text.contains("COMMAND is empty"), "{text}");
    let (code, text) = finish(&mut scene.command(&["ls", "--endpoint", "https://h:1"]));
    assert_eq!(code, Some(64), "{text}");
    assert_eq!(scene.node_pid(), 0);
}

#[test]
fn a_lock_is_noticed_within_itself_however_its_node_is_named_and_only_while_it_is_held() {
    let scene = Scene::new();
    let (link, held) = (scene.path().join("link"), scene.path().join("held"));
    std::os::unix::fs::symlink(scene.socket(), &link).expect("made");
    let text = "printenv MUTUA_HELD >\"$1\"
        \"$0\" lock -n x -- true; echo $?
        MUTUA_SOCKET=\"$2\" \"$0\" lock -n x -- true; echo $?
        \"$0\" lock -n --endpoint \"unix:$2\" x -- true; echo $?
        \"$0\" lock -n y -- true; echo $?";
    let words = [held.to_str().expect("text"), link.to_str().expect("text")];
    let command = [&["sh", "-c", text, scene.mutua()][..], &words].concat();
    let output = scene.lock(&["x"], &command).output().expect("run");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "64\n64\n64\n0\n");
    let held = fs::read_to_string(held).expect("there");
    let mut leaked = scene.lock(&["-n", "x"], &["true"]);
    let (code, text) = finish(leaked.env("MUTUA_HELD", held.trim()));
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_lock_is_noticed_within_itself_at_another_member() {
    let scene = Scene::new();
    let cluster = Cluster::start(&scene);
    let (a, b) = (cluster.endpoint(0), cluster.endpoint(1));
    let nested = [scene.mutua(), "lock", "-w", "9", "--endpoint", &b, "x", "--", "true"];
    let (code, text) = finish(&mut scene.lock(&["--endpoint", &a, "x"], &nested));
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("already held"), "{text}");
}

#[test]
fn a_container_with_user_ids_of_its_own_does_not_take_the_place() {
    let scene = Scene::new();
    let text = format!(
        "exec unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none {} && \
         exec {} lock x -- sh -c \"echo in; cat\"'",
        scene.path().display(),
        scene.mutua()
    );
    let mut may = scene.shell("unshare --user --map-root-user --mount mount -t tmpfs none /mnt");
    if !may.stderr(Stdio::null()).status().expect("run").success() {
        return println!("skipped: this user may not create namespaces");
    }
    let mut holder = held(&mut scene.shell(&text));
    let (code, text) = finish(&mut scene.lock(&["-n", "x"], &["true"]));
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(release(&mut holder), Some(0));
}

#[test]
fn names_are_the_same_in_all_json_and_may_start_with_a_dash() {
    let scene = Scene::new();
    for name in ["köln", "a\"b\\c", "-x"] {
        let text = "\"$0\" show --json -- \"$LOCK_NAME\" >\"$1\"";
        let state = scene.path().join("state");
        let (named, state) = (format!("--name={name}"), state.to_str().expect("text"));
        let shows = ["sh", "-c", text, scene.mutua(), state];
        let (code, events) = finish(&mut scene.lock(&["--json", &named], &shows));
        assert_eq!(code, Some(0), "{events}");
        let shown = fs::read_to_string(state).expect("there");
        for line in events.lines().chain([&*shown]) {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            if line.get("name").is_some() {
                assert_eq!(line["name"], name);
            }
        }
    }
}

#[test]
fn an_owner_cannot_write_what_a_terminal_would_obey() {
    let scene = Scene::new();
    let text = "\"$0\" show x; \"$0\" ls; \"$0\" lock -n -v x -- true 2>&1";
    let shows = ["env", "-u", "MUTUA_HELD", "sh", "-c", text, scene.mutua()];
    let mut command = scene.lock(&["--owner", "an\u{1b}[2Jn\nx", "x"], &shows);
    let output = command.output().expect("run");
    assert_eq!(output.status.code(), Some(75));
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.matches("an\\u{1b}[2Jn\\nx").count(), 3, "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn the_command_finds_the_node_wherever_it_goes() {
    let scene = Scene::new();
    let mut holder = scene.holder("y");
    let text = "cd / && \"$0\" verify --endpoint \"$LOCK_SOCKET\" x \"$LOCK_TOKEN\"";
    let mut command =
        scene.lock(&["--endpoint", "unix:s", "x"], &["sh", "-c", text, scene.mutua()]);
    let (code, text) = finish(command.current_dir(scene.path()));
    assert_eq!(code, Some(0), "{text}");
    holder.release();
}

#[test]
fn the_page_of_the_manual_says_how_a_lock_is_taken() {
    let output = Scene::new().command(&["man", "lock"]).output().expect("run");
    let page = String::from_utf8_lossy(&output.stdout).replace('\\', "");
    assert!(page.contains("mutua-lock - Run a command"), "{page}");
    assert!(page.contains("[-w|--wait TIME]"), "{page}");
    assert_eq!(page.matches("[--json]").count(), 1, "{page}");
    assert!(page.contains("[NAME] [COMMAND...]"), "{page}");
}

#[test]
fn the_status_of_this_users_node_names_no_cluster() {
    let scene = Scene::new();
    let mut holder = scene.holder("x");
    let status = |options: &[&str]| {
        let output = scene.command(&[&["status"], options].concat()).output().expect("run");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let json: serde_json::Value = serde_json::from_str(&status(&["--json"])).expect("JSON");
    assert_eq!(json["cluster"], serde_json::Value::Null);
    assert!(status(&[]).starts_with("this user's node, pid "), "{}", status(&[]));
    holder.release();
}

/// The configuration of a node in no cluster.
fn alone(scene: &Scene) -> PathBuf {
    let config = scene.path().join("one.toml");
    let text = "cluster = \"one\"\nnode = \"a\"\ndata = \"one\"\n[[members]]\nname = \"a\"\n\
                address = \"127.0.0.1:0\"\n";
    fs::write(&config, text).expect("written");
    config
}

#[test]
fn a_misspelt_variable_is_refused_and_those_of_a_kubernetes_service_are_not() {
    let scene = Scene::new();
    let config = alone(&scene);
    let words = ["config", "check", config.to_str().expect("text")];
    let mut check = scene.command(&words);
    check.env("MUTUA_NODE_SERVICE_HOST", "10.0.0.1").env("MUTUA_NODE_PORT", "tcp://10.0.0.1:7000");
    let (code, text) = finish(&mut check);
    assert_eq!(code, Some(0), "{text}");
    // At a socket that no node can have: one that did start would not end.
    let words = ["node", "--config", config.to_str().expect("text"), "--socket", "/dev/null"];
    let (code, text) = finish(scene.command(&words).env("MUTUA_NODE_LISEN", "127.0.0.1:1"));
    assert_eq!(code, Some(78), "{text}");
    let right = "unknown variable `MUTUA_NODE_LISEN`: did you mean `MUTUA_NODE_LISTEN`?";
    assert!(text.contains(right), "{text}");
}

#[test]
fn the_configuration_that_a_variable_names_is_checked() {
    let scene = Scene::new();
    let config = alone(&scene);
    let mut check = scene.command(&["config", "check"]);
    let (code, text) = finish(check.env("MUTUA_CONFIG", &config));
    assert_eq!(code, Some(0), "{text}");
    let missing = scene.path().join("missing.toml");
    let (code, text) = finish(check.env("MUTUA_CONFIG", &missing));
    assert_eq!(code, Some(78), "{text}");
    let right = format!("{}: the configuration cannot be read: ", missing.display());
    assert!(text.contains(&right), "{text}");
}

#[test]
fn a_port_in_use_is_the_only_news_of_a_node_that_cannot_start() {
    let scene = Scene::new();
    let config = alone(&scene);
    let address = mutua_host::free_addresses(1).expect("a free port")[0];
    let _taken = TcpListener::bind(address).expect("bound");
    let address = address.to_string();
    let words = ["node", "--config", config.to_str().expect("text"), "--listen", &address];
    let (code, text) = finish(&mut scene.command(&words));
    assert_eq!(code, Some(75), "{text}");
    assert!(text.contains(&format!("cannot listen on {address}")), "{text}");
    assert!(!text.contains("the node stops"), "{text}");
}

#[test]
fn a_configured_node_leaves_alone_what_is_no_socket() {
    let scene = Scene::new();
    let (config, socket) = (alone(&scene), scene.path().join("data.txt"));
    fs::write(&socket, "not ours").expect("written");
    let words = ["node", "--config", config.to_str().expect("text"), "--socket"];
    let (code, text) = finish(scene.command(&words).arg(&socket));
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("not a socket"), "{text}");
    assert_eq!(fs::read(&socket).expect("there"), b"not ours");
}

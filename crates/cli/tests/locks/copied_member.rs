//! A fourth process runs from a copy of a member's configuration and data directory, as a cloned
//! machine does: it is refused, and the member works on or comes back.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use crate::nodes::Cluster;
use crate::scene::{Scene, wait_for};

/// The member that is copied: the last one, which dials all others.
const C: usize = 2;

/// A copy of member c that runs.
struct Copy {
    child: Child,
    config: PathBuf,
    endpoint: String,
    log: PathBuf,
}

impl Copy {
    /// With an address of its own, as another machine has; the other members' are the same.
    fn start(scene: &Scene, cluster: &Cluster) -> Self {
        let (data, config) = (scene.path().join("copy"), scene.path().join("copy.toml"));
        copy_files(&scene.path().join("c"), &data);
        let text = fs::read_to_string(cluster.file(C)).expect("there");
        let (before, own) = text.rsplit_once("127.0.0.1").expect("its address");
        let text = format!("{before}127.0.0.9{own}").replace("data = \"c\"", "data = \"copy\"");
        fs::write(&config, text).expect("written");
        let log = scene.path().join("copy.log");
        let mut command = scene.command(&["node", "--config"]);
        command.arg(&config).stderr(fs::File::create(&log).expect("made"));
        let endpoint = format!("unix:{}", data.join("locks.sock").display());
        Self { child: command.spawn().expect("run"), config, endpoint, log }
    }

    /// Kills the copy.
    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Copies the files of a directory, and those of the directories in it.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("read").flatten() {
        let (kind, target) = (entry.file_type().expect("known"), to.join(entry.file_name()));
        if kind.is_file() {
            match fs::copy(entry.path(), target) {
                // The member runs, and has put a new file in the place of this one.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                copied => drop(copied.expect("copied")),
            }
        } else if kind.is_dir() {
            copy_files(&entry.path(), &target);
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.end();
    }
}

/// A node's status, and whether it says that locks are granted.
fn status(scene: &Scene, config: &Path) -> (bool, String) {
    let mut command = scene.command(&["status", "--config"]);
    let output = command.arg(config).output().expect("run");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn wait_for_refusal(scene: &Scene, config: &Path) {
    wait_for("the second process to be refused", || {
        let (granted, text) = status(scene, config);
        assert!(!granted || !text.contains("another process"), "{text}");
        text.contains("another process runs as this member")
    });
}

/// Counts in a file under the lock; a second holder at the same time leaves the file `two`.
const COUNT: &str = "mkdir busy || touch two; n=$(cat count); echo $((n + 1)) >count; rmdir busy";

fn counting(scene: &Scene, endpoint: &str) -> Child {
    let text = format!(
        "cd {} && for i in 1 2 3 4 5 6 7 8; do {} lock -w 20 --endpoint {endpoint} x -- \
         sh -c '{COUNT}' || exit 1; done",
        scene.path().display(),
        scene.mutua()
    );
    scene.shell(&text).stderr(Stdio::null()).spawn().expect("run")
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).expect("there").lines().count()
}

#[test]
fn a_copy_of_a_member_is_refused_while_the_member_works_on() {
    let scene = Scene::new();
    let cluster = Cluster::start_many(&scene, 3);
    let mut holder = scene.holder_with("x", &["--endpoint", &cluster.endpoint(C)]);
    let copy = Copy::start(&scene, &cluster);
    wait_for_refusal(&scene, &copy.config);
    for endpoint in [&copy.endpoint, &cluster.endpoint(0)] {
        let tried = scene.lock(&["-w", "1", "--endpoint", endpoint, "x"], &["true"]).status();
        assert_ne!(tried.expect("run").code(), Some(0), "granted at {endpoint} beside the holder");
    }
    holder.release();
    fs::write(scene.path().join("count"), "0\n").expect("written");
    let mut workers: Vec<_> =
        (0..3).map(|member| counting(&scene, &cluster.endpoint(member))).collect();
    let tries = ["-w", "2", "--endpoint", &copy.endpoint, "x"];
    let tried = scene.lock(&tries, &["true"]).stderr(Stdio::null()).status();
    assert_ne!(tried.expect("run").code(), Some(0), "the copy has granted a lock");
    for worker in &mut workers {
        assert_eq!(worker.wait().expect("ended").code(), Some(0));
    }
    assert!(!scene.path().join("two").exists(), "two held the lock at once");
    assert_eq!(fs::read_to_string(scene.path().join("count")).expect("there"), "24\n");
    // A few lines each, however often the copy came.
    assert!(lines(&copy.log) < 20, "{}", fs::read_to_string(&copy.log).expect("there"));
    for name in ["a", "b"] {
        let log = scene.path().join(format!("{name}.log"));
        let text = fs::read_to_string(&log).expect("there");
        assert!(lines(&log) < 20, "{text}");
        assert!(text.contains("it runs as member c, and so does another process"), "{text}");
    }
}

#[test]
fn a_member_whose_copy_was_first_comes_back_when_the_copy_ends() {
    let scene = Scene::new();
    let mut cluster = Cluster::start_many(&scene, 3);
    cluster.kill(C);
    let mut copy = Copy::start(&scene, &cluster);
    wait_for("the copy to be connected", || {
        status(&scene, &copy.config).1.matches(" connected for").count() == 2
    });
    cluster.run(C);
    wait_for_refusal(&scene, &cluster.file(C));
    let options = ["-w", "20", "--endpoint", &cluster.endpoint(0), "x"];
    let others = scene.lock(&options, &["true"]).status().expect("run");
    assert_eq!(others.code(), Some(0), "the others go on");
    copy.end();
    wait_for("the member to be back", || {
        (0..3).all(|member| status(&scene, &cluster.file(member)).0)
    });
    let taken =
        scene.lock(&["-w", "20", "--endpoint", &cluster.endpoint(C), "x"], &["true"]).status();
    assert_eq!(taken.expect("run").code(), Some(0));
    assert!(lines(&scene.path().join("c.log")) < 20);
}

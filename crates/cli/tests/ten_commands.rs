//! The ten commands of docs/operations.md make a cluster of three with TLS: run as they are
//! written, on three hosts with their own network, `/etc`, `/var/lib` and host name.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use mutua_testbed::Testbed;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What stands for the rest of a machine: files of its own, a copy to another one, a service
/// manager.
const MACHINE: &str = r#"
set -e
mount --bind "$ALL/$ME/etc" /etc
mount --bind "$ALL/$ME/lib" /var/lib
hostname "$ME"
scp() {
  local target="${!#}"
  cp "${@:1:$#-1}" "$ALL/${target%%:*}${target#*:}"
}
systemctl() {
  [[ "$*" == "enable --now mutua" ]]
  mutua node </dev/null >/dev/null 2>>"$ALL/$ME/log" &
}
"#;

struct Machines {
    testbed: Testbed,
    all: tempfile::TempDir,
}

impl Machines {
    fn new() -> Self {
        let testbed = Testbed::new(NAMES.len(), 1).expect("a testbed");
        let all = tempfile::tempdir().expect("a directory");
        for (name, host) in NAMES.iter().zip(testbed.hosts()) {
            // As the package makes it.
            fs::create_dir_all(all.path().join(name).join("etc/mutua/tls")).expect("made");
            fs::create_dir_all(all.path().join(name).join("lib")).expect("made");
            // For `scp`, which names a machine by its address.
            let link = all.path().join(host.address().to_string());
            std::os::unix::fs::symlink(name, link).expect("linked");
        }
        Self { testbed, all }
    }

    fn path(&self, name: &str, file: &str) -> PathBuf {
        self.all.path().join(name).join(file)
    }

    fn command(&self, index: usize, text: &str) -> Command {
        let mut command = self.testbed.host(index).command("unshare");
        command.args(["--mount", "--uts", "bash", "-c", &format!("{MACHINE}\n{text}")]);
        let programs = Path::new(env!("CARGO_BIN_EXE_mutua")).parent().expect("a directory");
        let search = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{search}", programs.display()));
        command.env("ALL", self.all.path()).env("ME", NAMES[index]);
        for name in ["MUTUA_SOCKET", "MUTUA_CONFIG", "MUTUA_CLUSTER", "MUTUA_HELD"] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, index: usize, text: &str) -> (bool, String) {
        let Output { status, stdout, stderr } = self.command(index, text).output().expect("run");
        let both = [stdout, stderr].concat();
        (status.success(), String::from_utf8_lossy(&both).into_owned())
    }

    fn until(&self, what: &str, holds: impl Fn() -> Result<(), String>) {
        let begun = Instant::now();
        while let Err(why) = holds() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {why}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The commands of the section, each with the machines that it runs on.
fn commands(testbed: &Testbed) -> Vec<(Vec<usize>, String)> {
    let text = fs::read_to_string(DOCUMENT).expect("the document");
    let section = text.split("## Three members with TLS").nth(1).expect("the section");
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    let mut machines = Vec::new();
    let mut commands = Vec::new();
    let lines = block.expect("a block").replace("\\\n", "");
    for line in lines.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix("# on ") {
            let words: Vec<_> = comment.split([' ', ',']).collect();
            machines = (0..NAMES.len()).filter(|&at| words.contains(&NAMES[at])).collect();
            continue;
        }
        let mut line = line.to_owned();
        for (at, host) in testbed.hosts().iter().enumerate() {
            line = line.replace(&format!("10.0.0.{}", at + 1), &host.address().to_string());
        }
        commands.push((machines.clone(), line));
    }
    commands
}

#[test]
fn ten_commands_make_a_cluster_of_three_with_tls() {
    let machines = Machines::new();
    let commands = commands(&machines.testbed);
    assert_eq!(commands.len(), 10, "{commands:?}");
    for (on, line) in &commands {
        assert!(!on.is_empty(), "{line}: on no machine");
        for &index in on {
            // All members must be up once before locks are granted.
            if line == "mutua status" {
                machines.until("status", || {
                    let (done, text) = machines.run(index, line);
                    if done { Ok(()) } else { Err(text) }
                });
                continue;
            }
            let (done, text) = machines.run(index, line);
            assert!(done, "`{line}` on {}: {text}", NAMES[index]);
        }
    }
    let (_, last) = &commands[9];
    let (done, text) = machines.run(1, last);
    assert!(done && text.contains("hello"), "{text}");
    assert!(text.contains("scope cluster shop"), "{text}");
    let (_, text) = machines.run(0, "mutua config check");
    assert!(text.contains("TLS, certificate valid until"), "{text}");
    a_lost_member_is_a_warning(&machines);
}

fn a_lost_member_is_a_warning(machines: &Machines) {
    let (done, text) = machines.run(2, "mutua status --json");
    assert!(done, "{text}");
    let status: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let pid = status["pid"].as_u64().expect("a process");
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("run");
    assert!(killed.success());
    machines.until("a warning", || {
        let log = fs::read_to_string(machines.path("a", "log")).expect("a log");
        let found = log.lines().any(|line| line.contains("WARN") && line.contains("without c"));
        if found { Ok(()) } else { Err(log) }
    });
}

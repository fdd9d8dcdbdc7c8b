//! `mutua lock` on a terminal, in a shell with job control.

use std::{
    fs::File,
    io::{Read, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use crate::scene::{Scene, wait_for};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

/// A shell on a terminal of its own.
struct Shell {
    scene: Scene,
    terminal: File,
    child: Child,
    seen: Arc<Mutex<String>>,
}

impl Shell {
    fn new() -> Self {
        let scene = Scene::new();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = openpt(flags).expect("a terminal");
        grantpt(&terminal).expect("ours");
        unlockpt(&terminal).expect("open");
        let end = File::from(ioctl_tiocgptpeer(&terminal, flags).expect("its other end"));
        let terminal = File::from(terminal);
        let stdio = || Stdio::from(end.try_clone().expect("a descriptor"));
        let mut command = Command::new("setsid");
        command.args(["--ctty", "bash", "--norc", "--noprofile", "-i"]);
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        command.env("MUTUA_SOCKET", scene.socket()).env("MUTUA_IDLE_MS", "5000");
        command.env_remove("MUTUA_HELD").env("TERM", "dumb").env("PS1", "> ");
        command.env("M", scene.mutua()).env("P", scene.path());
        let child = command.spawn().expect("run");
        let seen = Arc::default();
        let (mut reader, into) = (terminal.try_clone().expect("a descriptor"), Arc::clone(&seen));
        std::thread::spawn(move || listen(&mut reader, &into));
        Self { scene, terminal, child, seen }
    }

    /// Types something.
    fn types(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).expect("written");
    }

    fn seen(&self) -> String {
        self.seen.lock().expect("whole").clone()
    }

    fn sees(&self, text: &str) {
        self.sees_times(text, 1);
    }

    fn sees_times(&self, text: &str, times: usize) {
        let is_there = || self.seen().matches(text).count() >= times;
        // What was seen instead is what one wants to know.
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(text, is_there);
        }));
        assert!(waited.is_ok(), "`{text}` was not seen in:\n{}", self.seen());
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scene.path().join(name)
    }

    /// Waits until the command has made this file.
    fn finds(&self, name: &str) {
        let file = self.file(name);
        let waited = std::panic::catch_unwind(|| wait_for(name, || file.exists()));
        assert!(waited.is_ok(), "no {name}:\n{}", self.seen());
    }
}

fn listen(reader: &mut File, into: &Mutex<String>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = reader.read(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
        into.lock().expect("whole").push_str(&text);
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The terminal closes with it, and its process group is notified. A shell that is just
        // about to read would not hear SIGHUP.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// In what is typed below, `''` keeps the echo of the terminal from looking like an answer.

#[test]
fn a_command_may_ask_on_the_terminal_though_its_standard_input_is_something_else() {
    let mut shell = Shell::new();
    let asks = "touch $P/up; read a </dev/tty; echo g''ot $a";
    shell.types(&format!("$M lock x -- sh -c \"{}\" </dev/null; echo r''c=$?\n", escape(asks)));
    shell.finds("up");
    shell.types("hello\n");
    shell.sees("got hello");
    shell.sees("rc=0");
}

/// For a shell's double quotes.
fn escape(text: &str) -> String {
    text.replace("$a", "\\$a")
}

#[test]
fn a_command_in_the_background_gets_the_terminal_with_fg() {
    let mut shell = Shell::new();
    shell.types(&format!("$M lock x -- sh -c \"{}\" &\n", escape("read a; echo g''ot $a")));
    shell.sees("waits for the terminal");
    shell.types("fg\n");
    // It prints what it brings to the front.
    shell.sees_times("lock x -- sh", 2);
    shell.types("hello\n");
    shell.sees("got hello");
    shell.types("echo ba''ck\n");
    shell.sees("back");
}

#[test]
fn a_pager_behind_the_command_may_read_from_the_terminal() {
    let mut shell = Shell::new();
    let waits = "touch $P/up; until test -e $P/done; do sleep 0.1; done; echo la''st";
    let pager = "'read a </dev/tty; echo g\"\"ot $a; touch $P/done; cat'";
    shell.types(&format!("$M lock x -- sh -c \"{waits}\" | sh -c {pager}\n"));
    shell.finds("up");
    shell.types("hello\n");
    shell.sees("got hello");
    shell.sees("last");
}

#[test]
fn a_command_goes_on_after_it_was_stopped_from_the_terminal() {
    let mut shell = Shell::new();
    let reads = escape("touch $P/go; read b; touch $P/up; read a; echo g''ot $a");
    shell.types(&format!("$M lock --ttl 60 x -- sh -c \"{reads}\"; echo r''c=$?\n"));
    shell.finds("go");
    // A command that has read from the terminal is in its foreground, so the stop reaches it.
    shell.types("first\n");
    shell.finds("up");
    shell.types("\x1a");
    shell.sees("Stopped");
    shell.types("fg\n");
    shell.sees_times("lock --ttl 60 x -- sh", 2);
    shell.types("hello\n");
    shell.sees("got hello");
}

#[test]
fn an_interrupt_ends_the_script_that_the_command_is_of() {
    for (interpreter, waits) in
        [("bash", "exec sleep 99"), ("sh", "exec sleep 99"), ("bash", "read a"), ("sh", "read a")]
    {
        let mut shell = Shell::new();
        let script = format!(
            "for i in 1 2; do echo run-$i; $M lock x -- sh -c 'touch $P/up; {waits}'; done\n"
        );
        std::fs::write(shell.file("script"), script).expect("written");
        shell.types(&format!("{interpreter} $P/script\n"));
        shell.finds("up");
        shell.types("\x03");
        // The shell asks for the next line.
        shell.sees_times("> ", 2);
        let seen = shell.seen();
        assert!(!seen.contains("run-2"), "{interpreter} {waits}: {seen}");
    }
}

//! The processes that have an open file description.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::Path,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rustix::{
    io::Errno,
    process::{self, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open},
};

/// The processes that have a description that is locked with flock.
///
/// Many descriptions may be of the same file, and only one has its lock: the kernel shows the lock
/// in `fdinfo` for that one, in every process that has it.
pub(super) struct Holders {
    /// The file as `fdinfo` names it: device and inode. A file system may report others to stat.
    file: String,
}

impl Holders {
    /// The processes of a description that was locked just now.
    pub(super) fn of(file: &File) -> Result<Self, Errno> {
        let path = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().find_map(locked).map(|file| Self { file }).ok_or(Errno::NOLCK)
    }

    /// Sends them a signal; a stopped process acts on it too.
    pub(super) fn signal(&self, signal: Signal) {
        for pid in self.processes() {
            let _ = kill(Pid::from_raw(pid), signal);
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
    }

    /// Writes to their standard error, once if several share it.
    pub(super) fn notify(&self, text: &str) {
        let mut written = BTreeSet::new();
        for pid in self.processes() {
            let path = format!("/proc/{pid}/fd/2");
            let Ok(data) = fs::metadata(&path) else { continue };
            if !written.insert((data.dev(), data.ino())) {
                continue;
            }
            // In a file the text must have the caller's place: what the caller writes later would
            // otherwise overwrite what was appended. Writing to a file does not block.
            let shared = if data.is_file() { descriptor(pid, 2) } else { None };
            if let Some(mut stderr) = shared.or_else(|| open_without_waiting(&path).ok()) {
                let _ = stderr.write_all(text.as_bytes());
            }
        }
    }

    fn processes(&self) -> impl Iterator<Item = i32> {
        let own = std::process::id().cast_signed();
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(move |&pid| pid != own && self.has(Path::new(&format!("/proc/{pid}/fdinfo"))))
    }

    fn has(&self, descriptors: &Path) -> bool {
        let all = fs::read_dir(descriptors).into_iter().flatten().flatten();
        all.filter_map(|entry| fs::read_to_string(entry.path()).ok())
            .any(|text| text.lines().filter_map(locked).any(|file| file == self.file))
    }
}

/// A descriptor of another process, with the place in the file that both share; none if the system
/// does not allow it.
fn descriptor(pid: i32, number: i32) -> Option<File> {
    let process = pidfd_open(process::Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, number, PidfdGetfdFlags::empty()).ok().map(File::from)
}

/// Opening a pipe without a reader, or writing to a full one, must not block.
fn open_without_waiting(path: &str) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = flags.bits().cast_signed();
    File::options().append(true).custom_flags(flags).open(path)
}

/// The file of an exclusive flock: `lock: 1: FLOCK  ADVISORY  WRITE 7 fe:00:42 0 EOF`.
fn locked(line: &str) -> Option<String> {
    let mut words = line.strip_prefix("lock:")?.split_ascii_whitespace().skip(1);
    let kind = (words.next()?, words.next()?, words.next()?);
    (kind == ("FLOCK", "ADVISORY", "WRITE")).then(|| words.nth(1).map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::locked;

    #[test]
    fn only_an_exclusive_flock_names_its_file() {
        let line = "lock:\t1: FLOCK  ADVISORY  WRITE 13691 fe:00:10010657 0 EOF";
        assert_eq!(locked(line).as_deref(), Some("fe:00:10010657"));
        for other in [
            "pos:\t0",
            "lock:\t1: FLOCK  ADVISORY  READ 13691 fe:00:10010657 0 EOF",
            "lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:10010657 0 EOF",
            "lock:",
        ] {
            assert_eq!(locked(other), None, "{other}");
        }
    }
}

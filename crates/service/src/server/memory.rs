//! What must survive the death of the node's process: how long leases may be that are out there.
//!
//! It is written before a grant is told, but not forced to the disk: the system keeps it when the
//! process dies, and when the machine dies, so does everybody who was inside on it. The file says
//! which start of the machine it belongs to.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

pub(super) struct Memory {
    path: PathBuf,
    boot: String,
}

impl Memory {
    /// The memory in this directory, and the longest lease that may be out there. Clients on other
    /// machines outlive this one, so `remote` looks at no start of it.
    pub(super) fn open(directory: &Path, remote: bool) -> (Self, Option<Duration>) {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let memory = Self { path: directory.join("leases"), boot: boot.trim().to_owned() };
        let longest = memory.read(remote);
        (memory, longest)
    }

    fn read(&self, remote: bool) -> Option<Duration> {
        let text = fs::read_to_string(&self.path).ok()?;
        let mut words = text.split_ascii_whitespace();
        let millis = words.next()?.parse().ok()?;
        let same_start = words.next() == Some(&self.boot) || self.boot.is_empty();
        (millis > 0 && (remote || same_start)).then(|| Duration::from_millis(millis))
    }

    /// Remembers a longest lease; zero: nobody is inside.
    pub(super) fn write(&self, longest: Duration) {
        // Rounded up: who remembers too little lets in too early.
        let millis = longest.as_nanos().div_ceil(1_000_000);
        let mut options = fs::OpenOptions::new();
        let file = options.create(true).write(true).truncate(true).mode(0o600).open(&self.path);
        let written = file.and_then(|mut file| writeln!(file, "{millis} {}", self.boot));
        if let Err(error) = written {
            eprintln!("mutua: {} cannot be written: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Memory;

    #[test]
    fn what_was_written_is_known_to_the_next_life_of_the_node() {
        let place = tempfile::tempdir().expect("a directory");
        let (memory, longest) = Memory::open(place.path(), false);
        assert_eq!(longest, None);
        memory.write(Duration::from_micros(2_500_001));
        let (memory, longest) = Memory::open(place.path(), false);
        assert_eq!(longest, Some(Duration::from_millis(2501)));
        memory.write(Duration::ZERO);
        assert_eq!(Memory::open(place.path(), false).1, None);
    }

    #[test]
    fn another_start_of_the_machine_left_nobody_on_it_but_perhaps_elsewhere() {
        let place = tempfile::tempdir().expect("a directory");
        std::fs::write(place.path().join("leases"), "700 another-start\n").expect("written");
        assert_eq!(Memory::open(place.path(), false).1, None);
        let elsewhere = Memory::open(place.path(), true).1;
        assert_eq!(elsewhere, Some(Duration::from_millis(700)));
    }
}

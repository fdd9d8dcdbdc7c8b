//! What must survive the death of the node's process: how long leases may be that are out there.
//!
//! It is written before a grant is told, but not forced to the disk: the system keeps it when the
//! process dies, and when the machine dies, so does everybody who was inside on it. The record says
//! which start of the machine it belongs to. It has one length and is written over in place, so
//! that no death of the process leaves less than a whole one, and a full disk keeps none out.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::Duration,
};

pub(super) struct Memory {
    file: File,
    boot: String,
}

impl Memory {
    /// The memory in this directory, and the longest lease that may be out there: one that is
    /// written there, or `marked`. Clients on other machines outlive this one, so `remote` looks at
    /// no start of it.
    ///
    /// # Errors
    ///
    /// If it cannot be read or made: nothing may be granted then.
    pub(super) fn open(
        directory: &Path,
        remote: bool,
        marked: Option<Duration>,
    ) -> io::Result<(Self, Option<Duration>)> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let (file, text) = super::record(&directory.join("leases"))?;
        let memory = Self { file, boot: boot.trim().to_owned() };
        let longest = memory.read(&text, remote).max(marked);
        // Written once here, it has its room on the disk.
        memory.write(longest.unwrap_or_default())?;
        Ok((memory, longest))
    }

    fn read(&self, text: &str, remote: bool) -> Option<Duration> {
        let mut words = text.split_ascii_whitespace();
        let millis = words.next()?.parse().ok()?;
        let same_start = words.next() == Some(&self.boot) || self.boot.is_empty();
        (millis > 0 && (remote || same_start)).then(|| Duration::from_millis(millis))
    }

    /// Remembers a longest lease; zero: nobody is inside.
    ///
    /// # Errors
    ///
    /// If it cannot be written: nothing may be granted then.
    pub(super) fn write(&self, longest: Duration) -> io::Result<()> {
        // Rounded up: who remembers too little lets in too early.
        let millis = longest.as_nanos().div_ceil(1_000_000).min(u128::from(u64::MAX));
        let record = format!("{millis:020} {:36}\n", self.boot);
        self.file.write_all_at(record.as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::Memory;

    fn open(place: &Path, remote: bool) -> (Memory, Option<Duration>) {
        Memory::open(place, remote, None).expect("opened")
    }

    #[test]
    fn who_left_a_mark_is_remembered_though_nothing_was_written() {
        let place = tempfile::tempdir().expect("a directory");
        let marked = Some(Duration::from_secs(3));
        assert_eq!(Memory::open(place.path(), false, marked).expect("opened").1, marked);
        assert_eq!(open(place.path(), false).1, marked);
    }

    #[test]
    fn what_was_written_is_known_to_the_next_life_of_the_node() {
        let place = tempfile::tempdir().expect("a directory");
        let (memory, longest) = open(place.path(), false);
        assert_eq!(longest, None);
        memory.write(Duration::from_micros(2_500_001)).expect("written");
        let (memory, longest) = open(place.path(), false);
        assert_eq!(longest, Some(Duration::from_millis(2501)));
        memory.write(Duration::ZERO).expect("written");
        assert_eq!(open(place.path(), false).1, None);
    }

    #[test]
    fn every_record_has_the_same_length() {
        let place = tempfile::tempdir().expect("a directory");
        let (memory, _) = open(place.path(), false);
        let length = || memory.file.metadata().expect("known").len();
        let first = length();
        for longest in [Duration::MAX, Duration::from_secs(9_000_000_000), Duration::ZERO] {
            memory.write(longest).expect("written");
            assert_eq!(length(), first, "a shorter one would leave the end of a longer one");
        }
    }

    #[test]
    fn another_start_of_the_machine_left_nobody_on_it_but_perhaps_elsewhere() {
        let place = tempfile::tempdir().expect("a directory");
        let write = || std::fs::write(place.path().join("leases"), "700 another-start\n");
        write().expect("written");
        assert_eq!(open(place.path(), false).1, None);
        write().expect("written");
        assert_eq!(open(place.path(), true).1, Some(Duration::from_millis(700)));
    }
}

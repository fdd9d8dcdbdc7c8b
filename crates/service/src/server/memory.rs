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

use crate::Moment;

pub(super) struct Memory {
    file: File,
    boot: String,
}

/// What is written down.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    /// The longest lease that somebody may be inside with; zero: nobody is.
    pub(crate) longest: Duration,
    /// When the last of them runs out. The first moment: that is not known, since they are renewed.
    pub(crate) until: Moment,
}

impl Record {
    /// For how long somebody may be inside whom a node that starts now does not know.
    pub(crate) fn quarantine(self, now: Moment) -> Option<Duration> {
        let rest = match self.until {
            Moment::ZERO => self.longest,
            until => until.since(now),
        };
        (rest > Duration::ZERO).then_some(rest)
    }

    /// What is to be written down while nobody new is let in: who starts again meanwhile need not
    /// wait for longer.
    pub(crate) fn of_quarantine(now: Moment, quarantine: Option<Duration>) -> Self {
        quarantine.map_or_else(Self::default, |rest| Self { longest: rest, until: now.after(rest) })
    }
}

impl Memory {
    /// The memory in this directory, and for how long somebody may still be inside: with a lease
    /// that is written there, or one that is `marked`. Clients on other machines outlive this one,
    /// so `remote` looks at no start of it.
    ///
    /// # Errors
    ///
    /// If it cannot be read or made: nothing may be granted then.
    pub(super) fn open(
        directory: &Path,
        now: Moment,
        remote: bool,
        marked: Option<Duration>,
    ) -> io::Result<(Self, Option<Duration>)> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let (file, text) = super::record(&directory.join("leases"))?;
        let memory = Self { file, boot: boot.trim().to_owned() };
        let record = memory.read(&text, remote).unwrap_or_default();
        let quarantine = record.quarantine(now).max(marked);
        // Written once here, it has its room on the disk.
        memory.write_record(Record::of_quarantine(now, quarantine))?;
        Ok((memory, quarantine))
    }

    fn read(&self, text: &str, remote: bool) -> Option<Record> {
        let mut words = text.split_ascii_whitespace();
        let longest = Duration::from_millis(words.next()?.parse().ok()?);
        if words.next() == Some(&self.boot) {
            let millis = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            let until = Moment::ZERO.after(Duration::from_millis(millis));
            return Some(Record { longest, until });
        }
        // The clock of another start is another clock.
        (remote || self.boot.is_empty()).then_some(Record { longest, until: Moment::ZERO })
    }

    /// Remembers the longest lease of those who are inside; zero: nobody is.
    ///
    /// # Errors
    ///
    /// If it cannot be written: nothing may be granted then.
    pub(super) fn write(&self, longest: Duration) -> io::Result<()> {
        self.write_record(Record { longest, until: Moment::ZERO })
    }

    fn write_record(&self, Record { longest, until }: Record) -> io::Result<()> {
        let (longest, until) = (millis(longest), millis(until.since(Moment::ZERO)));
        let record = format!("{longest:020} {:36} {until:020}\n", self.boot);
        self.file.write_all_at(record.as_bytes(), 0)
    }
}

/// Rounded up: who remembers too little lets in too early.
fn millis(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000_000).min(u128::from(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::Memory;
    use crate::Moment;

    const NOW: Moment = Moment::from_nanos(5_000_000_000);

    fn open(place: &Path, remote: bool) -> (Memory, Option<Duration>) {
        Memory::open(place, NOW, remote, None).expect("opened")
    }

    #[test]
    fn who_left_a_mark_is_remembered_though_nothing_was_written() {
        let place = tempfile::tempdir().expect("a directory");
        let marked = Some(Duration::from_secs(3));
        assert_eq!(Memory::open(place.path(), NOW, false, marked).expect("opened").1, marked);
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
    fn who_starts_again_and_again_waits_no_longer_than_who_started_first() {
        let place = tempfile::tempdir().expect("a directory");
        let at = |seconds| {
            let now = NOW.after(Duration::from_secs(seconds));
            Memory::open(place.path(), now, false, None).expect("opened")
        };
        at(0).0.write(Duration::from_secs(600)).expect("written");
        assert_eq!(at(10).1, Some(Duration::from_secs(600)));
        let (memory, rest) = at(510);
        assert_eq!(rest, Some(Duration::from_secs(100)));
        // Somebody has claimed, and renews.
        memory.write(Duration::from_secs(600)).expect("written");
        assert_eq!(at(1000).1, Some(Duration::from_secs(600)));
        assert_eq!(at(1600).1, None);
        assert_eq!(at(1601).1, None);
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

//! The record of the longest lease that holders may have. It survives a crash of the node's
//! process.
//!
//! It is written before a grant is sent, but not forced to disk: the system keeps it when the
//! process crashes, and a crash of the machine ends all holders on it too. The record contains the
//! machine's boot. It has a fixed length and is overwritten in place, so a crash of the process
//! leaves no part of it, and it can be written though the disk is full.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::Duration,
};

use crate::Moment;

pub(super) struct LeaseRecord {
    file: File,
    boot: String,
}

/// The contents of the record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    /// The longest lease of a holder; zero: no lock is held.
    pub(crate) longest: Duration,
    /// When the last lease expires. `Moment::ZERO`: unknown, since leases are renewed.
    pub(crate) until: Moment,
}

impl Record {
    /// How long locks may still be held that a node which starts now does not know.
    pub(crate) fn quarantine(self, now: Moment) -> Option<Duration> {
        let rest = match self.until {
            Moment::ZERO => self.longest,
            until => until.since(now),
        };
        (rest > Duration::ZERO).then_some(rest)
    }

    /// The record during a quarantine: a node that restarts meanwhile waits no longer than that.
    pub(crate) fn of_quarantine(now: Moment, quarantine: Option<Duration>) -> Self {
        quarantine.map_or_else(Self::default, |rest| Self { longest: rest, until: now.after(rest) })
    }
}

impl LeaseRecord {
    /// Opens the record in this directory. Also returns how long locks may still be held: by the
    /// record, or by the longest lease that is `marked`. With clients on other machines (`remote`)
    /// a record of another boot counts too.
    ///
    /// # Errors
    ///
    /// If it cannot be read or created: no lock may be granted then.
    pub(super) fn open(
        directory: &Path,
        now: Moment,
        remote: bool,
        marked: Option<Duration>,
    ) -> io::Result<(Self, Option<Duration>)> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let (file, text) = super::open_record(&directory.join("leases"))?;
        let record_file = Self { file, boot: boot.trim().to_owned() };
        let record = record_file.read(&text, remote).unwrap_or_default();
        let quarantine = record.quarantine(now).max(marked);
        // This reserves its space on the disk.
        record_file.write_record(Record::of_quarantine(now, quarantine))?;
        Ok((record_file, quarantine))
    }

    fn read(&self, text: &str, remote: bool) -> Option<Record> {
        let mut words = text.split_ascii_whitespace();
        let longest = Duration::from_millis(words.next()?.parse().ok()?);
        if words.next() == Some(&self.boot) {
            let millis = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            let until = Moment::ZERO.after(Duration::from_millis(millis));
            return Some(Record { longest, until });
        }
        // Moments of another boot are of another clock.
        (remote || self.boot.is_empty()).then_some(Record { longest, until: Moment::ZERO })
    }

    /// Records the longest lease of all holders; zero: no lock is held.
    ///
    /// # Errors
    ///
    /// If it cannot be written: no lock may be granted then.
    pub(super) fn write(&self, longest: Duration) -> io::Result<()> {
        self.write_record(Record { longest, until: Moment::ZERO })
    }

    fn write_record(&self, Record { longest, until }: Record) -> io::Result<()> {
        let (longest, until) = (millis(longest), millis(until.since(Moment::ZERO)));
        let record = format!("{longest:020} {:36} {until:020}\n", self.boot);
        self.file.write_all_at(record.as_bytes(), 0)
    }
}

/// Rounded up: a record that is too short would allow a grant too early.
fn millis(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000_000).min(u128::from(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::LeaseRecord;
    use crate::Moment;

    const NOW: Moment = Moment::from_nanos(5_000_000_000);

    fn open(directory: &Path, remote: bool) -> (LeaseRecord, Option<Duration>) {
        LeaseRecord::open(directory, NOW, remote, None).expect("opened")
    }

    #[test]
    fn a_mark_counts_though_nothing_was_recorded() {
        let directory = tempfile::tempdir().expect("a directory");
        let marked = Some(Duration::from_secs(3));
        assert_eq!(
            LeaseRecord::open(directory.path(), NOW, false, marked).expect("opened").1,
            marked
        );
        assert_eq!(open(directory.path(), false).1, marked);
    }

    #[test]
    fn the_next_incarnation_reads_the_record() {
        let directory = tempfile::tempdir().expect("a directory");
        let (record, longest) = open(directory.path(), false);
        assert_eq!(longest, None);
        record.write(Duration::from_micros(2_500_001)).expect("written");
        let (record, longest) = open(directory.path(), false);
        assert_eq!(longest, Some(Duration::from_millis(2501)));
        record.write(Duration::ZERO).expect("written");
        assert_eq!(open(directory.path(), false).1, None);
    }

    #[test]
    fn a_restart_does_not_prolong_the_quarantine() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |seconds| {
            let now = NOW.after(Duration::from_secs(seconds));
            LeaseRecord::open(directory.path(), now, false, None).expect("opened")
        };
        at(0).0.write(Duration::from_secs(600)).expect("written");
        assert_eq!(at(10).1, Some(Duration::from_secs(600)));
        let (record, rest) = at(510);
        assert_eq!(rest, Some(Duration::from_secs(100)));
        // A client has reclaimed its lock, and renews its lease.
        record.write(Duration::from_secs(600)).expect("written");
        assert_eq!(at(1000).1, Some(Duration::from_secs(600)));
        assert_eq!(at(1600).1, None);
        assert_eq!(at(1601).1, None);
    }

    #[test]
    fn every_record_has_the_same_length() {
        let directory = tempfile::tempdir().expect("a directory");
        let (record, _) = open(directory.path(), false);
        let length = || record.file.metadata().expect("known").len();
        let first = length();
        for longest in [Duration::MAX, crate::LONGEST_LEASE, Duration::ZERO] {
            record.write(longest).expect("written");
            assert_eq!(length(), first, "a shorter one would leave the end of a longer one");
        }
    }

    #[test]
    fn a_record_of_another_boot_counts_for_remote_clients_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = || std::fs::write(directory.path().join("leases"), "700 another-boot\n");
        write().expect("written");
        assert_eq!(open(directory.path(), false).1, None);
        write().expect("written");
        assert_eq!(open(directory.path(), true).1, Some(Duration::from_millis(700)));
    }
}

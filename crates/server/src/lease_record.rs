//! The record of the longest lease that holders may have. It survives a crash of the node's
//! process.
//!
//! It is written before a grant is sent, but not forced to disk: the system keeps it when the
//! process crashes, and a crash of the machine ends all holders on it too. The record contains the
//! machine's boot. It has a fixed length and is overwritten in place, so a crash of the process
//! leaves no part of it, and it can be written though the disk is full.
//!
//! A single node also records each hold (`hold_record.rs`). This record says which file of holds is
//! complete, by its generation. While there is none, as when the disk is full, what is waited for
//! after a crash is the longest lease, for all names.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::Duration,
};

use crate::{
    Moment,
    hold_record::{HoldRecord, HoldRecords, Recorded},
    leases::Name,
    proto::v1,
};

pub(super) struct LeaseRecord {
    file: File,
    boot: String,
    last: Record,
    /// Until when clients may hold locks of which no hold is recorded.
    unknown: Moment,
    /// The generation of the file of holds; 0: there is none.
    generation: u64,
    holds: Option<HoldRecords>,
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

/// How to open the records of a node that starts.
pub(super) struct Opening<'a> {
    pub(super) directory: &'a Path,
    pub(super) now: Moment,
    /// Whether there are clients on other machines: then a record of another boot counts too.
    pub(super) remote: bool,
    /// Whether each hold is recorded here, and not at other members.
    pub(super) with_holds: bool,
    /// The longest lease that can have been granted: it counts where the record is not readable.
    pub(super) bound: Duration,
}

/// What clients of the node's last process may hold.
#[derive(Debug, Default)]
pub(super) struct Unclean {
    /// How long any lock may be held.
    pub(super) any: Option<Duration>,
    /// The locks that are recorded.
    pub(super) holds: Vec<Recorded>,
}

impl LeaseRecord {
    /// Opens the records in a directory. Also returns what may still be held: by the record, and by
    /// the longest lease that is `marked` by a holder whose session is not among those recorded.
    ///
    /// # Errors
    ///
    /// If they cannot be read or created: no lock may be granted then.
    pub(super) fn open(
        opening: &Opening<'_>,
        marked: impl FnOnce(&dyn Fn(i64) -> bool) -> Option<Duration>,
    ) -> io::Result<(Self, Unclean)> {
        let &Opening { directory, now, with_holds, .. } = opening;
        let (file, text) = super::open_record(&directory.join("leases"))?;
        let (last, unknown) = (Record::default(), Moment::ZERO);
        let mut record = Self { file, boot: boot(), last, unknown, generation: 0, holds: None };
        let mut unclean = record.read(&text, opening);
        unclean.holds.retain(|(hold, _)| hold.left(now) > Duration::ZERO);
        for (hold, _) in &mut unclean.holds {
            // From now on it has an end, though the node may crash again.
            hold.until = now.after(hold.left(now));
        }
        let recorded = |session| unclean.holds.iter().any(|(hold, _)| hold.opening.id == session);
        unclean.any = unclean.any.max(marked(&recorded));
        record.unknown = unclean.any.map_or(Moment::ZERO, |rest| now.after(rest));
        if with_holds && !record.boot.is_empty() {
            // If it cannot be made, the longest lease counts.
            let generation = now.nanos().max(1);
            let made = HoldRecords::create(directory, &record.boot, generation, &unclean.holds);
            record.holds = made.ok();
            record.generation = if record.holds.is_some() { generation } else { 0 };
        }
        let holds = unclean.holds.iter().map(|(hold, _)| hold.left(now));
        let longest = holds.chain(unclean.any).max();
        // This reserves its space on the disk.
        record.write_record(Record::of_quarantine(now, longest))?;
        Ok((record, unclean))
    }

    /// What the record says of the node's last process.
    fn read(&self, text: &str, opening: &Opening<'_>) -> Unclean {
        let &Opening { directory, now, remote, with_holds, bound } = opening;
        if text.is_empty() {
            return Unclean::default();
        }
        let unreadable = Unclean { any: Some(bound), holds: Vec::new() };
        let Some(Words { longest, boot, until, generation, unknown }) = Words::read(text) else {
            return unreadable;
        };
        if boot != self.boot || boot.is_empty() {
            // Its moments are of another clock. A start of the machine has ended all clients on it.
            let unknown = boot.is_empty() || self.boot.is_empty();
            let same = unknown || machine_of(boot) == machine_of(&self.boot);
            let counts = (remote || same) && longest > Duration::ZERO;
            return Unclean { any: counts.then_some(longest), holds: Vec::new() };
        }
        let holds = match generation {
            0 => None,
            generation if with_holds => HoldRecords::read(directory, boot, generation),
            _ => None,
        };
        match holds {
            Some(holds) => {
                let rest = unknown.since(now);
                Unclean { any: (rest > Duration::ZERO).then_some(rest), holds }
            }
            None => Unclean { any: Record { longest, until }.quarantine(now), holds: Vec::new() },
        }
    }

    /// Records the longest lease of all holders; zero: no lock is held.
    ///
    /// # Errors
    ///
    /// If it cannot be written: no lock may be granted then.
    pub(super) fn write(&mut self, longest: Duration) -> io::Result<()> {
        self.write_record(Record { longest, until: Moment::ZERO })
    }

    /// Records the hold of a client, before the client is informed.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub(super) fn write_hold(
        &mut self,
        hold: &HoldRecord,
        key: Option<v1::RecordedKey>,
    ) -> io::Result<()> {
        let written = self.holds.as_mut().map_or(Ok(()), |holds| holds.write(hold, key));
        self.or_without_holds(written)
    }

    /// The hold of a name is over.
    ///
    /// # Errors
    ///
    /// As for [`write`](Self::write).
    pub(super) fn remove_hold(&mut self, name: &Name) -> io::Result<()> {
        let removed = self.holds.as_mut().map_or(Ok(()), |holds| holds.remove(name));
        self.or_without_holds(removed)
    }

    /// If a hold cannot be recorded, none counts any more: the longest lease does, and it is
    /// recorded in its own place.
    fn or_without_holds(&mut self, written: io::Result<()>) -> io::Result<()> {
        let Err(error) = written else { return Ok(()) };
        tracing::warn!(
            "a hold cannot be recorded ({error}): after a crash the node would wait for the \
             longest lease, for all names"
        );
        (self.holds, self.generation) = (None, 0);
        self.write_record(self.last)
    }

    /// Makes the file of holds one that cannot be written, as a full disk does.
    #[cfg(test)]
    pub(super) fn break_holds(&mut self, directory: &Path) {
        let file = File::open(directory.join("holds")).expect("there");
        self.holds.as_mut().expect("there").replace_file(file);
    }

    fn write_record(&mut self, record: Record) -> io::Result<()> {
        let words = Words {
            longest: record.longest,
            boot: &self.boot,
            until: record.until,
            generation: self.generation,
            unknown: self.unknown,
        };
        self.file.write_all_at(words.text().as_bytes(), 0)?;
        self.last = record;
        Ok(())
    }
}

/// The words of the record.
struct Words<'a> {
    longest: Duration,
    boot: &'a str,
    until: Moment,
    generation: u64,
    unknown: Moment,
}

impl<'a> Words<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let longest = Duration::from_millis(words.next()?.parse().ok()?);
        let boot = words.next().unwrap_or_default();
        let mut next = || words.next().map_or(Some(0), |word| word.parse::<u64>().ok());
        let moment = |millis| Moment::ZERO.after(Duration::from_millis(millis));
        let (until, generation, unknown) = (moment(next()?), next()?, moment(next()?));
        Some(Self { longest, boot, until, generation, unknown })
    }

    fn text(&self) -> String {
        let Self { longest, boot, until, generation, unknown } = self;
        let moment = |moment: &Moment| millis(moment.since(Moment::ZERO));
        let (longest, until, unknown) = (millis(*longest), moment(until), moment(unknown));
        format!("{longest:020} {boot:WIDTH$} {until:020} {generation:020} {unknown:020}\n")
    }
}

/// What a boot is called, at most.
pub(super) const WIDTH: usize = 64;

/// The machine's boot and, behind a slash, how far the clock of this process is ahead of the
/// machine's: a container can be started again with another clock. Empty if it is not known.
fn boot() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // Kernels without namespaces for clocks have no such file.
    let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let ahead = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
    let ahead: Vec<_> = ahead.unwrap_or("0 0").split_ascii_whitespace().collect();
    match boot.trim() {
        "" => String::new(),
        boot => format!("{boot}/{}", ahead.join(".")),
    }
}

/// The part of a boot that is the machine's.
fn machine_of(boot: &str) -> &str {
    boot.split_once('/').map_or(boot, |(machine, _)| machine)
}

/// Rounded up: a record that is too short would allow a grant too early.
fn millis(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000_000).min(u128::from(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::{LeaseRecord, Opening, Record};
    use crate::Moment;

    const NOW: Moment = Moment::from_nanos(5_000_000_000);
    const BOUND: Duration = Duration::from_secs(600);

    fn open_at(
        directory: &Path,
        now: Moment,
        remote: bool,
        marked: Option<Duration>,
    ) -> (LeaseRecord, Option<Duration>) {
        // As a member of a cluster: only the longest lease is recorded.
        let opening = Opening { directory, now, remote, with_holds: false, bound: BOUND };
        let (record, unclean) = LeaseRecord::open(&opening, |_| marked).expect("opened");
        assert_eq!(unclean.holds, []);
        (record, unclean.any)
    }

    fn open(directory: &Path, remote: bool) -> (LeaseRecord, Option<Duration>) {
        open_at(directory, NOW, remote, None)
    }

    #[test]
    fn a_mark_counts_though_nothing_was_recorded() {
        let directory = tempfile::tempdir().expect("a directory");
        let marked = Some(Duration::from_secs(3));
        assert_eq!(open_at(directory.path(), NOW, false, marked).1, marked);
        assert_eq!(open(directory.path(), false).1, marked);
    }

    #[test]
    fn the_next_incarnation_reads_the_record() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut record, longest) = open(directory.path(), false);
        assert_eq!(longest, None);
        record.write(Duration::from_micros(2_500_001)).expect("written");
        let (mut record, longest) = open(directory.path(), false);
        assert_eq!(longest, Some(Duration::from_millis(2501)));
        record.write(Duration::ZERO).expect("written");
        assert_eq!(open(directory.path(), false).1, None);
    }

    #[test]
    fn a_restart_does_not_prolong_the_quarantine() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |seconds| {
            let now = NOW.after(Duration::from_secs(seconds));
            open_at(directory.path(), now, false, None)
        };
        at(0).0.write(Duration::from_secs(600)).expect("written");
        assert_eq!(at(10).1, Some(Duration::from_secs(600)));
        let (mut record, rest) = at(510);
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
        let (mut record, _) = open(directory.path(), false);
        let length = |record: &LeaseRecord| record.file.metadata().expect("known").len();
        let first = length(&record);
        for longest in [Duration::MAX, crate::LONGEST_LEASE, Duration::ZERO] {
            record.write(longest).expect("written");
            assert_eq!(length(&record), first, "a shorter one would leave the end of a longer one");
        }
    }

    #[test]
    fn a_record_of_the_same_boot_and_another_clock_counts_for_its_whole_length() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut record, _) = open(directory.path(), false);
        // What it says of moments is of no use: they may be far ahead of this clock.
        let until = NOW.after(Duration::from_secs(1_000_000));
        record.boot = format!("{}/1000.0", super::machine_of(&record.boot));
        let written = Record { longest: Duration::from_secs(3), until };
        record.write_record(written).expect("written");
        assert_eq!(open(directory.path(), false).1, Some(Duration::from_secs(3)));
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

    #[test]
    fn a_record_that_is_not_readable_counts_as_the_longest_lease() {
        let directory = tempfile::tempdir().expect("a directory");
        for text in ["x", "5 boot x", "12 "] {
            std::fs::write(directory.path().join("leases"), text).expect("written");
            // Without a boot it may be of this one.
            let short = Some(Duration::from_millis(12));
            let expected = if text == "12 " { short } else { Some(BOUND) };
            assert_eq!(open(directory.path(), false).1, expected, "{text:?}");
        }
    }
}

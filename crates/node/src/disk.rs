//! What a node keeps on disk: the epoch of its last view, and a lock on the directory itself.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// An epoch has 23 bits.
const EPOCHS: u32 = 1 << 23;
/// The digits of an epoch on disk: always as many, so that one can be written over another.
const WIDTH: usize = 10;

/// A node's directory, which no other process has open.
#[derive(Debug)]
pub(crate) struct Disk {
    directory: PathBuf,
    /// The epoch that is there: views may follow each other faster than the disk does, and two
    /// writers at once must leave the later one.
    written: Mutex<u32>,
    /// Held as long as the node lives; the kernel lets it go when the process dies.
    _lock: File,
}

/// Why a node cannot use its directory. Nothing else was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// It cannot be read or written.
    #[error("the node's directory {path} cannot be used: {error}")]
    Unusable {
        /// Which directory or file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Another process uses it.
    #[error("another node runs in {path}; end it, or give this one a directory of its own")]
    InUse {
        /// Which directory.
        path: PathBuf,
    },
    /// The epoch in it is no epoch.
    #[error(
        "{path} should hold the epoch of the last view, a number below {EPOCHS}; it holds `{text}`"
    )]
    Epoch {
        /// Which file.
        path: PathBuf,
        /// What is in it.
        text: String,
    },
}

impl Disk {
    /// Opens the directory, makes it if need be, and tries whether it can be written: who cannot
    /// write the epoch must not grant anything.
    pub(crate) fn open(directory: &Path) -> Result<(Self, u32), DiskError> {
        let unusable = |path: &Path| {
            let path = path.to_owned();
            move |error| DiskError::Unusable { path, error }
        };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory).map_err(unusable(directory))?;
        let lock_path = directory.join("lock");
        let lock = private().open(&lock_path).map_err(unusable(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(DiskError::InUse { path: directory.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(&lock_path)(error)),
        }
        let directory = directory.to_owned();
        let disk = Self { directory, written: Mutex::new(0), _lock: lock };
        let epoch = disk.read_epoch()?;
        disk.write_epoch(epoch).map_err(unusable(&disk.epoch_path()))?;
        Ok((disk, epoch))
    }

    /// Where clients of this machine find the node.
    pub(crate) fn socket_path(directory: &Path) -> PathBuf {
        directory.join("node.sock")
    }

    fn epoch_path(&self) -> PathBuf {
        self.directory.join("epoch")
    }

    fn read_epoch(&self) -> Result<u32, DiskError> {
        let path = self.epoch_path();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(DiskError::Unusable { path, error }),
        };
        match text.trim().parse() {
            Ok(epoch) if epoch < EPOCHS => Ok(epoch),
            Ok(_) | Err(_) => Err(DiskError::Epoch { path, text: text.trim().to_owned() }),
        }
    }

    /// Writes the epoch for good: whatever happens after this returns, it or a later one is there.
    pub(crate) fn write_epoch(&self, epoch: u32) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written > epoch {
            return Ok(());
        }
        let record = format!("{epoch:0WIDTH$}\n");
        match self.replace(&record) {
            Err(error) if is_full(&error) => self.overwrite(&record).map_err(|_| error)?,
            replaced => replaced?,
        }
        *written = epoch;
        Ok(())
    }

    /// Writes a new file and moves it into the place of the old one, so that a whole one is there
    /// whatever happens.
    fn replace(&self, record: &str) -> io::Result<()> {
        let new = self.directory.join("epoch.new");
        let written = private().truncate(true).open(&new).and_then(|mut file| {
            file.write_all(record.as_bytes())?;
            file.sync_all()
        });
        if let Err(error) = written {
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        fs::rename(&new, self.epoch_path())?;
        // The name too must survive.
        File::open(&self.directory)?.sync_all()
    }

    /// Where there is no room for a new file, the old one is written over: it has its room. Few
    /// bytes in one sector are there whole or not at all.
    fn overwrite(&self, record: &str) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.epoch_path())?;
        file.write_all_at(record.as_bytes(), 0)?;
        file.sync_all()
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_there_after_a_restart_and_two_nodes_never_share_a_directory() {
        let place = tempfile::tempdir().expect("a directory");
        let (disk, epoch) = Disk::open(place.path()).expect("a disk");
        assert_eq!(epoch, 0);
        disk.write_epoch(7).expect("written");
        disk.write_epoch(6).expect("a later one is there");
        let again = Disk::open(place.path());
        assert!(matches!(again, Err(DiskError::InUse { .. })), "{again:?}");
        drop(disk);
        assert_eq!(Disk::open(place.path()).expect("a disk").1, 7);
    }

    #[test]
    fn an_epoch_is_written_over_an_older_one_of_any_length() {
        let place = tempfile::tempdir().expect("a directory");
        for before in ["7\n", "8388607\n", "0000000007\n"] {
            fs::write(place.path().join("epoch"), before).expect("written");
            let (disk, _) = Disk::open(place.path()).expect("a disk");
            fs::write(place.path().join("epoch"), before).expect("written");
            disk.overwrite("0000000012\n").expect("written");
            drop(disk);
            assert_eq!(Disk::open(place.path()).expect("a disk").1, 12);
        }
    }

    #[test]
    fn what_cannot_be_written_or_read_is_refused_with_the_reason() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("file");
        fs::write(&file, "").expect("written");
        let refused = Disk::open(&file.join("data")).expect_err("a file is no directory");
        assert!(refused.to_string().contains("cannot be used"), "{refused}");
        fs::write(place.path().join("epoch"), "many").expect("written");
        let refused = Disk::open(place.path()).expect_err("no epoch");
        assert!(refused.to_string().contains("it holds `many`"), "{refused}");
    }
}

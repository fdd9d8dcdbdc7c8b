//! The epoch of the last view on disk, and a lock on the directory itself, in it and beside it
//! (`mutua_host::kernel_name`).

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::{
        fs::{DirBuilderExt, FileExt, OpenOptionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use mutua_algorithms::Time;
use mutua_host::kernel_name;

/// The digits of an epoch on disk: always as many, so that one can overwrite another.
const WIDTH: usize = 10;

/// A node's directory, open in no other process.
#[derive(Debug)]
pub(crate) struct Disk {
    directory: PathBuf,
    /// The epoch on disk: views may follow each other faster than the disk writes, and of two
    /// concurrent writers the later epoch must remain.
    written: Mutex<u32>,
    /// Held as long as the node runs; the kernel releases it when the process ends.
    _lock: File,
    /// The same for the path: a file lock disappears with the directory that it is in.
    _name: UnixListener,
}

/// Why a node cannot use its directory. Nothing else was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// It cannot be read or written.
    #[error("cannot use the data directory {path}: {error}")]
    Unusable {
        /// The directory or file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another process uses it.
    #[error(
        "another node{} uses the data directory {path}: stop it, or give this one \
         another directory",
        kernel_name::in_words(*process)
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process, if it is known.
        process: Option<u32>,
    },
    /// The epoch in it is invalid.
    #[error("invalid epoch `{text}` in {path}: it must be a number below {}", Time::EPOCHS)]
    Epoch {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
    },
}

impl Disk {
    /// Opens the directory, creates it if needed, and tries to write to it: a node that cannot
    /// write the epoch must not grant a lock.
    pub(crate) fn open(directory: &Path) -> Result<(Self, u32), DiskError> {
        let unusable = |path: &Path| {
            let path = path.to_owned();
            move |error| DiskError::Unusable { path, error }
        };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory).map_err(unusable(directory))?;
        let name = kernel_name::of_path("data:", directory);
        let in_use = || {
            let process = kernel_name::owner_of(&name);
            DiskError::InUse { path: directory.to_owned(), process }
        };
        let owned = kernel_name::own(&name).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => in_use(),
            _ => unusable(directory)(error),
        })?;
        let lock_path = directory.join("lock");
        let lock = private().open(&lock_path).map_err(unusable(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(error)) => return Err(unusable(&lock_path)(error)),
        }
        let directory = directory.to_owned();
        let disk = Self { directory, written: Mutex::new(0), _lock: lock, _name: owned };
        let epoch = disk.read_epoch()?;
        disk.write_epoch(epoch).map_err(unusable(&disk.epoch_path()))?;
        Ok((disk, epoch))
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
            Ok(epoch) if epoch < Time::EPOCHS => Ok(epoch),
            Ok(_) | Err(_) => Err(DiskError::Epoch { path, text: text.trim().to_owned() }),
        }
    }

    /// Writes the epoch durably: after this returns, it or a later one is on disk.
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

    /// Writes a new file and renames it, so that a whole file is there at any time.
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
        // The rename must be durable too.
        File::open(&self.directory)?.sync_all()
    }

    /// On a full disk the old file is overwritten: it has its blocks. A few bytes in one sector are
    /// written whole or not at all.
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
    fn an_epoch_survives_a_restart_and_two_nodes_never_share_a_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let (disk, epoch) = Disk::open(directory.path()).expect("a disk");
        assert_eq!(epoch, 0);
        disk.write_epoch(7).expect("written");
        disk.write_epoch(6).expect("a later one is on disk");
        let again = Disk::open(directory.path());
        assert!(matches!(again, Err(DiskError::InUse { .. })), "{again:?}");
        drop(disk);
        assert_eq!(Disk::open(directory.path()).expect("a disk").1, 7);
    }

    #[test]
    fn a_directory_that_was_removed_is_not_opened_again_while_its_node_runs() {
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().join("data");
        let (disk, _) = Disk::open(&data).expect("a disk");
        fs::remove_dir_all(&data).expect("removed");
        let refused = Disk::open(&data).expect_err("its node runs").to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(disk);
        Disk::open(&data).expect("its node has stopped");
    }

    #[test]
    fn an_epoch_is_written_over_an_older_one_of_any_length() {
        let directory = tempfile::tempdir().expect("a directory");
        for before in ["7\n", "8388607\n", "0000000007\n"] {
            fs::write(directory.path().join("epoch"), before).expect("written");
            let (disk, _) = Disk::open(directory.path()).expect("a disk");
            fs::write(directory.path().join("epoch"), before).expect("written");
            disk.overwrite("0000000012\n").expect("written");
            drop(disk);
            assert_eq!(Disk::open(directory.path()).expect("a disk").1, 12);
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_or_read_is_refused_with_the_reason() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        fs::write(&file, "").expect("written");
        let refused = Disk::open(&file.join("data")).expect_err("a file in its path");
        assert!(refused.to_string().contains("cannot use the data directory"), "{refused}");
        fs::write(directory.path().join("epoch"), "many").expect("written");
        let refused = Disk::open(directory.path()).expect_err("an invalid epoch");
        assert!(refused.to_string().contains("invalid epoch `many`"), "{refused}");
    }
}

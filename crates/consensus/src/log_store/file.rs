//! The disk, and the two ways in which the log store writes: append to the log, and replace a
//! small file as a whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::error::StoreError;

/// The few operations on a directory that the log store needs. [`Directory`] is the real one;
/// tests have one that fails and forgets.
pub trait Disk: Send + 'static {
    /// Return a file's contents, or `None` if it does not exist.
    fn read(&mut self, file: &str) -> io::Result<Option<Vec<u8>>>;

    /// Create a file, or replace its contents. Not durable before [`Disk::sync`].
    fn write(&mut self, file: &str, contents: &[u8]) -> io::Result<()>;

    /// Append to a file that exists. Not durable before [`Disk::sync`].
    fn append(&mut self, file: &str, bytes: &[u8]) -> io::Result<()>;

    /// Make a file's contents durable.
    fn sync(&mut self, file: &str) -> io::Result<()>;

    /// Rename a file over another, atomically. Not durable before [`Disk::sync_directory`].
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;

    /// Make names durable.
    fn sync_directory(&mut self) -> io::Result<()>;
}

/// A directory of the file system.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The file that was appended to last stays open.
    open: Option<(String, File)>,
}

impl Directory {
    /// Use a directory, which is created if it does not exist. One engine at a time may use it;
    /// that is for the caller to ensure.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Directory> {
        let path = path.into();
        let missing = path.ancestors().take_while(|it| !it.is_dir() && !it.as_os_str().is_empty());
        let parents: Vec<PathBuf> = missing.filter_map(|it| it.parent()).map(parent).collect();
        fs::create_dir_all(&path)?;
        for parent in parents {
            File::open(parent)?.sync_all()?;
        }
        Ok(Directory { path, open: None })
    }

    fn handle(&mut self, file: &str) -> io::Result<&mut File> {
        if self.open.as_ref().is_none_or(|(name, _)| name != file) {
            let handle = OpenOptions::new().append(true).open(self.path.join(file))?;
            self.open = Some((file.to_owned(), handle));
        }
        Ok(&mut self.open.as_mut().expect("just opened").1)
    }
}

/// A parent as something to open: that of a bare name is the current directory.
fn parent(parent: &Path) -> PathBuf {
    if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() }
}

impl Disk for Directory {
    fn read(&mut self, file: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path.join(file)) {
            Ok(contents) => Ok(Some(contents)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, file: &str, contents: &[u8]) -> io::Result<()> {
        self.open = None;
        let mut handle = File::create(self.path.join(file))?;
        handle.write_all(contents)?;
        // The same handle is synced: an error of writing back is reported to it for certain.
        self.open = Some((file.to_owned(), handle));
        Ok(())
    }

    fn append(&mut self, file: &str, bytes: &[u8]) -> io::Result<()> {
        self.handle(file)?.write_all(bytes)
    }

    fn sync(&mut self, file: &str) -> io::Result<()> {
        self.handle(file)?.sync_data()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.open = None;
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// A disk whose writes are durable when they return, or never return well again.
pub(crate) struct Files {
    disk: Box<dyn Disk>,
    /// A write failed. What it left behind is unknown, and the pages may count as clean although
    /// they are not on the disk, so that another fsync would succeed and mean nothing.
    failed: bool,
}

impl Files {
    pub(crate) fn new(disk: Box<dyn Disk>) -> Files {
        Files { disk, failed: false }
    }

    pub(crate) fn read(&mut self, file: &'static str) -> Result<Option<Vec<u8>>, StoreError> {
        self.disk.read(file).map_err(|source| io_error("read", file, source))
    }

    /// Append a frame to a file, durably.
    pub(crate) fn append(&mut self, file: &'static str, frame: &[u8]) -> Result<(), StoreError> {
        self.write(|disk| {
            disk.append(file, frame).map_err(|source| io_error("append to", file, source))?;
            disk.sync(file).map_err(|source| io_error("sync", file, source))
        })
    }

    /// Replace a file, durably and atomically: after a crash it is the old one or the new one.
    pub(crate) fn replace(&mut self, file: &'static str, bytes: &[u8]) -> Result<(), StoreError> {
        let new = format!("{file}.new");
        self.write(|disk| {
            disk.write(&new, bytes).map_err(|source| io_error("write", &new, source))?;
            disk.sync(&new).map_err(|source| io_error("sync", &new, source))?;
            disk.rename(&new, file).map_err(|source| io_error("rename", &new, source))?;
            disk.sync_directory().map_err(|source| io_error("sync the directory of", file, source))
        })
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut dyn Disk) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Stopped);
        }
        // Set before the attempt, so that a panic counts as a failure too.
        self.failed = true;
        write(&mut *self.disk)?;
        self.failed = false;
        Ok(())
    }
}

fn io_error(operation: &'static str, file: &str, source: io::Error) -> StoreError {
    StoreError::Io { operation, file: file.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails once, at the given operation.
    struct FailsOnce(u32);

    impl FailsOnce {
        fn operate(&mut self) -> io::Result<()> {
            self.0 = self.0.wrapping_sub(1);
            if self.0 == u32::MAX { Err(io::Error::other("once")) } else { Ok(()) }
        }
    }

    impl Disk for FailsOnce {
        fn read(&mut self, _: &str) -> io::Result<Option<Vec<u8>>> {
            Ok(None)
        }

        fn write(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
            self.operate()
        }

        fn append(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
            self.operate()
        }

        fn sync(&mut self, _: &str) -> io::Result<()> {
            self.operate()
        }

        fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
            self.operate()
        }

        fn sync_directory(&mut self) -> io::Result<()> {
            self.operate()
        }
    }

    #[test]
    fn after_a_failed_write_nothing_is_written() {
        for operation in 0..4 {
            let mut files = Files::new(Box::new(FailsOnce(operation)));
            assert!(matches!(files.replace("file", b""), Err(StoreError::Io { .. })));
            assert!(matches!(files.append("file", b""), Err(StoreError::Stopped)));
            assert!(matches!(files.replace("file", b""), Err(StoreError::Stopped)));
        }
        for operation in 0..2 {
            let mut files = Files::new(Box::new(FailsOnce(operation)));
            assert!(matches!(files.append("file", b""), Err(StoreError::Io { .. })));
            assert!(matches!(files.append("file", b""), Err(StoreError::Stopped)));
        }
    }
}

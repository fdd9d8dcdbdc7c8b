//! A file in memory that holds the number of the contender in the critical section. A contender
//! that enters must find 0, and one that exits must find its own number: this checks mutual
//! exclusion during the run, independently of the lock.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// The file, open.
#[derive(Debug)]
pub(super) struct HolderFile(File);

impl HolderFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        File::options().read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Writes the contender's number; returns whether there was no other holder.
    pub(super) fn enter(&self, me: u64) -> io::Result<bool> {
        let before = self.read()?;
        self.0.write_all_at(&me.to_le_bytes(), 0)?;
        Ok(before == 0)
    }

    /// Clears the file; returns whether no other contender has entered since `enter`.
    pub(super) fn exit(&self, me: u64) -> io::Result<bool> {
        let before = self.read()?;
        self.0.write_all_at(&0_u64.to_le_bytes(), 0)?;
        Ok(before == me)
    }

    fn read(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        // A new file is empty.
        match self.0.read_at(&mut bytes, 0)? {
            8 => Ok(u64::from_le_bytes(bytes)),
            _ => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_contenders_notice_an_overlap() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("holder");
        let (one, other) = (HolderFile::open(&path).unwrap(), HolderFile::open(&path).unwrap());
        assert!(one.enter(1).unwrap());
        assert!(one.exit(1).unwrap());
        assert!(one.enter(1).unwrap());
        assert!(!other.enter(2).unwrap());
        assert!(!one.exit(1).unwrap());
    }
}

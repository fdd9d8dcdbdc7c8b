//! A file in memory that says who is inside. Whoever enters must find it empty, and whoever leaves
//! must find itself: the check goes on during the run, whatever the lock says.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// The file, open.
#[derive(Debug)]
pub(super) struct Board(File);

impl Board {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        File::options().read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Whether nobody was inside.
    pub(super) fn enter(&self, me: u64) -> io::Result<bool> {
        let before = self.read()?;
        self.0.write_all_at(&me.to_le_bytes(), 0)?;
        Ok(before == 0)
    }

    /// Whether nobody came meanwhile.
    pub(super) fn leave(&self, me: u64) -> io::Result<bool> {
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
    fn who_meets_somebody_is_told_and_so_is_who_was_met() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("board");
        let (one, other) = (Board::open(&path).unwrap(), Board::open(&path).unwrap());
        assert!(one.enter(1).unwrap());
        assert!(one.leave(1).unwrap());
        assert!(one.enter(1).unwrap());
        assert!(!other.enter(2).unwrap());
        assert!(!one.leave(1).unwrap());
    }
}

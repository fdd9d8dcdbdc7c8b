//! Records in a file: for each contender how many, then four numbers each.

use std::{fs, io, path::Path};

use anyhow::{Context, Result};

use crate::spec::Record;

/// Writes the records of the contenders of one process.
pub(super) fn write(path: &Path, all: &[Vec<Record>]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for records in all {
        bytes.extend((records.len() as u64).to_le_bytes());
        for record in records {
            for number in [record.requested, record.entered, record.exited, record.fencing_token] {
                bytes.extend(number.to_le_bytes());
            }
        }
    }
    fs::write(path, bytes)
}

/// Reads them again.
pub(crate) fn read(path: &Path) -> Result<Vec<Vec<Record>>> {
    let bytes = fs::read(path).with_context(|| format!("no records in {}", path.display()))?;
    let mut numbers =
        bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight")));
    let mut all = Vec::new();
    while let Some(count) = numbers.next() {
        let mut records = Vec::new();
        for _ in 0..count {
            let mut next = || numbers.next().context("records that end early");
            let (requested, entered, exited, fencing_token) = (next()?, next()?, next()?, next()?);
            records.push(Record { requested, entered, exited, fencing_token });
        }
        all.push(records);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("records");
        let record =
            |n| Record { requested: n, entered: n + 1, exited: n + 2, fencing_token: n + 3 };
        let all = vec![vec![record(1), record(9)], vec![], vec![record(5)]];
        write(&path, &all).unwrap();
        assert_eq!(read(&path).unwrap(), all);
    }
}

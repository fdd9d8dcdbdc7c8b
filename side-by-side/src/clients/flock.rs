//! flock(2) on a file of the machine.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};

/// A file that is open.
#[derive(Debug)]
pub(crate) struct Flock {
    directory: PathBuf,
    file: Option<File>,
}

impl Flock {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), file: None }
    }

    fn call(&self, operation: FlockOperation) -> Result<()> {
        let file = self.file.as_ref().context("no name")?;
        Ok(flock(file, operation)?)
    }
}

impl super::Lock for Flock {
    async fn name(&mut self, name: &str) -> Result<()> {
        let path = self.directory.join(name.replace('/', "-"));
        self.file = Some(File::create(path)?);
        Ok(())
    }

    /// It holds up the whole process, which has nothing else to do.
    async fn lock(&mut self) -> Result<()> {
        self.call(FlockOperation::LockExclusive)
    }

    async fn unlock(&mut self) -> Result<()> {
        self.call(FlockOperation::Unlock)
    }
}

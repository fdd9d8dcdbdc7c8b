//! Files that a command writes: whole, or not at all.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context, Result};

/// Refuses a file that cannot be written, before its content is made. The file itself is not
/// touched, so that a command which fails later leaves none behind and spares an older one.
pub(crate) fn check(file: &Path) -> Result<()> {
    if is_special(file) {
        return Ok(());
    }
    let cannot = || format!("cannot write to `{}`", file.display());
    if file.is_dir() {
        anyhow::bail!("{}: it is a directory", cannot());
    }
    if file.is_file() {
        fs::OpenOptions::new().append(true).open(file).with_context(cannot)?;
        return Ok(());
    }
    let temporary = temporary(file);
    File::create(&temporary).with_context(cannot)?;
    fs::remove_file(&temporary).with_context(cannot)
}

/// Writes a whole file, which replaces an older one; after an error there is no part of it.
pub(crate) fn write(file: &Path, content: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write to `{}`", file.display());
    if is_special(file) || fs::symlink_metadata(file).is_ok_and(|found| found.is_symlink()) {
        return fs::write(file, content).with_context(cannot);
    }
    let temporary = temporary(file);
    let written = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, file));
    written.inspect_err(|_| drop(fs::remove_file(&temporary))).with_context(cannot)
}

/// Whether it is something else than a file, such as a terminal or a pipe: it cannot be replaced.
fn is_special(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// A name beside the file that no other command uses.
fn temporary(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{}", process::id()))
}

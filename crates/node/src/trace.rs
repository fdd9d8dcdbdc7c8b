//! Writes the trace of a lock to a file.

use std::{
    fs::File,
    io::BufWriter,
    path::PathBuf,
    sync::mpsc::{Receiver, channel},
};

use mutua_protocol::TraceLine;
use mutua_trace::{WriteError, Writer};
use tokio::task::JoinSet;

use crate::{StartError, driver::Driver};

/// The trace to write.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// The file; its content is replaced.
    pub file: PathBuf,
    /// The name of the lock; without one, the first that is used.
    pub lock: Option<Vec<u8>>,
}

/// Begins to write; ends with the node.
pub(crate) fn spawn(
    tasks: &mut JoinSet<()>,
    driver: &std::sync::Arc<Driver>,
    config: &TraceConfig,
) -> Result<(), StartError> {
    let path = config.file.clone();
    let file =
        File::create(&path).map_err(|error| StartError::Trace { path: path.clone(), error })?;
    let (sender, lines) = channel();
    driver.call(|core, _| core.trace(config.lock.as_deref(), sender));
    tasks.spawn_blocking(move || {
        if let Err(error) = write(file, &lines) {
            tracing::warn!("{}: {error}; the trace ends here", path.display());
        }
    });
    Ok(())
}

fn write(file: File, lines: &Receiver<TraceLine>) -> Result<(), WriteError> {
    let mut file = Some(BufWriter::new(file));
    let mut writer = None;
    while let Ok(line) = lines.recv() {
        for line in [line].into_iter().chain(lines.try_iter()) {
            match (line, &mut writer) {
                (TraceLine::Header(header), None) => {
                    writer = file.take().map(|file| Writer::new(file, header)).transpose()?;
                }
                (TraceLine::Event(event), Some(writer)) => writer.write(&event)?,
                // A header comes once, and first.
                (TraceLine::Header(_), Some(_)) | (TraceLine::Event(_), None) => {}
            }
        }
        if let Some(writer) = &mut writer {
            writer.flush()?;
        }
    }
    Ok(())
}

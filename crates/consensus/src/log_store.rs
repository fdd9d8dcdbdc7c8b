//! openraft's log storage: the log and the vote, in memory for reading, and on disk.
//!
//! openraft waits for each write before it answers the request that needed it, and writes one thing
//! at a time. Writes and their fsync run on a blocking thread, so that a slow disk does not hold up
//! what else the runtime does. The watcher is called after the fsync and before openraft goes on.

pub(crate) mod file;
mod format;
mod log;
mod open;
pub(crate) mod snapshot;
mod vote;

use std::{
    fmt::Debug,
    io,
    ops::RangeBounds,
    sync::{Arc, Mutex},
};

use openraft::{
    AnyError, LogState, OptionalSend, RaftLogReader, StorageIOError,
    storage::{LogFlushed, RaftLogStorage},
};

use self::{
    file::{Disk, Files},
    log::{LOG, Log},
    snapshot::Snapshot,
};
use crate::{
    config::EngineConfig,
    error::StoreError,
    shared::{Shared, lock},
    types::{Entry, LogId, StorageError, Types, Vote, command},
};

/// A handle; clones share one store.
#[derive(Clone)]
pub(crate) struct LogStore {
    store: Arc<Store>,
    shared: Arc<Shared>,
}

struct Store {
    /// Held while something is written.
    files: Mutex<Files>,
    /// Changed after the change is durable.
    memory: Mutex<Memory>,
}

struct Memory {
    log: Log,
    vote: Option<Vote>,
    snapshot: Option<Snapshot>,
}

impl LogStore {
    /// Open the store, and report its contents to the watcher.
    pub(crate) fn open(
        disk: Box<dyn Disk>,
        config: &EngineConfig,
        shared: Arc<Shared>,
    ) -> Result<LogStore, StoreError> {
        let opened = open::open(disk, config.id, config.origin)?;
        let covered = opened.snapshot.as_ref().and_then(|snapshot| snapshot.meta.last_log_id);
        {
            let mut watcher = shared.watcher();
            if let Some(snapshot) = &opened.snapshot {
                watcher.snapshot_installed(&snapshot.state);
            }
            for entry in opened.log.entries.iter().filter(|entry| Some(entry.log_id) > covered) {
                if let Some(command) = command(entry) {
                    watcher.appended(entry.log_id.index, command);
                }
            }
        }
        let memory = Memory { log: opened.log, vote: opened.vote, snapshot: opened.snapshot };
        let store = Store { files: Mutex::new(opened.files), memory: Mutex::new(memory) };
        Ok(LogStore { store: Arc::new(store), shared })
    }

    /// Whether there is neither a log nor a snapshot.
    pub(crate) fn is_empty(&self) -> bool {
        let memory = lock(&self.store.memory);
        memory.log.is_empty() && memory.snapshot.is_none()
    }

    /// The latest snapshot.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        lock(&self.store.memory).snapshot.clone()
    }

    /// Make a snapshot durable, unless a later one is there already, and return the latest.
    pub(crate) async fn save_snapshot(&self, new: Snapshot) -> Result<Snapshot, StoreError> {
        let store = Arc::clone(&self.store);
        self.blocking(move |files| {
            // One is built while another is installed; the lock on the files keeps them apart.
            let current = lock(&store.memory).snapshot.clone();
            if let Some(current) = current
                && current.meta.last_log_id >= new.meta.last_log_id
            {
                return Ok(current);
            }
            snapshot::save(files, &new)?;
            lock(&store.memory).snapshot = Some(new.clone());
            Ok(new)
        })
        .await
    }

    /// Write on a blocking thread.
    async fn blocking<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut Files) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.store);
        let task = tokio::task::spawn_blocking(move || write(&mut lock(&store.files)));
        let result = task.await.unwrap_or_else(|error| {
            let source = io::Error::other(error);
            Err(StoreError::Io { operation: "write to", file: "the log store".into(), source })
        });
        if let Err(error) = &result {
            self.shared.fail(error);
        }
        result
    }

    /// Replace the whole log.
    async fn replace_log(&self, log: Log) -> Result<(), StorageError> {
        let bytes = log.encode();
        let written = self.blocking(move |files| files.replace(LOG, &bytes)).await;
        written.map_err(|error| StorageIOError::write_logs(AnyError::new(&error)))?;
        lock(&self.store.memory).log = log;
        Ok(())
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        Ok(lock(&self.store.memory).log.range(range))
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let log = &lock(&self.store.memory).log;
        Ok(LogState { last_purged_log_id: log.purged, last_log_id: log.last() })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let vote = *vote;
        let written = self.blocking(move |files| vote::save(files, &vote)).await;
        written.map_err(|error| StorageIOError::write_vote(AnyError::new(&error)))?;
        lock(&self.store.memory).vote = Some(vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(lock(&self.store.memory).vote)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        flushed: LogFlushed<Types>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = Vec::from_iter(entries);
        let frame = log::append_frame(&entries);
        let written = self.blocking(move |files| files.append(LOG, &frame)).await;
        written.map_err(|error| StorageIOError::write_logs(AnyError::new(&error)))?;
        {
            let mut watcher = self.shared.watcher();
            for entry in &entries {
                if let Some(command) = command(entry) {
                    watcher.appended(entry.log_id.index, command);
                }
            }
        }
        lock(&self.store.memory).log.entries.extend(entries);
        flushed.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, since: LogId) -> Result<(), StorageError> {
        let log = lock(&self.store.memory).log.truncated(since.index);
        self.replace_log(log).await?;
        self.shared.watcher().truncated(since.index);
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), StorageError> {
        let log = lock(&self.store.memory).log.purged(upto);
        self.replace_log(log).await
    }
}

//! openraft's state machine: the caller's, with the last applied entry and the voters.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use openraft::{
    AnyError, EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageIOError,
    storage::RaftStateMachine,
};

use crate::{
    interface::StateMachine,
    log_store::{LogStore, snapshot::Snapshot},
    shared::Shared,
    types::{Entry, LogId, SnapshotMeta, StorageError, StoredMembership, Types, command},
};

pub(crate) struct Machine {
    /// Never locked: the mutex makes it `Sync`, as openraft wants it.
    machine: Mutex<Box<dyn StateMachine>>,
    applied: Option<LogId>,
    voters: StoredMembership,
    store: LogStore,
    shared: Arc<Shared>,
}

impl Machine {
    /// Start from the store's snapshot. The entries behind it are applied when a leader reports
    /// that they are decided.
    pub(crate) fn new(
        mut machine: Box<dyn StateMachine>,
        store: LogStore,
        shared: Arc<Shared>,
    ) -> Machine {
        let (mut applied, mut voters) = (None, StoredMembership::default());
        if let Some(snapshot) = store.snapshot() {
            machine.restore(&snapshot.state);
            applied = snapshot.meta.last_log_id;
            voters = snapshot.meta.last_membership;
        }
        Machine { machine: Mutex::new(machine), applied, voters, store, shared }
    }

    fn apply_entry(&mut self, entry: &Entry) {
        self.applied = Some(entry.log_id);
        if let EntryPayload::Membership(voters) = &entry.payload {
            self.voters = StoredMembership::new(Some(entry.log_id), voters.clone());
        }
        if let Some(command) = command(entry) {
            self.machine().apply(command);
            self.shared.watcher().decided(entry.log_id.index, command);
        }
    }

    fn machine(&mut self) -> &mut dyn StateMachine {
        &mut **self.machine.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Turn a panic into an error that ends the engine. openraft runs the state machine in a task
    /// of its own, and would notice its end only at the next command.
    fn checked<T>(&mut self, call: impl FnOnce(&mut Machine) -> T) -> Result<T, Panicked> {
        catch_unwind(AssertUnwindSafe(|| call(self))).map_err(|_| Panicked)
    }
}

/// The state machine or the watcher panicked.
#[derive(Clone, Copy)]
struct Panicked;

impl From<Panicked> for StorageError {
    fn from(_: Panicked) -> StorageError {
        let error = AnyError::error("the state machine or the watcher panicked");
        StorageIOError::write_state_machine(error).into()
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.applied, self.voters.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<()>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter();
        Ok(self.checked(|machine| entries.map(|entry| machine.apply_entry(&entry)).collect())?)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let state = self.checked(|machine| machine.machine().snapshot());
        let id = self.applied.map_or_else(|| "empty".to_owned(), |id| id.to_string());
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.voters.clone(),
            snapshot_id: id,
        };
        let snapshot = state.map(|state| Snapshot { meta, state: Arc::new(state) });
        Builder { snapshot, store: self.store.clone() }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Vec<u8>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        state: Box<Vec<u8>>,
    ) -> Result<(), StorageError> {
        let snapshot = Snapshot { meta: meta.clone(), state: Arc::new(*state) };
        let saved = self.store.save_snapshot(snapshot).await;
        let snapshot = saved.map_err(|error| write_error(meta, &error))?;
        self.checked(|machine| {
            machine.machine().restore(&snapshot.state);
            machine.applied = snapshot.meta.last_log_id;
            machine.voters = snapshot.meta.last_membership.clone();
            machine.shared.watcher().snapshot_installed(&snapshot.state);
        })?;
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<openraft::Snapshot<Types>>, StorageError> {
        Ok(self.store.snapshot().map(to_raft))
    }
}

/// Makes a snapshot durable, whose state was taken before more was applied.
pub(crate) struct Builder {
    snapshot: Result<Snapshot, Panicked>,
    store: LogStore,
}

impl RaftSnapshotBuilder<Types> for Builder {
    async fn build_snapshot(&mut self) -> Result<openraft::Snapshot<Types>, StorageError> {
        let snapshot = self.snapshot.clone()?;
        let meta = snapshot.meta.clone();
        let saved = self.store.save_snapshot(snapshot).await;
        saved.map(to_raft).map_err(|error| write_error(&meta, &error))
    }
}

fn to_raft(snapshot: Snapshot) -> openraft::Snapshot<Types> {
    let state = Box::new(snapshot.state.to_vec());
    openraft::Snapshot { meta: snapshot.meta, snapshot: state }
}

fn write_error(meta: &SnapshotMeta, error: &(impl std::error::Error + 'static)) -> StorageError {
    StorageIOError::write_snapshot(Some(meta.signature()), AnyError::new(error)).into()
}

//! A disk in memory that fails at a chosen operation, and that forgets at a crash what was not
//! synced.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};

use mutua_consensus::Disk;

use crate::random::Random;

/// Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Changing operations so far.
    operations: u64,
    fault: Option<(u64, Fault)>,
    /// Every further operation fails.
    dead: bool,
    random: Option<Random>,
}

#[derive(Clone, Default)]
struct File {
    contents: Vec<u8>,
    durable: Vec<u8>,
}

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process ends in the middle of it.
    Crash,
    /// There is no space left; later operations would work.
    Full,
    /// The device reports an error; later operations would work, and would mean nothing.
    Error,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Killed: the operating system keeps all that was written.
    Killed,
    /// The power failed: only what was synced is certain.
    PowerCut,
}

impl SimDisk {
    /// Let the operation with this number fail, counted from 0.
    pub(crate) fn fail_at(&self, operation: u64, fault: Fault, seed: u64) {
        let mut state = self.0.lock().unwrap();
        state.fault = Some((operation, fault));
        state.random = Some(Random::new(seed));
    }

    pub(crate) fn operations(&self) -> u64 {
        self.0.lock().unwrap().operations
    }

    pub(crate) fn failed_at(&self) -> u64 {
        self.0.lock().unwrap().fault.expect("a fault is set").0
    }

    pub(crate) fn has_failed(&self) -> bool {
        let state = self.0.lock().unwrap();
        state.fault.is_some_and(|(at, _)| state.operations > at)
    }

    pub(crate) fn contents(&self, file: &str) -> Option<Vec<u8>> {
        let state = self.0.lock().unwrap();
        state.names.get(file).map(|id| state.files[*id].contents.clone())
    }

    pub(crate) fn set_contents(&self, file: &str, contents: Vec<u8>) {
        let mut state = self.0.lock().unwrap();
        let id = state.names[file];
        state.files[id] = File { durable: contents.clone(), contents };
    }

    pub(crate) fn remove(&self, file: &str) {
        let mut state = self.0.lock().unwrap();
        state.names.remove(file);
        state.durable_names.remove(file);
    }

    /// The disk as the next process finds it.
    pub(crate) fn after(&self, end: End, seed: u64) -> SimDisk {
        let mut random = Random::new(seed);
        let state = self.0.lock().unwrap();
        let keeps_names = end == End::Killed || random.below(2) == 0;
        let names = if keeps_names { &state.names } else { &state.durable_names };
        let files = state.files.iter().map(|file| {
            let contents = match end {
                End::Killed => file.contents.clone(),
                End::PowerCut => file.after_power_cut(&mut random),
            };
            File { durable: contents.clone(), contents }
        });
        let state = State {
            files: files.collect(),
            names: names.clone(),
            durable_names: names.clone(),
            ..State::default()
        };
        SimDisk(Arc::new(Mutex::new(state)))
    }
}

impl File {
    /// Unsynced bytes are there, missing, partly there, or read as zeros.
    fn after_power_cut(&self, random: &mut Random) -> Vec<u8> {
        let mut contents = self.contents.clone();
        let synced = if contents.starts_with(&self.durable) { self.durable.len() } else { 0 };
        match random.below(4) {
            0 => {}
            1 => return self.durable.clone(),
            2 => {
                contents.truncate(synced + random.below((contents.len() - synced) as u64) as usize)
            }
            _ => {
                let sectors: Vec<usize> = (synced / 512..contents.len().div_ceil(512)).collect();
                for sector in sectors.into_iter().filter(|_| random.below(2) == 0) {
                    let end = contents.len().min((sector + 1) * 512);
                    contents[synced.max(sector * 512)..end].fill(0);
                }
            }
        }
        contents
    }
}

impl State {
    /// Count an operation. Returns how much of `length` bytes it may write before it fails.
    fn operate(&mut self, length: usize) -> Result<(), (usize, io::Error)> {
        if self.dead {
            return Err((0, io::Error::other("the process has ended")));
        }
        let now = self.operations;
        self.operations += 1;
        let Some((_, fault)) = self.fault.filter(|(at, _)| *at == now) else { return Ok(()) };
        let random = self.random.as_mut().expect("set with the fault");
        let written = random.below(length as u64 + 1) as usize;
        match fault {
            Fault::Crash => {
                self.dead = true;
                Err((written, io::Error::other("the process has ended")))
            }
            Fault::Full => Err((written, io::Error::from(io::ErrorKind::StorageFull))),
            Fault::Error => Err((written, io::Error::other("input/output error"))),
        }
    }

    fn id(&self, file: &str) -> io::Result<usize> {
        self.names.get(file).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for SimDisk {
    fn read(&mut self, file: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.contents(file))
    }

    fn write(&mut self, file: &str, contents: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let id = state.files.len();
        state.files.push(File::default());
        let result = state.operate(contents.len());
        let written = result.as_ref().map_or_else(|(written, _)| *written, |()| contents.len());
        state.files[id].contents = contents[..written].to_vec();
        state.names.insert(file.to_owned(), id);
        result.map_err(|(_, error)| error)
    }

    fn append(&mut self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let id = state.id(file)?;
        let result = state.operate(bytes.len());
        let written = result.as_ref().map_or_else(|(written, _)| *written, |()| bytes.len());
        state.files[id].contents.extend_from_slice(&bytes[..written]);
        result.map_err(|(_, error)| error)
    }

    fn sync(&mut self, file: &str) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let id = state.id(file)?;
        state.operate(0).map_err(|(_, error)| error)?;
        state.files[id].durable = state.files[id].contents.clone();
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let id = state.id(from)?;
        state.operate(0).map_err(|(_, error)| error)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), id);
        Ok(())
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        state.operate(0).map_err(|(_, error)| error)?;
        state.durable_names = state.names.clone();
        Ok(())
    }
}

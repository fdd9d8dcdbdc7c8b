//! What consensus decides: a short log of commands, and the state that it leads to.
//!
//! The consensus engine may decide a proposal late, twice or never. So a view applies only if its
//! number is one above the last: a late or second decision changes nothing. No clock, timer or
//! leader of the engine is part of any safety argument; all that is used of it is that every voter
//! applies the same commands in the same order, and has each in its persisted log before.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mutua_algorithms::Time;
use serde::{Deserialize, Serialize};

use super::{
    Directory, DirectoryChange, DirectoryError, Instance, LEVEL_OF_RULES, MemberId, Role,
    ViewNumber,
};

/// What is proposed and decided. New variants go at the end.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// The next view; its epoch is a lower bound.
    View(DecidedView),
    /// A change of the directory, if it still has this version: an operator's command that is
    /// decided late, or twice, must not undo a later one.
    Directory {
        /// The version before the change.
        version: u64,
        /// The change.
        change: DirectoryChange,
    },
    /// No client holds anything for longer without a renewal than this: decided before a longer
    /// TTL is first granted.
    Longest(Duration),
    /// All members and keepers have begun this view: earlier ones need not be remembered.
    Begun(ViewNumber),
    /// The rules of locks from the next view on, if those in force still have this number.
    Rules {
        /// The number of the rules before the change.
        number: u64,
        /// The rules, as the program around the view layer encodes them.
        rules: Vec<u8>,
    },
}

impl Command {
    /// The command as bytes, for the engine's log.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data")
    }

    /// The command from bytes; none if they are not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes(bytes) {
            Ok((command, [])) => Some(command),
            Ok(_) | Err(_) => None,
        }
    }
}

/// A view as decided: the members in force.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct DecidedView {
    /// Its number, one above the last view's.
    pub number: ViewNumber,
    /// The epoch of its fencing tokens: it grows with every view, by more than one where a member
    /// knows of a higher one.
    pub epoch: u32,
    /// The incarnations that take part in its locks. The first is the view coordinator.
    pub members: BTreeSet<Instance>,
    /// The incarnations that keep its records.
    pub keepers: BTreeSet<Instance>,
    /// A majority of these acknowledges its leases.
    pub voters: BTreeSet<MemberId>,
    /// The number of the rules that serve its names. Below the level of rules it means nothing.
    pub rules: u64,
    /// The level of what may be sent and proposed in it.
    pub level: u16,
}

impl DecidedView {
    /// The member that conducts the change to this view.
    pub fn coordinator(&self) -> Instance {
        *self.members.first().expect("a view has a member")
    }

    /// Members and keepers.
    pub fn everybody(&self) -> BTreeSet<Instance> {
        self.members.union(&self.keepers).copied().collect()
    }

    /// The number of the rules that serve its names; 0 for those that the cluster was founded with.
    pub fn rules_number(&self) -> u64 {
        if self.level >= LEVEL_OF_RULES { self.rules } else { 0 }
    }

    /// Whether this incarnation is a member or a keeper.
    pub fn concerns(&self, instance: Instance) -> bool {
        self.members.contains(&instance) || self.keepers.contains(&instance)
    }

    fn is_well_formed(&self) -> bool {
        let everybody = self.everybody();
        let ids: BTreeSet<_> = everybody.iter().map(|instance| instance.member).collect();
        !self.members.is_empty()
            && !self.voters.is_empty()
            && ids.len() == everybody.len()
            && self.epoch < Time::EPOCHS
    }
}

/// What a decided command has done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Applied {
    /// The next view.
    View,
    /// Something else has changed.
    Changed,
    /// Nothing: it was decided before, or its time is over, or it is not possible.
    Nothing,
}

/// The state that the decided commands lead to: the same at every voter after the same commands.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct DecidedState {
    /// How many commands it is made of.
    version: u64,
    /// All views since the last that is known to have begun everywhere, that one included. Who was
    /// in one of these may still act in it.
    views: BTreeMap<ViewNumber, DecidedView>,
    begun: ViewNumber,
    directory: Directory,
    longest: Duration,
    /// The rules of locks by their numbers: the last decided ones, and those of the views above.
    /// Number 0, with which the cluster was founded, is not among them.
    rules: BTreeMap<u64, Vec<u8>>,
}

impl DecidedState {
    /// The state before the first view, with these members. The cluster's epochs begin above
    /// `epoch` by the floors that members report, not here.
    pub fn new(directory: Directory) -> Self {
        Self { directory, ..Self::default() }
    }

    /// Applies the next decided command.
    pub fn apply(&mut self, command: &Command) -> Applied {
        self.version += 1;
        let changed = match command {
            Command::View(view) => return self.apply_view(view),
            Command::Directory { version, change } => self.apply_change(*version, change),
            Command::Longest(ttl) => {
                let longer = *ttl > self.longest;
                self.longest = self.longest.max(*ttl);
                longer
            }
            Command::Begun(number) => {
                let news = *number > self.begun && self.views.contains_key(number);
                if news {
                    self.begun = *number;
                    self.views.retain(|known, _| known >= number);
                    self.drop_rules();
                }
                news
            }
            Command::Rules { number, rules } => self.apply_rules(*number, rules),
        };
        if changed { Applied::Changed } else { Applied::Nothing }
    }

    /// The number of the rules that the next view has.
    pub fn rules_number(&self) -> u64 {
        self.rules.last_key_value().map_or(0, |(&number, _)| number)
    }

    /// The rules with this number; none for those that the cluster was founded with.
    pub fn rules(&self, number: u64) -> Option<&[u8]> {
        self.rules.get(&number).map(Vec::as_slice)
    }

    /// The numbers of the rules that may still be in force, that of the founding left out.
    pub fn rules_numbers(&self) -> impl Iterator<Item = u64> {
        self.rules.keys().copied()
    }

    /// The command that makes these the rules of the next view; none before all members can follow
    /// it.
    pub fn change_rules(&self, rules: Vec<u8>) -> Option<Command> {
        let number = self.rules_number();
        self.may_change_rules().then_some(Command::Rules { number, rules })
    }

    /// Whether all members understand a change of the rules.
    pub fn may_change_rules(&self) -> bool {
        self.last().is_some_and(|last| last.level >= LEVEL_OF_RULES)
    }

    fn apply_rules(&mut self, number: u64, rules: &[u8]) -> bool {
        let possible = self.may_change_rules() && number == self.rules_number();
        if possible {
            self.rules.insert(number + 1, rules.to_vec());
            self.drop_rules();
        }
        possible
    }

    /// Drops the rules that no view can have any more.
    fn drop_rules(&mut self) {
        let last = self.rules_number();
        let used: BTreeSet<_> = self.views.values().map(DecidedView::rules_number).collect();
        self.rules.retain(|number, _| *number == last || used.contains(number));
    }

    /// Whether a change of the directory is possible now; returns why not.
    ///
    /// Voters change one at a time, and a view that names the present ones must have begun before
    /// the next change. That is what makes it safe and live to wait for the leases of an earlier
    /// view: a lease of X in view V needs a majority of V's voters, and the coordinator of a later
    /// view M needs the words of a majority of the *same* voters (`begin.rs`), whichever the voters
    /// of M are. So no voter change can let two leases overlap. But V's voters must be there to
    /// give their words. All views since the last that has begun everywhere are remembered, and
    /// since then at most one voter was added or removed: of n voters of V at least n - 1 still run
    /// an engine, and a voter that is removed keeps its engine until the view without it has begun
    /// (`voters.rs`).
    ///
    /// # Errors
    ///
    /// See [`DirectoryError`].
    pub fn check_change(&self, change: &DirectoryChange) -> Result<(), DirectoryError> {
        self.directory.check(change)?;
        let mut directory = self.directory.clone();
        directory.apply(change);
        match directory.voters() == self.directory.voters() || self.is_settled() {
            true => Ok(()),
            false => Err(DirectoryError::Unsettled),
        }
    }

    /// Whether the last view has begun and names the voters of the directory.
    pub fn is_settled(&self) -> bool {
        let settled = |last: &DecidedView| {
            last.voters == self.directory.voters() && self.begun == last.number
        };
        self.last().is_none_or(settled)
    }

    /// Whether this member's answers count, in a view that may still matter or in the next one.
    pub fn counts(&self, id: MemberId) -> bool {
        let votes = self.directory.role(id).is_some_and(Role::votes);
        votes || self.views.values().any(|view| view.voters.contains(&id))
    }

    /// The command for a change of the present directory.
    pub fn change(&self, change: DirectoryChange) -> Command {
        Command::Directory { version: self.directory.version(), change }
    }

    fn apply_change(&mut self, version: u64, change: &DirectoryChange) -> bool {
        let current = version == self.directory.version();
        current && self.check_change(change).is_ok() && self.directory.apply(change)
    }

    fn apply_view(&mut self, view: &DecidedView) -> Applied {
        let (number, epoch) =
            self.last().map_or_else(Default::default, |last| (last.number, last.epoch));
        let epoch = view.epoch.max(epoch + 1);
        let view = DecidedView { epoch, ..view.clone() };
        let rules = view.rules_number();
        let has_rules = rules == 0 || self.rules.contains_key(&rules);
        if view.number != number.next() || !view.is_well_formed() || !has_rules {
            return Applied::Nothing;
        }
        self.views.insert(view.number, view);
        Applied::View
    }

    /// How many commands this state is made of.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The last view decided.
    pub fn last(&self) -> Option<&DecidedView> {
        self.views.last_key_value().map(|(_, view)| view)
    }

    /// The number of the last view decided.
    pub fn last_number(&self) -> ViewNumber {
        self.last().map_or_else(Default::default, |view| view.number)
    }

    /// The last view that is known to have begun everywhere.
    pub fn begun(&self) -> ViewNumber {
        self.begun
    }

    /// The views since then, that one included.
    pub fn views(&self) -> impl Iterator<Item = &DecidedView> {
        self.views.values()
    }

    /// All members.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The longest TTL that any client may have.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The incarnations that may act in an earlier view and are no members of this one, each with
    /// the voters of every such view: a majority of each must say when it last answered.
    ///
    /// A view that has begun everywhere ends all earlier ones: their members have left them, or
    /// were waited for. So the views that this state remembers are enough.
    pub fn removed(&self, view: &DecidedView) -> BTreeMap<Instance, BTreeSet<BTreeSet<MemberId>>> {
        let mut removed = BTreeMap::<_, BTreeSet<_>>::new();
        for earlier in self.views.range(..view.number).map(|(_, earlier)| earlier) {
            for &member in earlier.members.difference(&view.members) {
                removed.entry(member).or_default().insert(earlier.voters.clone());
            }
        }
        removed
    }

    /// The state as bytes, for a snapshot or a member without an engine.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("plain data")
    }

    /// The state from bytes; none if they are not one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let whole = |bytes: &[u8]| match postcard::take_from_bytes(bytes) {
            Ok((state, [])) => Some(state),
            Ok(_) | Err(_) => None,
        };
        // Before rules were decided, a state ended before them.
        whole(bytes).or_else(|| whole(&[bytes, &[0]].concat()))
    }
}

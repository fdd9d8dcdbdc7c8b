//! Numbers that stand for things that are kept once, one type for each kind of thing.
//!
//! A state is an array of plain words (`[u32]`), so that the search can copy, hash and compare it
//! without a look at what is in it. The word becomes a [`LocalId`] or an [`OutboxId`] where a step
//! reads it.

/// A number that stands for a thing, and serves as a key of tables.
pub(crate) trait Id: Copy {
    /// The id with this number.
    fn new(number: u32) -> Self;

    /// Its number.
    fn number(self) -> u32;

    /// Its number as an index of an array.
    #[inline]
    fn index(self) -> usize {
        self.number() as usize
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(transparent)]
        pub(crate) struct $name(pub(crate) u32);

        impl Id for $name {
            #[inline]
            fn new(number: u32) -> Self {
                Self(number)
            }

            #[inline]
            fn number(self) -> u32 {
                self.0
            }
        }
    )+};
}

ids! {
    /// A local situation: one process with its client and its ghost.
    LocalId;
    /// All messages that one process has sent and that have not arrived.
    OutboxId;
    /// One message under way, with its sender, its timestamp and its ghost.
    PacketId;
    /// The messages that one event sends, in order.
    EffectId;
    /// A state of the whole system that a search has reached.
    StateId;
}

/// Small numbers that are keys of tables too: a process, a shift of clocks, a renaming.
impl Id for u32 {
    #[inline]
    fn new(number: u32) -> Self {
        number
    }

    #[inline]
    fn number(self) -> u32 {
        self
    }
}

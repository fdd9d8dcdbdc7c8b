//! All algorithms, by name. Drivers find an algorithm through its row here and nowhere else.

#[macro_use]
mod any;

use crate::{
    About, ClaimAt, Election, Fields, Inspect, Kind, Message, Mutex, NodeId, Outbox, Phase,
    Renaming, Setup, SpecialRepair, Stamp, Start, StartError, Time, elections::*, mutexes::*,
    self_stabilizing::Dijkstra,
};

/// Code that is generic over a mutual exclusion algorithm, chosen by name once per run.
pub trait MutexVisitor {
    /// The result of the code.
    type Output;

    /// Runs the code for one algorithm.
    fn visit<M: Mutex>(self) -> Self::Output;
}

/// Code that is generic over an election algorithm, chosen by name once per run.
pub trait ElectionVisitor {
    /// The result of the code.
    type Output;

    /// Runs the code for one algorithm.
    fn visit<E: Election>(self) -> Self::Output;
}

macro_rules! registry {
    (mutexes: $($mutex:ident),+; elections: $($election:ty),+;) => {
        /// Every algorithm, in the order of the tables.
        pub const ALGORITHMS: &[&About] = &[
            $(<$mutex as Mutex>::ABOUT,)+
            $(<$election as Election>::ABOUT,)+
        ];

        any_mutex! { $($mutex),+ }

        /// Runs `visitor` for the mutual exclusion algorithm of this name, if there is one.
        ///
        /// In a browser, where the code has to be loaded first, it runs for [`AnyMutex`]. So a
        /// visitor gives its setup the name ([`Setup::of`]) and reads the algorithm's row from the
        /// start ([`Start::about`]).
        pub fn visit_mutex<V: MutexVisitor>(name: &str, visitor: V) -> Option<V::Output> {
            #[cfg(target_family = "wasm")]
            return visit_any(name, visitor);
            #[cfg(not(target_family = "wasm"))]
            visit_each(name, visitor)
        }

        /// The same with a type for each algorithm, on every machine.
        pub fn visit_each<V: MutexVisitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$mutex as Mutex>::ABOUT.name {
                return Some(visitor.visit::<$mutex>());
            })+
            None
        }

        /// Runs `visitor` for the election algorithm of this name, if there is one.
        pub fn visit_election<V: ElectionVisitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$election as Election>::ABOUT.name {
                return Some(visitor.visit::<$election>());
            })+
            None
        }
    };
}

/// Runs `visitor` for [`AnyMutex`], if there is a mutual exclusion algorithm of this name.
pub fn visit_any<V: MutexVisitor>(name: &str, visitor: V) -> Option<V::Output> {
    let is_mutex = about(name).is_some_and(|about| about.kind == Kind::Mutex);
    is_mutex.then(|| visitor.visit::<AnyMutex>())
}

registry! {
    mutexes:
        Central,
        LeLann,
        Lamport,
        RicartAgrawala,
        CarvalhoRoucairol,
        SuzukiKasami,
        RicartAgrawalaToken,
        Raymond,
        MaekawaBasic,
        Maekawa,
        Majority,
        Sanders,
        BakeryNaive,
        Bakery,
        Dijkstra,
        NaimiTrehel,
        NeilsenMizuno;
    elections:
        ChangRoberts,
        Bully,
        Invitation;
}

/// The default algorithm.
///
/// Naimi and Trehel's: a node that has the token enters again without a message, a hand-over is one
/// message, finding the token costs about log N, links may reorder, and its state does not grow
/// with the cluster. In a small cluster on a LAN nothing else is as cheap at both ends of the load.
pub const DEFAULT: &About = NaimiTrehel::ABOUT;

/// The names of the algorithms of which this is true, separated by commas, for errors.
pub fn names_of(is_one: impl Fn(&About) -> bool) -> String {
    let names = ALGORITHMS.iter().filter(|about| is_one(about)).map(|about| about.name);
    names.collect::<Vec<_>>().join(", ")
}

/// The row of the algorithm of this name.
pub fn about(name: &str) -> Option<&'static About> {
    ALGORITHMS.iter().copied().find(|about| about.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_option_has_its_default_first() {
        for (index, one) in ALGORITHMS.iter().enumerate() {
            assert!(ALGORITHMS[..index].iter().all(|other| other.name != one.name), "{}", one.name);
            for choice in one.options {
                assert!(!choice.values.is_empty(), "{} {}", one.name, choice.key);
                assert!(choice.values[0].drops.is_empty(), "{} {}", one.name, choice.key);
            }
        }
    }

    #[test]
    fn a_list_of_names_has_each_one_that_was_asked_for() {
        let elections = names_of(|about| about.kind == Kind::Election);
        assert_eq!(elections, "chang-roberts, bully, invitation");
        assert!(names_of(|_| true).split(", ").eq(ALGORITHMS.iter().map(|about| about.name)));
    }
}

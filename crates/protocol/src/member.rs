//! Members of a cluster, and the homes of names.

use std::fmt;

use mutua_algorithms::split_mix::mix;
use serde::{Deserialize, Serialize};

/// A member of the cluster, by a number that is the same at every member and not used again: its
/// place in the directory, which for those that found a cluster is their index in the list.
///
/// Within a view, members have [`NodeId`](mutua_algorithms::NodeId)s without gaps.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub struct Member(pub u32);

impl Member {
    /// Its index in an array with one element per member.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The home of a name: the member that has its token or is its coordinator while the name is not in
/// use. Rendezvous hashing lets all members agree without a message, spreads names over the
/// members, and moves few names when a member leaves.
pub(crate) fn home(name: &[u8], members: &[Member]) -> Member {
    let weight = |member: Member| mix(digest(name) ^ mix(u64::from(member.0) + 1));
    members
        .iter()
        .copied()
        .max_by_key(|&member| (weight(member), member))
        .expect("a view has at least one member")
}

/// FNV-1a: the same on every machine and in every version.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_spread_over_the_members_and_stay_when_another_member_leaves() {
        let all: Vec<_> = (0..5).map(Member).collect();
        let mut homes = [0; 5];
        for number in 0..5000 {
            let name = format!("name {number}");
            let at = home(name.as_bytes(), &all);
            homes[at.index()] += 1;
            let fewer: Vec<_> = all.iter().copied().filter(|&one| one.0 != 3).collect();
            assert!(at == Member(3) || home(name.as_bytes(), &fewer) == at);
        }
        assert!(homes.iter().all(|&count| (800..1200).contains(&count)), "{homes:?}");
    }
}

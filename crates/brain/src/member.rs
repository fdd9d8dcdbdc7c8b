//! Members of a cluster and where a name is at home among them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A member of the cluster: its place in the configured list, the same at every member.
///
/// Within a view, members have [`NodeId`](mutua_algorithms::NodeId)s without gaps.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub struct Member(pub u32);

impl Member {
    /// Its place in an array with one element per member.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The member where a name never used before has its token or coordinator: rendezvous hashing, so
/// that all agree without a message, names spread over the members, and few move when one goes.
pub(crate) fn home(name: &[u8], members: &[Member]) -> Member {
    let weight = |member: Member| mix(digest(name) ^ mix(u64::from(member.0) + 1));
    members
        .iter()
        .copied()
        .max_by_key(|&member| (weight(member), member))
        .expect("a view has at least one member")
}

/// FNV-1a, which is the same on every machine and in every version.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The finisher of SplitMix64: every bit of the input moves about half of the output's.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_spread_over_the_members_and_stay_when_another_one_goes() {
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

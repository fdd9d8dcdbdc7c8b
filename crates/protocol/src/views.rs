//! The view layer: views that survive crashes and partitions.
//!
//! A *view* is a set of members that all reach each other. Consensus decides views, one after the
//! other; in a view each lock's algorithm runs as published. A member acts in a view while its
//! *view lease*, which a majority of the view's voters acknowledges, is good. The next view begins
//! when all its members have reported what they hold, and the leases of those it removes have
//! certainly ended. Clients outside a node's process outlive it: what they hold is recorded by the
//! view's *keepers*, and held by a *custodian* when their node is gone.
//!
//! Everything here is deterministic: time is an argument ([`Moment`](crate::Moment)), messages and
//! proposals are effects ([`ViewEffect`]), the state is one value. The consensus engine is seen
//! through a narrow seam: in [`ViewEffect::Propose`]; out `appended`, `truncated`,
//! `snapshot_installed`, `decided` and `leads` of [`ViewLayer`].
//!
//! | file | holds |
//! |---|---|
//! | `decided.rs`, `directory.rs` | what consensus decides, and the state it leads to |
//! | `lease.rs`, `voter.rs` | a view lease: the member's side, the voter's side |
//! | `begin.rs` | when the leases of removed members have ended for certain |
//! | `exchange.rs`, `merge.rs` | the change of view: reports, and the plan made from them |
//! | `records.rs` | records of external clients: keepers, hosts, custodians, lost records |
//! | `level.rs` | what members may send each other, decided with each view |
//! | `voters.rs` | which voter the consensus engine adds or removes next |
//! | `policy.rs`, `clique.rs`, `detector.rs` | which view to propose, and when |
//! | `layer.rs`, `layer/`, `message.rs` | all of it in one node |
//!
//! Why it is safe, in one paragraph. Two members hold the same lock only in two views, since in one
//! view an algorithm excludes it and all begin with the same plan. Let M be the later view. A
//! member of an earlier view that is in M has reported what it holds, and M's plan names it. One
//! that is not in M has no lease any more when M begins (`begin.rs`), or has said that it holds
//! nothing. What its external clients hold is known to M's keepers, or M waits until their TTLs
//! have passed (`records.rs`). Fencing tokens carry the view's epoch, which grows with each view.

mod begin;
mod clique;
mod decided;
mod detector;
mod directory;
mod exchange;
mod ids;
mod layer;
mod lease;
mod level;
mod merge;
mod message;
mod policy;
mod records;
mod settings;
mod voter;
mod voters;

pub use begin::BeginWait;
pub use decided::{Applied, Command, DecidedState, DecidedView};
pub use detector::Detector;
pub use directory::{Directory, DirectoryChange, DirectoryEntry, DirectoryError, MAX_VOTERS, Role};
pub use exchange::{Blocked, Claim, Client, Contents, Coordinator, Hold, Holder, Plan, Report};
pub use ids::{Incarnation, Instance, MemberId, ViewNumber};
pub use layer::{Persisted, ViewLayer};
pub use lease::{LeaseChange, MemberLease, majority};
pub use level::{LEVEL_OF_RULES, Levels};
pub use message::{Ask, Message, Stage, ViewEffect};
pub use policy::{Policy, Row};
pub use records::{Host, Keeper, Quarantine, Record, custodian, is_whole, quarantine};
pub use settings::{LeaseRules, RecordRules, Rules, ViewSettings};
pub use voter::VoterLease;
pub use voters::{EngineMembers, VoterStep, voter_step};

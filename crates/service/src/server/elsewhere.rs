//! Clients of the other nodes: those nodes are asked about them, and ask about ours.
//!
//! What several nodes say is not of one moment. A fence tells which of two who are said to be
//! inside got in later.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use prost::Message;
use tonic::Status;

use super::{Core, Service, clients::millis};
use crate::{
    Moment,
    desk::Name,
    proto::v1::{self, elsewhere::Ask, from_elsewhere::Answer},
};

/// How often those who wait want to know who is inside elsewhere.
const OFTEN: Duration = Duration::from_secs(1);

/// For how long what nobody asks for any more is kept.
const KEPT: Duration = Duration::from_secs(10);

/// Who was seen inside elsewhere.
#[derive(Default)]
pub(super) struct Seen {
    asked: Option<Moment>,
    /// None while no answer has come.
    holder: Option<Option<v1::Entry>>,
}

impl Service {
    /// Answers another node, of our own clients only.
    pub(super) fn answer_elsewhere(self: &Arc<Self>, body: &[u8]) -> Vec<u8> {
        let Ok(v1::Elsewhere { ask: Some(ask) }) = v1::Elsewhere::decode(body) else {
            return Vec::new();
        };
        let answer = match ask {
            Ask::List(request) => Answer::List(self.list_here(&request)),
            Ask::Verify(request) => Answer::Verify(self.verify_here(&request)),
            Ask::Break(request) => Answer::Break(self.break_here(&request)),
        };
        v1::FromElsewhere { answer: Some(answer) }.encode_to_vec()
    }

    /// What all other nodes answer, and who does not.
    async fn ask_all(&self, ask: Ask) -> (Vec<Answer>, Vec<String>) {
        let body = v1::Elsewhere { ask: Some(ask) }.encode_to_vec();
        let (mut answers, mut unanswered) = (Vec::new(), Vec::new());
        for (name, answer) in self.node.call_all(&body).await {
            let answer = answer.ok().and_then(|body| v1::FromElsewhere::decode(&*body).ok());
            match answer.and_then(|answer| answer.answer) {
                Some(answer) => answers.push(answer),
                None => unanswered.push(name),
            }
        }
        (answers, unanswered)
    }

    fn list_here(self: &Arc<Self>, request: &v1::ListRequest) -> v1::ListResponse {
        let states = self.call(|core, now| match request.exact {
            true => vec![core.desk.show(now, &request.prefix)],
            false => core.desk.list(now, &request.prefix),
        });
        let locks = states.into_iter().map(|state| self.describe(state)).collect();
        let stopped = self.stopped().unwrap_or_default();
        v1::ListResponse { locks, stopped, unanswered: Vec::new() }
    }

    /// The locks of all nodes that answer.
    pub(super) async fn list(self: &Arc<Self>, request: v1::ListRequest) -> v1::ListResponse {
        let v1::ListResponse { locks, stopped, .. } = self.list_here(&request);
        if self.is_alone() {
            return v1::ListResponse { locks, stopped, unanswered: Vec::new() };
        }
        let (answers, unanswered) = self.ask_all(Ask::List(request)).await;
        let elsewhere = answers.into_iter().flat_map(locks_of);
        let mut locks = merge(locks.into_iter().chain(elsewhere));
        for lock in &mut locks {
            lock.waiting.sort_by_key(|waiter| self.place_of(&waiter.node));
            lock.unanswered.clone_from(&unanswered);
        }
        v1::ListResponse { locks, stopped, unanswered }
    }

    /// One lock at all nodes.
    pub(super) async fn show(self: &Arc<Self>, name: &Name) -> v1::Lock {
        let request = v1::ListRequest { prefix: name.to_vec(), exact: true };
        self.list(request).await.locks.pop().unwrap_or_default()
    }

    fn place_of(&self, node: &str) -> usize {
        self.members.iter().position(|name| name == node).unwrap_or(self.members.len())
    }

    pub(super) fn is_alone(&self) -> bool {
        self.members.len() == 1
    }

    fn verify_here(self: &Arc<Self>, request: &v1::VerifyRequest) -> v1::VerifyResponse {
        let current = self.call(|core, now| core.desk.verify(now, &request.name, request.fence));
        v1::VerifyResponse { current }
    }

    /// Whether a fence is current at any node. Without an answer of all it is not known that it is
    /// not.
    pub(super) async fn verify(
        self: &Arc<Self>,
        request: v1::VerifyRequest,
    ) -> Result<v1::VerifyResponse, Status> {
        let here = self.verify_here(&request);
        if here.current || self.is_alone() {
            return Ok(here);
        }
        let (answers, unanswered) = self.ask_all(Ask::Verify(request)).await;
        let yes = |answer: &Answer| matches!(answer, Answer::Verify(answer) if answer.current);
        match answers.iter().any(yes) {
            true => Ok(v1::VerifyResponse { current: true }),
            false => all_answered(&unanswered).map(|()| here),
        }
    }

    fn break_here(self: &Arc<Self>, request: &v1::BreakRequest) -> v1::BreakResponse {
        let v1::BreakRequest { name, fence, reason, by } = request;
        let wanted = (*fence != 0).then_some(*fence);
        let told = format!("broken by {by}: {reason}");
        let (holder, rest) = self.call(|core, now| {
            let holder = core.holder(now, name);
            (holder, core.desk.break_grant(now, name, wanted, told))
        });
        let Some(rest) = rest else { return v1::BreakResponse::default() };
        let fence = holder.as_ref().map_or(0, |holder| holder.fence);
        eprintln!("mutua: {} with fence {fence} was broken by {by}: {reason}", name.escape_ascii());
        v1::BreakResponse { broken: holder, quarantine_ms: millis(rest) }
    }

    /// Takes a lock away from whoever is inside, at whichever node.
    pub(super) async fn break_grant(
        self: &Arc<Self>,
        mut request: v1::BreakRequest,
    ) -> Result<v1::BreakResponse, Status> {
        let here = self.break_here(&request);
        if here.broken.is_some() || self.is_alone() {
            return Ok(here);
        }
        if request.fence == 0 {
            let lock = self.show(&Name::from(&*request.name)).await;
            let Some(holder) = lock.holder else {
                return all_answered(&lock.unanswered).map(|()| here);
            };
            // One is taken out, and not who gets in at the next node while this is on its way.
            request.fence = holder.fence;
        }
        let (answers, unanswered) = self.ask_all(Ask::Break(request)).await;
        let broken = answers.into_iter().find_map(|answer| match answer {
            Answer::Break(answer) if answer.broken.is_some() => Some(answer),
            _ => None,
        });
        match broken {
            Some(broken) => Ok(broken),
            None => all_answered(&unanswered).map(|()| here),
        }
    }

    /// Who is inside elsewhere, as it was seen last, and none while that is not known. It is asked
    /// for anew now and then, for all who wait together.
    pub(super) fn seen_elsewhere(
        self: &Arc<Self>,
        core: &mut Core,
        now: Moment,
        name: &Name,
    ) -> Option<Option<v1::Entry>> {
        if self.is_alone() {
            return Some(None);
        }
        let seen = core.seen.entry(Name::clone(name)).or_default();
        if seen.asked.is_none_or(|asked| now.since(asked) >= OFTEN) {
            seen.asked = Some(now);
            let (service, name) = (Arc::clone(self), Name::clone(name));
            tokio::spawn(async move {
                let request = v1::ListRequest { prefix: name.to_vec(), exact: true };
                let (answers, _) = service.ask_all(Ask::List(request)).await;
                let lock = merge(answers.into_iter().flat_map(locks_of)).pop();
                let holder = lock.and_then(|lock| lock.holder);
                service.call(|core, now| core.saw(now, name, holder));
            });
        }
        seen.holder.clone()
    }
}

impl Core {
    fn saw(&mut self, now: Moment, name: Name, holder: Option<v1::Entry>) {
        let used = |seen: &Seen| seen.asked.is_some_and(|asked| now.since(asked) < KEPT);
        self.seen.retain(|_, seen| used(seen));
        self.seen.entry(name).or_default().holder = Some(holder);
    }
}

/// What waiters know, by lock.
pub(super) type AllSeen = HashMap<Name, Seen>;

fn all_answered(unanswered: &[String]) -> Result<(), Status> {
    match unanswered {
        [] => Ok(()),
        names => {
            let text = format!("not known, since {} did not answer", names.join(", "));
            Err(Status::unavailable(text))
        }
    }
}

fn locks_of(answer: Answer) -> Vec<v1::Lock> {
    match answer {
        Answer::List(list) => list.locks,
        Answer::Verify(_) | Answer::Break(_) => Vec::new(),
    }
}

/// Puts together what several nodes say of the same locks, in order of the names.
fn merge(locks: impl Iterator<Item = v1::Lock>) -> Vec<v1::Lock> {
    let mut merged: BTreeMap<Vec<u8>, v1::Lock> = BTreeMap::new();
    for lock in locks {
        let known = merged.entry(lock.name.clone()).or_default();
        let fence = |lock: &v1::Lock| lock.holder.as_ref().map(|holder| holder.fence);
        if fence(&lock) > fence(known) {
            known.holder = lock.holder;
        }
        known.name = lock.name;
        known.waiting.extend(lock.waiting);
        known.last_fence = known.last_fence.max(lock.last_fence);
        if known.algorithm.is_empty() {
            known.algorithm = lock.algorithm;
        }
    }
    merged.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::{all_answered, merge, v1};

    fn lock(name: &str, fence: Option<u64>, waiting: &[&str]) -> v1::Lock {
        let entry = |node: &&str| v1::Entry { node: (*node).to_owned(), ..Default::default() };
        v1::Lock {
            name: name.into(),
            holder: fence.map(|fence| v1::Entry { fence, ..Default::default() }),
            waiting: waiting.iter().map(entry).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn of_two_who_are_said_to_be_inside_the_later_one_is_and_all_wait_who_wait_anywhere() {
        let said = [lock("y", None, &["a"]), lock("x", Some(3), &["a"]), lock("x", None, &["b"])];
        let merged = merge(said.into_iter().chain([lock("x", Some(5), &[]), lock("y", None, &[])]));
        let told: Vec<_> = merged.iter().map(|lock| (&*lock.name, lock.waiting.len())).collect();
        assert_eq!(told, [(&b"x"[..], 2), (&b"y"[..], 1)]);
        assert_eq!(merged[0].holder.as_ref().map(|holder| holder.fence), Some(5));
        assert_eq!(merged[1].holder, None);
    }

    #[test]
    fn no_is_not_said_while_somebody_has_not_answered() {
        assert!(all_answered(&[]).is_ok());
        let status = all_answered(&["b".to_owned(), "c".to_owned()]).expect_err("not all");
        assert_eq!(status.code(), tonic::Code::Unavailable);
        assert!(status.message().contains("b, c"), "{}", status.message());
    }
}

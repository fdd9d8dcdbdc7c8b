//! Clients of the other nodes: those nodes are asked about them, and ask about ours.
//!
//! What several nodes say is not of one moment. A fence tells which of two who are said to be
//! inside got in later.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use mutua_node::MAX_CALL;
use prost::Message;
use tonic::Status;

use super::{Core, Service, clients::millis, log};
use crate::{
    Moment,
    desk::Name,
    proto::v1::{self, elsewhere::Ask, from_elsewhere::Answer},
};

/// How often those who wait want to know who is inside elsewhere.
const OFTEN: Duration = Duration::from_secs(1);

/// For how long what nobody asks for any more is kept.
const KEPT: Duration = Duration::from_secs(10);

/// How long who does not want to wait waits to hear who keeps it out.
const HINT: Duration = Duration::from_millis(300);

/// How much fits into one answer, in bytes; the rest is asked for again.
const PAGE: usize = MAX_CALL / 2;

/// Who was seen inside elsewhere.
#[derive(Default)]
pub(super) struct Seen {
    asked: Option<Moment>,
    /// None while it is not known.
    others: Option<Others>,
}

/// Who of the other nodes is inside, and how many wait there.
#[derive(Clone, Default)]
pub(super) struct Others {
    pub(super) holder: Option<v1::Entry>,
    pub(super) waiting: u32,
}

impl Service {
    /// Answers another node, of our own clients only.
    pub(super) fn answer_elsewhere(self: &Arc<Self>, body: &[u8]) -> Vec<u8> {
        let Ok(v1::Elsewhere { ask: Some(ask) }) = v1::Elsewhere::decode(body) else {
            return Vec::new();
        };
        let answer = match ask {
            Ask::List(request) => Answer::List(page(self.list_here(&request))),
            Ask::Verify(request) => Answer::Verify(self.verify_here(&request)),
            Ask::Break(request) => Answer::Break(self.break_here(&request)),
        };
        v1::FromElsewhere { answer: Some(answer) }.encode_to_vec()
    }

    /// What each of the other nodes answers, if it does.
    async fn ask_all(&self, ask: Ask) -> Vec<(String, Option<Answer>)> {
        let answers = self.node.call_all(&write(ask)).await.into_iter();
        answers.map(|(name, answer)| (name, read(answer))).collect()
    }

    /// The locks of all other nodes, and who does not answer.
    async fn ask_lists(&self, request: v1::ListRequest) -> (Vec<v1::Lock>, Vec<String>) {
        let (mut locks, mut unanswered) = (Vec::new(), Vec::new());
        for (name, mut answer) in self.ask_all(Ask::List(request.clone())).await {
            loop {
                let Some(Answer::List(page)) = answer else {
                    unanswered.push(name);
                    break;
                };
                let last = page.locks.last().map(|lock| lock.name.clone());
                locks.extend(page.locks);
                let Some(last) = last.filter(|_| page.more) else { break };
                let next = v1::ListRequest { after: Some(last), ..request.clone() };
                answer = read(self.node.call(&name, &write(Ask::List(next))).await);
            }
        }
        (locks, unanswered)
    }

    fn list_here(self: &Arc<Self>, request: &v1::ListRequest) -> v1::ListResponse {
        let v1::ListRequest { prefix, exact, after } = request;
        let (mut states, quarantined) = self.call(|core, now| {
            let states = match exact {
                true => vec![core.desk.show(now, prefix)],
                false => core.desk.list(now, prefix),
            };
            (states, core.quarantined(now))
        });
        if let Some(after) = after {
            states.retain(|state| *state.name > **after);
        }
        let locks = states.into_iter().map(|state| self.describe(state)).collect();
        let stopped = quarantined.or_else(|| self.stopped()).unwrap_or_default();
        v1::ListResponse { locks, stopped, ..Default::default() }
    }

    /// The locks of all nodes that answer.
    pub(super) async fn list(self: &Arc<Self>, request: v1::ListRequest) -> v1::ListResponse {
        let here = self.list_here(&request);
        if self.is_alone() {
            return here;
        }
        let (elsewhere, unanswered) = self.ask_lists(request).await;
        let mut locks = merge(here.locks.into_iter().chain(elsewhere));
        for lock in &mut locks {
            lock.waiting.sort_by_key(|waiter| self.place_of(&waiter.node));
            lock.unanswered.clone_from(&unanswered);
        }
        v1::ListResponse { locks, unanswered, ..here }
    }

    /// One lock at all nodes.
    pub(super) async fn show(self: &Arc<Self>, name: &Name) -> v1::Lock {
        self.list(only(name)).await.locks.pop().unwrap_or_default()
    }

    fn place_of(&self, node: &str) -> usize {
        self.members.iter().position(|name| name == node).unwrap_or(self.members.len())
    }

    pub(super) fn is_alone(&self) -> bool {
        self.members.len() == 1
    }

    fn verify_here(self: &Arc<Self>, request: &v1::VerifyRequest) -> v1::VerifyResponse {
        self.call(|core, now| v1::VerifyResponse {
            current: core.desk.verify(now, &request.name, request.fence),
            last_fence: core.desk.show(now, &request.name).last_fence,
        })
    }

    /// Whether a fence is current at any node. Without an answer of all it is not known that it is
    /// not, unless a greater one has been given out.
    pub(super) async fn verify(
        self: &Arc<Self>,
        request: v1::VerifyRequest,
    ) -> Result<v1::VerifyResponse, Status> {
        let here = self.verify_here(&request);
        let fence = request.fence;
        let decides = |answer: &v1::VerifyResponse| answer.current || answer.last_fence > fence;
        if decides(&here) || self.is_alone() {
            return Ok(here);
        }
        let mut unanswered = Vec::new();
        for (name, answer) in self.ask_all(Ask::Verify(request)).await {
            match answer {
                Some(Answer::Verify(answer)) if decides(&answer) => return Ok(answer),
                Some(_) => {}
                None => unanswered.push(name),
            }
        }
        let what = format!("whether token {fence} is inside is not known");
        all_answered(&what, &unanswered).map(|()| here)
    }

    fn break_here(self: &Arc<Self>, request: &v1::BreakRequest) -> v1::BreakResponse {
        let v1::BreakRequest { name, fence, reason, by } = request;
        let wanted = (*fence != 0).then_some(*fence);
        let told = format!("broken by {by}: {reason}");
        let (holder, rest) = self.call(|core, now| {
            let holder = self.holder_here(core, now, name);
            (holder, core.desk.break_grant(now, name, wanted, told))
        });
        let Some(rest) = rest else { return v1::BreakResponse::default() };
        let fence = holder.as_ref().map_or(0, |holder| holder.fence);
        let name = name.escape_ascii();
        log(format_args!("{name} with fence {fence} was broken by {by}: {reason}"));
        v1::BreakResponse { broken: holder, quarantine_ms: millis(rest) }
    }

    /// Takes a lock away from whoever is inside, at whichever node.
    pub(super) async fn break_grant(
        self: &Arc<Self>,
        mut request: v1::BreakRequest,
    ) -> Result<v1::BreakResponse, Status> {
        if request.fence == 0 && !self.is_alone() {
            // One is taken out, and not who gets in at the next node while this is on its way.
            let lock = self.show(&Name::from(&*request.name)).await;
            let Some(holder) = lock.holder else {
                let what = "whether anybody is inside is not known, and nothing was broken";
                return all_answered(what, &lock.unanswered).map(|()| v1::BreakResponse::default());
            };
            request.fence = holder.fence;
        }
        let here = self.break_here(&request);
        if here.broken.is_some() || self.is_alone() {
            return Ok(here);
        }
        let mut unanswered = Vec::new();
        for (name, answer) in self.ask_all(Ask::Break(request)).await {
            match answer {
                Some(Answer::Break(answer)) if answer.broken.is_some() => return Ok(answer),
                Some(_) => {}
                None => unanswered.push(name),
            }
        }
        // Who was asked and did not answer may still do it.
        all_answered("whether it was broken is not known", &unanswered).map(|()| here)
    }

    /// Who is inside and waits elsewhere, as it was seen last; none while that is not known. It is
    /// asked for anew now and then, for all who wait together.
    pub(super) fn seen_elsewhere(
        self: &Arc<Self>,
        core: &mut Core,
        now: Moment,
        name: &Name,
    ) -> Option<Others> {
        if self.is_alone() {
            return Some(Others::default());
        }
        let seen = core.seen.entry(Name::clone(name)).or_default();
        if seen.asked.is_none_or(|asked| now.since(asked) >= OFTEN) {
            seen.asked = Some(now);
            let (service, name) = (Arc::clone(self), Name::clone(name));
            tokio::spawn(async move {
                let others = service.look_elsewhere(&name).await;
                service.call(|core, now| core.saw(now, name, others));
            });
        }
        seen.others.clone()
    }

    async fn look_elsewhere(&self, name: &Name) -> Option<Others> {
        let (locks, unanswered) = self.ask_lists(only(name)).await;
        let lock = merge(locks.into_iter()).pop().unwrap_or_default();
        let waiting = u32::try_from(lock.waiting.len()).unwrap_or(u32::MAX);
        let waiting = waiting.saturating_add(lock.left_out);
        // Nobody was seen is not nobody is there.
        let known = lock.holder.is_some() || unanswered.is_empty();
        known.then_some(Others { holder: lock.holder, waiting })
    }

    /// Who keeps somebody out, as far as that is known soon.
    pub(super) async fn holder_anywhere(self: &Arc<Self>, name: &Name) -> Option<v1::Entry> {
        let here = self.call(|core, now| self.holder_here(core, now, name));
        if here.is_some() || self.is_alone() {
            return here;
        }
        let others = tokio::time::timeout(HINT, self.look_elsewhere(name)).await;
        others.ok().flatten().and_then(|others| others.holder)
    }
}

impl Core {
    fn saw(&mut self, now: Moment, name: Name, others: Option<Others>) {
        let used = |seen: &Seen| seen.asked.is_some_and(|asked| now.since(asked) < KEPT);
        self.seen.retain(|_, seen| used(seen));
        self.seen.entry(name).or_default().others = others;
    }
}

/// What waiters know, by lock.
pub(super) type AllSeen = HashMap<Name, Seen>;

fn only(name: &Name) -> v1::ListRequest {
    v1::ListRequest { prefix: name.to_vec(), exact: true, after: None }
}

fn write(ask: Ask) -> Vec<u8> {
    v1::Elsewhere { ask: Some(ask) }.encode_to_vec()
}

fn read(answer: Result<Vec<u8>, String>) -> Option<Answer> {
    v1::FromElsewhere::decode(&*answer.ok()?).ok()?.answer
}

fn all_answered(what: &str, unanswered: &[String]) -> Result<(), Status> {
    match unanswered {
        [] => Ok(()),
        names => {
            let text = format!("{what}, since {} did not answer", names.join(", "));
            Err(Status::unavailable(text))
        }
    }
}

/// As much as fits into one answer.
fn page(mut list: v1::ListResponse) -> v1::ListResponse {
    let mut size = 0;
    for (index, lock) in list.locks.iter_mut().enumerate() {
        shorten(lock);
        size += lock.encoded_len();
        if size > PAGE && index > 0 {
            list.locks.truncate(index);
            list.more = true;
            break;
        }
    }
    list
}

/// Leaves out those at the end of a line that is too long.
fn shorten(lock: &mut v1::Lock) {
    let mut size = 0;
    let fits = |waiter: &v1::Entry| {
        size += waiter.encoded_len();
        size <= PAGE
    };
    let listed = lock.waiting.iter().map(fits).take_while(|fits| *fits).count();
    lock.left_out = u32::try_from(lock.waiting.len() - listed).unwrap_or(u32::MAX);
    lock.waiting.truncate(listed);
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
        known.left_out += lock.left_out;
        known.last_fence = known.last_fence.max(lock.last_fence);
        if known.algorithm.is_empty() {
            known.algorithm = lock.algorithm;
        }
    }
    merged.into_values().collect()
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::{PAGE, all_answered, merge, page, v1};

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
        assert!(all_answered("?", &[]).is_ok());
        let names = ["b".to_owned(), "c".to_owned()];
        let status = all_answered("it is not known", &names).expect_err("not all");
        assert_eq!(status.code(), tonic::Code::Unavailable);
        assert!(status.message().contains("b, c"), "{}", status.message());
    }

    #[test]
    fn what_does_not_fit_into_an_answer_is_known_to_be_missing() {
        let name = |number: u32| format!("{number:04096}");
        let locks: Vec<_> = (0..1000).map(|number| lock(&name(number), Some(1), &["a"])).collect();
        let first = page(v1::ListResponse { locks: locks.clone(), ..Default::default() });
        assert!(first.more && first.encoded_len() <= PAGE + 100);
        assert!((50..1000).contains(&first.locks.len()), "{} locks", first.locks.len());
        let rest = locks[first.locks.len()..][..10].to_vec();
        assert!(!page(v1::ListResponse { locks: rest, ..Default::default() }).more);

        let long = "n".repeat(1000);
        let line = vec![&*long; 1000];
        let cut =
            page(v1::ListResponse { locks: vec![lock("x", Some(1), &line)], ..Default::default() });
        let listed = cut.locks[0].waiting.len();
        assert!((50..1000).contains(&listed), "{listed} waiters");
        assert_eq!(listed + cut.locks[0].left_out as usize, 1000);
    }
}

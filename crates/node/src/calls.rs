//! For who serves clients: asking those who serve the other members' clients.

use std::{fmt, time::Duration};

use mutua_brain::Member;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::Node;

/// How long a member has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

type Answer = dyn Fn(&[u8]) -> Vec<u8> + Send + Sync;

/// What answers questions of other members.
pub(crate) struct Answering(pub(crate) Box<Answer>);

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answering")
    }
}

impl Node {
    /// From now on questions of other members are answered by this, on the node's runtime, so it
    /// must not wait. Only the first one counts. Without one, or if the answer has more than
    /// [`MAX_CALL`](crate::MAX_CALL) bytes, it is empty.
    pub fn answer_calls(&self, answering: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) {
        let _ = self.shared.answering.set(Answering(Box::new(answering)));
    }

    /// Asks all other members something: their names, and what they answered or why they did not.
    /// It takes two seconds at most.
    pub async fn call_all(&self, body: &[u8]) -> Vec<(String, Result<Vec<u8>, String>)> {
        let limit = Instant::now() + PATIENCE;
        let members = u32::try_from(self.shared.names().len()).unwrap_or(u32::MAX);
        let asked: Vec<_> = self.shared.call(|core, _| {
            let me = core.brain.me();
            let others = (0..members).map(Member).filter(|&one| one != me);
            others.map(|one| (one, core.ask(one, body))).collect()
        });
        let mut answers = Vec::new();
        for (member, asked) in asked {
            answers.push((self.shared.name(member), answer_of(asked, limit).await));
        }
        answers
    }

    /// Asks one other member something, as [`call_all`](Self::call_all) does.
    ///
    /// # Errors
    ///
    /// Why it did not answer.
    pub async fn call(&self, member: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        let limit = Instant::now() + PATIENCE;
        let place = self.shared.names().iter().position(|name| name == member);
        let place = place.and_then(|place| u32::try_from(place).ok()).map(Member);
        let asked = self.shared.call(|core, _| {
            let other = place.filter(|&one| one != core.brain.me());
            other.and_then(|one| core.ask(one, body))
        });
        answer_of(asked, limit).await
    }
}

async fn answer_of(
    asked: Option<oneshot::Receiver<Vec<u8>>>,
    limit: Instant,
) -> Result<Vec<u8>, String> {
    let asked = asked.ok_or("it is not connected, or was asked too much at once")?;
    match timeout_at(limit, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err("the connection is gone".to_owned()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

//! Values of leaders: a value is sent with the request, again to every node that serves the session
//! later, and replaced by a proclamation.

use super::{Effect, Phase, State};
use crate::proto::v1::{self, session_request};

impl State {
    /// Gives the leader of this request another value. The effect [`Effect::Proclaimed`] follows
    /// with the returned number.
    pub(crate) fn proclaim(&mut self, request: u64, value: Vec<u8>) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.proclamations.insert(id, request);
        if let Some(leader) = self.requests.get_mut(&request) {
            leader.value = Some(value);
        }
        self.send_proclaim(request, id);
        id
    }

    /// A new stream: its node may not know the value of this request, nor have received its last
    /// proclamation.
    pub(super) fn proclaim_again(&mut self, request: u64) {
        let own = self.proclamations.iter().filter(|&(_, of)| *of == request);
        let last = own.map(|(&id, _)| id).next_back();
        self.send_proclaim(request, last.unwrap_or_default());
    }

    fn send_proclaim(&mut self, request: u64, id: u64) {
        let Some(leader) = self.requests.get(&request).filter(|_| self.attached) else { return };
        let (Phase::Held { token } | Phase::Granted { token }) = leader.phase else { return };
        let Some(value) = leader.value.clone() else { return };
        let name = leader.name.to_vec();
        let proclaim = v1::Proclaim { id, name, fencing_token: token, value };
        self.send(session_request::Request::Proclaim(proclaim));
    }

    /// The node has received this proclamation of a leader, and with it those before.
    pub(super) fn proclaimed(&mut self, proclaimed: v1::Proclaimed) {
        let v1::Proclaimed { id: last, held } = proclaimed;
        let Some(&request) = self.proclamations.get(&last) else { return };
        let effects = &mut self.effects;
        self.proclamations.retain(|&id, of| {
            let done = *of == request && id <= last;
            if done {
                effects.push(Effect::Proclaimed { id, held });
            }
            !done
        });
    }

    /// Ends the proclamations of leaders that lead no more.
    pub(super) fn end_proclamations(&mut self) {
        let (requests, effects) = (&self.requests, &mut self.effects);
        self.proclamations.retain(|&id, request| {
            let phase = requests.get(request).map(|leader| leader.phase);
            let leads = matches!(phase, Some(Phase::Held { .. }));
            if !leads {
                effects.push(Effect::Proclaimed { id, held: false });
            }
            leads
        });
    }
}

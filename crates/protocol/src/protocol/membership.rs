//! Members that come and go: links follow the directory that consensus decides.
//!
//! A member is known here by its place in the directory ([`Member`]), which is the same at every
//! member and not used again. Places of former members stay empty. A link exists for each member of
//! the directory, and for each former one that a remembered view names: the words that end such a
//! view pass over it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Protocol, ViewSource, decided::Layered};
use crate::{
    Effect, Level, Member, Moment, Plan,
    link::Link,
    views::{Directory, MemberId},
};

impl Layered {
    /// The members that need a link, by place, with their names where the directory has them.
    fn linked_places(&self) -> BTreeMap<u32, (MemberId, Option<String>)> {
        let (state, latest) = (self.layer.state(), self.layer.directory());
        let place = |id| latest.place(id).or_else(|| state.directory().place(id));
        let in_views = state.views().flat_map(|view| {
            let everybody = view.everybody().into_iter().map(|one| one.member);
            everybody.chain(view.voters.iter().copied()).collect::<Vec<_>>()
        });
        let mut places: BTreeMap<_, _> =
            in_views.filter_map(|id| Some((place(id)?, (id, None)))).collect();
        for (id, entry) in state.directory().members().chain(latest.members()) {
            places.extend(place(id).map(|place| (place, (id, Some(entry.name.clone())))));
        }
        places
    }
}

impl Protocol {
    /// Follows the views that consensus decides, from now on, as the member at this place and with
    /// these rules; only after [`ViewSource::Unknown`]. The contents of the log are to be passed
    /// before any other call: while a view in it is unknown here, this node could acknowledge a
    /// lease that it must not.
    pub fn follow(&mut self, now: Moment, me: Member, plan: Arc<Plan>, views: ViewSource) {
        let name = self.name(self.config.me).to_owned();
        self.config.names.clear();
        self.config.me = me;
        self.set_name(me, name);
        self.config.plan = plan;
        self.config.views = views;
        self.layered = Layered::new(now, &mut self.config);
        self.raise_floor(self.epoch.max(self.floor.epoch()));
        self.sync_members(now);
        self.start_layer(now);
    }

    /// An engine runs at this node from now on; its state before its log is of this version.
    pub fn start_voting(&mut self, now: Moment, version: u64) {
        self.with_layer(now, |layer| layer.start_voting(now, version));
    }

    /// The voters of the consensus engine, and those that are to vote, at its leader.
    pub fn set_engine_voters(&mut self, voters: BTreeSet<MemberId>) {
        if let Some(layered) = &mut self.layered {
            layered.layer.set_engine_voters(voters);
        }
    }

    /// No engine runs at this node any more: its answers do not count.
    pub fn stop_voting(&mut self, now: Moment) {
        self.with_layer(now, |layer| layer.stop_voting());
    }

    /// The latest directory that this node knows, where consensus decides views.
    pub fn directory(&self) -> Option<&Directory> {
        self.view_layer().map(|layer| layer.directory())
    }

    /// The present member with this name.
    pub fn member_named(&self, name: &str) -> Option<Member> {
        match self.directory() {
            Some(directory) => directory.place(directory.named(name)?.0).map(Member),
            None => {
                let index = self.config.names.iter().position(|known| known == name)?;
                u32::try_from(index).ok().map(Member)
            }
        }
    }

    /// The other members that this node has a link to, connected or not.
    pub fn linked(&self) -> Vec<(Member, MemberId)> {
        let ids = self.layered.as_ref().map(|layered| layered.ids.as_slice()).unwrap_or_default();
        let id = |member: Member| Some((member, (*ids.get(member.index())?)?));
        self.peers().filter_map(id).collect()
    }

    /// Whether this node has a link to a member.
    pub fn is_linked(&self, id: MemberId) -> bool {
        self.linked().iter().any(|(_, one)| *one == id)
    }

    /// Whether this node is connected to a member.
    pub fn is_connected(&self, id: MemberId) -> bool {
        let connected = |member: Member| {
            let link = self.links.get(member.index()).and_then(Option::as_ref);
            link.is_some_and(Link::is_up)
        };
        self.linked().into_iter().any(|(member, one)| one == id && connected(member))
    }

    /// The names of the members, by place; that of a former member is its last one.
    pub fn names(&self) -> &[String] {
        &self.config.names
    }

    fn set_name(&mut self, member: Member, name: String) {
        let names = &mut self.config.names;
        if names.len() <= member.index() {
            names.resize(member.index() + 1, String::new());
        }
        names[member.index()] = name;
    }

    /// Whether the member that a hello comes from has been removed.
    pub(super) fn was_removed(&self, member: Member) -> bool {
        let id = self.directory().and_then(|directory| directory.at(member.0));
        id.is_some_and(|id| self.directory().is_some_and(|directory| directory.was_removed(id)))
    }

    /// Whether this member may have been removed without its knowledge, so that it should ask the
    /// others: it grants nothing, and reaches no majority of the voters that it knows. It may still
    /// be in a view, of which it was cut off before it learned of the next one.
    pub fn may_be_removed(&self, now: Moment) -> bool {
        let lapsed = self.view_layer().is_some_and(|layer| !layer.may_grant(now));
        lapsed && !self.sees_majority(now)
    }

    /// Makes links to new members, and ends those to former ones.
    pub(super) fn sync_members(&mut self, now: Moment) {
        let Some(layered) = &self.layered else { return };
        let mut places = layered.linked_places();
        for member in self.members() {
            // Not reached: a view in force is remembered.
            if let Some(id) = layered.ids.get(member.index()).copied().flatten() {
                places.entry(member.0).or_insert((id, None));
            }
        }
        let length = places.last_key_value().map_or(0, |(&last, _)| last as usize + 1);
        let length = length.max(self.links.len()).max(self.config.me.index() + 1);
        self.links.resize_with(length, || None);
        let ids = (0..length).map(|place| u32::try_from(place).ok());
        let ids = ids.map(|place| places.get(&place?).map(|(id, _)| *id)).collect();
        let me = self.config.me;
        for member in (0..).map(Member).take(length) {
            let wanted = places.contains_key(&member.0) && member != me;
            match (wanted, self.links[member.index()].is_some()) {
                (true, false) => self.links[member.index()] = Some(Link::new(now)),
                (false, true) => self.drop_link(member),
                (true, true) | (false, false) => {}
            }
        }
        if let Some(layered) = &mut self.layered {
            layered.ids = ids;
        }
        for (place, (_, name)) in places {
            if let Some(name) = name {
                self.set_name(Member(place), name);
            }
        }
        self.effects.push(Effect::Members);
    }

    /// Ends the link to a former member.
    fn drop_link(&mut self, peer: Member) {
        let instance = self.instance(peer);
        if let (Some(layered), Some(instance)) = (&mut self.layered, instance) {
            layered.layer.link_down(instance);
        }
        if let Some(connection) = self.link(peer).connection {
            self.effects.push(Effect::Close { peer, connection });
        }
        self.give_up_calls_to(peer);
        self.view_change.early.drop_from(peer);
        self.conflicts.remove(&peer);
        self.called.remove(&peer);
        self.ready.remove(&peer);
        self.links[peer.index()] = None;
        let text = format!("{} has left the cluster", self.name(peer));
        self.log(Level::Info, text);
    }

    /// Whether there is a link to this member.
    pub(super) fn has_link(&self, peer: Member) -> bool {
        self.links.get(peer.index()).is_some_and(Option::is_some)
    }
}

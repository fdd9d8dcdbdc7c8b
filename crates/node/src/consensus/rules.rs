//! The rules of locks change by command: they are decided, and in force with the next view.

use mutua_protocol::{Plan, Rule, encode_rules};
use tokio::time::{Instant, sleep};

use super::{
    Consensus, MembershipError, TRIED_SIZES,
    membership::{DECIDED_WITHIN, LOOK, PROPOSE_AGAIN},
};

impl Consensus {
    /// The rules that the next view has, and the number of their changes.
    pub(crate) fn rules(&self) -> Result<(u64, Vec<Rule>), MembershipError> {
        let driver = self.driver.upgrade().ok_or(MembershipError::NoCluster)?;
        let founding = self.identity().as_ref().map(|identity| identity.rules.clone());
        let founding = founding.ok_or(MembershipError::NoCluster)?;
        driver.call(|core, _| {
            let layer = core.protocol.view_layer().ok_or(MembershipError::NoCluster)?;
            let number = layer.state().rules_number();
            match core.protocol.decided_rules() {
                None => Ok((number, founding)),
                Some(Ok(rules)) => Ok((number, rules)),
                Some(Err(())) => Err(MembershipError::UnreadableRules),
            }
        })
    }

    /// Makes these the rules of all locks, at all members; it returns when a view with them has
    /// begun, with the number of changes.
    pub(crate) async fn change_rules(&self, rules: &[Rule]) -> Result<u64, MembershipError> {
        let members = self.directory()?.members().filter(|(_, one)| one.role.holds_locks()).count();
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        let invalid = |error: mutua_protocol::PlanError| MembershipError::InvalidRule {
            rule: error.rule + 1,
            why: error.why.to_string(),
        };
        Plan::new(members, rules).map_err(invalid)?;
        Plan::of_any_size(TRIED_SIZES.max(members), rules).map_err(invalid)?;
        let driver = self.driver.upgrade().ok_or(MembershipError::NoCluster)?;
        let consensus = driver.consensus.get().ok_or(MembershipError::NoCluster)?;
        let deadline = Instant::now() + DECIDED_WITHIN;
        let mut proposed: Option<Instant> = None;
        while Instant::now() < deadline {
            if self.rules()?.1 == rules {
                let begun = driver.call(|core, _| {
                    let layer = core.protocol.view_layer()?;
                    let number = layer.state().rules_number();
                    let view = layer.begun().or_else(|| {
                        // A member that is in no view knows what is decided.
                        let last = layer.state().last()?;
                        (layer.state().begun() == last.number).then_some(last)
                    });
                    view.filter(|view| view.rules_number() == number).map(|_| number)
                });
                if let Some(number) = begun {
                    return Ok(number);
                }
            } else if proposed.is_none_or(|at| at.elapsed() > PROPOSE_AGAIN) {
                let command = driver.call(|core, _| {
                    let state = core.protocol.view_layer()?.state();
                    state.change_rules(encode_rules(rules))
                });
                consensus.propose(&command.ok_or(MembershipError::OlderMembers)?);
                proposed = Some(Instant::now());
            }
            sleep(LOOK).await;
        }
        Err(MembershipError::Undecided)
    }
}

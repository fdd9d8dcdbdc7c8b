//! A lock within itself would wait for ever, so it is refused at once.
//!
//! The names that a command's ancestors hold are in its environment, each with where it is held, in
//! hexadecimal so that any name fits.

use anyhow::Result;

use super::Plan;
use crate::{exit::usage, local::Place};

/// The variable.
const HELD: &str = "MUTUA_HELD";

/// Refuses a name that an ancestor holds.
pub(super) fn check(plan: &Plan) -> Result<()> {
    let own = entry(plan)?;
    if held().split(':').any(|entry| entry == own) {
        return Err(usage(format!(
            "`{}` is held already by the command that this one runs in, which waits for this one: \
             it would never be free",
            plan.name
        )));
    }
    Ok(())
}

/// What the command is told.
pub(super) fn environment(plan: &Plan) -> Result<(&'static str, String)> {
    let held = held();
    let own = entry(plan)?;
    Ok((HELD, if held.is_empty() { own } else { format!("{held}:{own}") }))
}

fn held() -> String {
    std::env::var(HELD).unwrap_or_default()
}

fn entry(plan: &Plan) -> Result<String> {
    let place = match &plan.endpoint {
        Some(endpoint) => endpoint.clone(),
        None => Place::find()?.endpoint(),
    };
    let whole = format!("{place}\n{}", plan.name);
    Ok(whole.bytes().map(|byte| format!("{byte:02x}")).collect())
}

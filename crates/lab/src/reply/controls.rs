//! What the checker adds to the page: negative controls as scripts, and goals with their shortest
//! lengths.

use mutua_algorithms::{Claim, Kind, registry, self_stabilizing::Daemon};
use mutua_checker::{Limits, NoClock, Reduction, System as Checked, Task, check, table};

use super::{
    bounds::{self, Refused},
    played::{self, Goal, Played},
};
use crate::counterexample;

/// The most states of a search for the page.
const MOST_STATES: u64 = 200_000;

/// The negative controls of the checker's table that the page can search for, each with its name.
pub(super) fn rows() -> Vec<(String, table::Row)> {
    let controls = table::small().into_iter().filter(|row| row.violated.is_some());
    let fits = controls.filter(|row| !row.tasks.iter().any(is_large));
    fits.map(|row| (name(&row), row)).collect()
}

/// An old token comes back after more states than a search for the page has; the example
/// `naimi-trehel/old-token-returns` shows it.
fn is_large(task: &Task) -> bool {
    task.system.repair.is_some_and(|repair| repair.without_views)
}

fn name(row: &table::Row) -> String {
    let algorithm = row.tasks.first().map_or("", |task| task.name.as_str());
    let violated = row.violated.map_or("", Claim::name);
    format!("{algorithm}: {violated}, {}", row.title)
}

/// The shortest counterexample of a control, played.
pub(super) fn control(wanted: &str) -> Result<Played, Refused> {
    let unknown = || Refused::Unknown { what: "control", name: wanted.to_owned() };
    let (name, row) = rows().into_iter().find(|(name, _)| name == wanted).ok_or_else(unknown)?;
    let violated = row.violated.ok_or_else(unknown)?;
    for mut task in row.tasks {
        // The search of a ring under a daemon has a bound of its own.
        if !task.has_daemon() {
            task.limits = Limits { states: Some(MOST_STATES), ..Limits::default() };
        }
        task.first = true;
        task.properties = Some(vec![violated]);
        let report = check(&task, &mut NoClock)?;
        let found = report.verdicts.iter().find(|verdict| verdict.holds == Some(false));
        let Some((property, trail)) = found.and_then(|v| Some((&v.name, v.trail.as_ref()?))) else {
            continue;
        };
        let scripted = counterexample::script(&task, property, trail)?;
        let mut script = scripted.script;
        script.name = name;
        return played::play_script(&script);
    }
    Err(Refused::Unsuited(format!("`{wanted}`: no counterexample within {MOST_STATES} states")))
}

/// The shortest ways to a violation from the start of a script, each process requesting as often as
/// in the script, at least once.
pub(super) fn goals(text: &str) -> Result<Vec<Goal>, Refused> {
    let script = bounds::script("", text)?;
    let about = registry::about(&script.system.algorithm).ok_or_else(|| Refused::Unknown {
        what: "algorithm",
        name: script.system.algorithm.clone(),
    })?;
    let system = &script.system;
    let has_daemon = Daemon::of(about, &system.setup.settings).is_some();
    let is_plain = !has_daemon && system.repair.is_none() && system.sections.is_empty();
    if about.kind != Kind::Mutex || !is_plain {
        return Err(Refused::Unsuited(
            "goals are for mutual exclusion by messages, without a repair and with one critical \
             section"
                .to_owned(),
        ));
    }
    let entries = 1;
    let mut setup = script.system.setup.clone();
    let named = u32::try_from(script.system.processes.len()).unwrap_or(u32::MAX);
    setup.nodes = named;
    if setup.processes(about) > named {
        // A dedicated coordinator is among the names, but does not contend.
        setup.nodes = named.saturating_sub(1);
    }
    let mut system = Checked::new(setup, entries);
    system.links = script.system.links;
    let goal = |claim: Claim| -> Result<Goal, Refused> {
        let task = Task {
            name: about.name.to_owned(),
            system: system.clone(),
            properties: Some(vec![claim]),
            reduction: Reduction::All,
            limits: Limits { states: Some(MOST_STATES), ..Limits::default() },
            first: true,
            walks: None,
            invariants: Vec::new(),
        };
        let report = check(&task, &mut NoClock)?;
        let verdict = report.verdicts.first();
        let trail = verdict.and_then(|verdict| verdict.trail.as_ref());
        Ok(Goal {
            property: claim.name().to_owned(),
            steps: trail.map(|trail| trail.steps.len()),
            decided: verdict.is_some_and(|verdict| verdict.holds.is_some()),
            states: report.searches.iter().map(|search| search.states).sum(),
            entries,
        })
    };
    [Claim::MutualExclusion, Claim::DeadlockFree].into_iter().map(goal).collect()
}

//! tmp
use mutua_algorithms::*;
use mutua_checker::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut setup = Setup::new(a[2].parse().unwrap());
    for w in &a[6..] {
        setup.settings.parse(w).unwrap();
    }
    let sys = System::new(setup, a[3].parse().unwrap());
    let mut l = Limits::default();
    l.threads = a[4].parse().unwrap();
    l.states = Some(60_000_000);
    let t = Task {
        name: a[1].clone(),
        system: sys,
        properties: None,
        reduction: if a[5] == "r" { Reduction::All } else { Reduction::None },
        limits: l,
        first: false,
    };
    let r = check(&t, &mut |_| ()).unwrap();
    for s in &r.searches {
        println!(
            "  {:?} {} states {:.3}s {:.0}/s {:.1} B/state depth {} {:?}",
            s.properties,
            s.states,
            s.seconds,
            s.states as f64 / s.seconds,
            s.bytes as f64 / s.states as f64,
            s.depth,
            s.stopped
        );
    }
    for v in &r.verdicts {
        println!(
            "  {} claimed {} holds {:?} steps {:?}",
            v.name,
            v.claimed,
            v.holds,
            v.trail.as_ref().map(|t| (t.steps.len(), t.cycle))
        );
        if std::env::var("T").is_ok() {
            if let Some(t) = &v.trail {
                for h in &t.steps {
                    println!("     {h:?}");
                }
            }
        }
    }
    if std::env::var("G").is_ok() {
        for g in &r.goals {
            println!("   {g:?}");
        }
    }
}

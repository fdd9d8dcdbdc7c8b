//! tmp
use mutua_algorithms::*;
use mutua_checker::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let setup = Setup::new(a[2].parse().unwrap());
    let sys = System::new(setup, a[3].parse().unwrap());
    let mut l = Limits::default();
    l.threads = a[4].parse().unwrap();
    l.states = Some(60_000_000);
    println!("{} {}", a[1], tmp(&a[1], &sys, &l, a.get(5).is_some()));
}

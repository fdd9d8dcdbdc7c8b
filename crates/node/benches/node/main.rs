//! The costs of a node, each figure against a bare counterpart in the same run.
//!
//!     cargo bench -p mutua-node --bench node
//!
//! Arguments behind `--` choose parts: reentry, handover, tls, memory. Ratios are what counts: an
//! idle machine passes messages several times slower than a busy one, and other work on it disturbs
//! both sides alike.

mod handover;
mod memory;
mod reentry;
mod tls;

use std::{env, fs};

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["child", "ring", rest @ ..] => handover::ring_child(rest),
        ["child", "node", rest @ ..] => handover::node_child(rest, false),
        ["child", "node-tls", rest @ ..] => handover::node_child(rest, true),
        ["child", "names"] => memory::names_child(),
        ["child", "idle", rest @ ..] => memory::idle_child(rest, false),
        ["child", "idle-ring", rest @ ..] => memory::idle_child(rest, true),
        // Cargo adds an argument of its own.
        words => some(&words.iter().copied().filter(|word| *word != "--bench").collect::<Vec<_>>()),
    }
}

fn some(parts: &[&str]) {
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before: {}", load.trim());
    if wanted("reentry") {
        reentry::measure();
    }
    if wanted("handover") {
        handover::measure();
    }
    if wanted("tls") {
        tls::measure();
    }
    if wanted("memory") {
        memory::measure();
    }
}

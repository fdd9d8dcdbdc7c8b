//! The fuzz targets on the stable toolchain: every kept input, and a fixed number of mutations of
//! them. `MUTUA_FUZZ_INPUTS` sets that number for each target; a failure prints its input.

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "a crate of its own for cargo-fuzz")]
mod targets;

use std::{fs, panic, path::Path};

use mutua_algorithms::split_mix::Dice;
use targets::{TARGETS, Target};

/// The mutations for each target, unless the environment says otherwise.
const INPUTS: usize = 20_000;
/// The longest input.
const LONGEST: usize = 2048;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut files: Vec<_> = fs::read_dir(&directory).expect("a corpus").flatten().collect();
    files.sort_by_key(fs::DirEntry::file_name);
    files.iter().map(|file| fs::read(file.path()).expect("an input")).collect()
}

/// Changes an input in one to four places: bits, bytes, lengths, pieces of another input.
fn mutate(dice: &mut Dice, input: &mut Vec<u8>, other: &[u8]) {
    let mut below = |bound: usize| dice.index(bound.max(1));
    for _ in 0..1 + below(4) {
        let at = below(input.len() + 1);
        match below(6) {
            0 if at < input.len() => input[at] ^= 1 << below(8),
            1 if at < input.len() => input[at] = [0, 1, 0x7f, 0x80, 0xff][below(5)],
            2 if at < input.len() => drop(input.drain(at..(at + 1 + below(8)).min(input.len()))),
            3 => input.insert(at, below(256) as u8),
            4 => {
                // A length of up to 4 GiB.
                let length = [1u32 << 30, u32::MAX, 1 << 16, 0][below(4)];
                input.splice(at..at, length.to_le_bytes());
            }
            _ => {
                let from = below(other.len());
                let piece = &other[from..(from + below(64)).min(other.len())];
                input.splice(at..at, piece.iter().copied());
            }
        }
        input.truncate(LONGEST);
    }
}

fn run(name: &str, target: Target, inputs: usize) {
    let kept = corpus(name);
    let try_one = |input: &[u8]| {
        let result = panic::catch_unwind(|| target(input));
        assert!(result.is_ok(), "{name}: this input panics: {}", input.escape_ascii());
    };
    kept.iter().for_each(|input| try_one(input));
    // Mutations that were useful are kept as inputs of the next ones, so that changes add up.
    let mut dice = Dice(1);
    let mut pool = kept;
    for number in 0..inputs {
        let mut input = dice.pick(&pool).clone();
        let other = dice.index(pool.len());
        mutate(&mut dice, &mut input, &pool[other]);
        try_one(&input);
        if number % 16 == 0 && pool.len() < 1000 {
            pool.push(input);
        }
    }
}

#[test]
fn no_input_panics() {
    let inputs = std::env::var("MUTUA_FUZZ_INPUTS").ok().and_then(|text| text.parse().ok());
    for (name, target) in TARGETS {
        run(name, target, inputs.unwrap_or(INPUTS));
    }
}

//! See `config` in `src/lib.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mutua_fuzz::config(input));

//! `oncegate_fuzz::control`, fed by a fuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::feed(oncegate_fuzz::control::run, data));

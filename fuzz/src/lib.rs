//! What a fuzzer feeds. Each module takes any bytes and panics when something that must hold does not.
//!
//! `ONCEGATE_FUZZ_PLANT=1` plants one defect in the reference of `amount`, to see that the fuzzer finds one.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "to stop is how a target says that it has found something"
)]

use std::time::{Duration, Instant};

pub mod amount;
pub mod classifier;
pub mod configuration;
pub mod control;
pub mod keys;
pub mod matching;
pub mod rows;
pub mod spelling;

/// One target: its name, which is that of its corpus, and what is fed.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 8] = [
    ("matching", matching::run),
    ("spelling", spelling::run),
    ("configuration", configuration::run),
    ("amount", amount::run),
    ("keys", keys::run),
    ("classifier", classifier::run),
    ("control", control::run),
    ("rows", rows::run),
];

/// What one input may take. More is a hang, to whoever waits for the sidecar.
const INPUT_MAX: Duration = Duration::from_secs(1);
/// A machine that does something else makes one run slow, not each of so many.
const SLOW_RUNS: usize = 3;

/// Feeds one input to a target, and panics if that takes too long.
pub fn feed(run: fn(&[u8]), data: &[u8]) {
    for _ in 0..SLOW_RUNS {
        let begun = Instant::now();
        run(data);
        if begun.elapsed() <= INPUT_MAX {
            return;
        }
    }
    panic!("each of {SLOW_RUNS} times it took more than {INPUT_MAX:?}");
}

/// The lines of an input: at most `N`, the last with all that remains; those that are missing are empty. `None` for
/// what is not text.
fn lines<const N: usize>(data: &[u8]) -> Option<[&str; N]> {
    let mut lines = [""; N];
    for (line, text) in lines.iter_mut().zip(std::str::from_utf8(data).ok()?.splitn(N, '\n')) {
        *line = text;
    }
    Some(lines)
}

//! A small seeded generator, so that a long run can be played again.

/// SplitMix64: every seed gives another sequence, and the same one each time.
pub(crate) struct Random(u64);

impl Random {
    /// From `ONCEGATE_SEED`, else the same in every run; printed, so that a run can be repeated.
    pub(crate) fn seeded() -> Random {
        let seed = std::env::var("ONCEGATE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        figure(&format!("ONCEGATE_SEED={seed}"));
        Random(seed)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }
}

/// How many mutations to try: `ONCEGATE_MUTATIONS`, else `few`.
pub(crate) fn mutations(few: usize) -> usize {
    std::env::var("ONCEGATE_MUTATIONS").ok().map_or(few, |text| text.parse().expect("a number"))
}

/// A figure of a run, shown with `--nocapture`.
#[expect(clippy::print_stdout, reason = "for who reads the run")]
pub(crate) fn figure(text: &str) {
    println!("{text}");
}

//! "Did you mean …?"

/// The known word nearest to a word that is not known, if one is near enough to be what was meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    // A third of the letters may be wrong: more would suggest words that nobody meant.
    let tolerated = (lower.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= tolerated && *distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

/// `; did you mean …?`, or what there is, or nothing.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; known: {}", quoted(&known)),
    }
}

/// `` `a`, `b` ``
pub(crate) fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_word_is_suggested() {
        let known = ["limit", "listen", "a"];
        for (word, near) in [
            ("limt", Some("limit")),
            ("Listen", Some("listen")),
            ("lisetn", Some("listen")),
            ("amount", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), near, "{word}");
        }
    }
}

//! What all of GitHub's API has in common.

use crate::read_back::{ReadBack, ReadBackFault};

/// A read of GitHub's, which refuses requests without a `User-Agent`
/// (<https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api#user-agent>).
pub(crate) fn get(path_and_query: String) -> Result<ReadBack, ReadBackFault> {
    let headers = [("accept", "application/vnd.github+json"), ("user-agent", "oncegate")];
    ReadBack::get(path_and_query, headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
}

/// Whether a name of an account or a repository has one spelling: GitHub's own have no others, and what it makes of
/// `acme.git` or a space is not documented.
pub(crate) fn is_plain_name(word: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    word.bytes().all(plain) && !word.ends_with('.') && !word.to_ascii_lowercase().ends_with(".git")
}

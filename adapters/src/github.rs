//! What all of GitHub's API has in common.

use crate::read_back::{ReadBack, ReadBackFault};

/// A read of GitHub's, which refuses requests without a `User-Agent`
/// (<https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api#user-agent>).
pub(crate) fn get(path_and_query: String) -> Result<ReadBack, ReadBackFault> {
    let headers = [("accept", "application/vnd.github+json"), ("user-agent", "oncegate")];
    ReadBack::get(path_and_query, headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
}

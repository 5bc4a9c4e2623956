//! Scrubbers that were made already.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use aho_corasick::BuildError;
use lru::LruCache;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::Scrubber;

/// Scrubbers kept for one configuration: one for each set of secrets that is placed together. A secret that changes
/// (a file, a command) gets a new one, and the old one is the first to go.
const KEPT_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Scrubbers by what they look for. Building the search costs more than using it on a usual answer.
pub struct Scrubbers(Mutex<LruCache<[u8; 32], Scrubber>>);

impl Default for Scrubbers {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KEPT_MAX)))
    }
}

impl Scrubbers {
    /// The scrubber for these secrets, by name.
    ///
    /// # Errors
    /// As [`Scrubber::new`].
    pub fn of(&self, secrets: &BTreeMap<String, Zeroizing<String>>) -> Result<Scrubber, BuildError> {
        if secrets.is_empty() {
            return Ok(Scrubber::default());
        }
        let key = digest(secrets);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(&key) {
            return Ok(known.clone());
        }
        drop(kept);
        let made = Scrubber::new(secrets)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(key, made.clone());
        Ok(made)
    }
}

/// Lengths enter, so that no two sets run into the same bytes.
fn digest(secrets: &BTreeMap<String, Zeroizing<String>>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for (name, value) in secrets {
        for part in [name.as_bytes(), value.as_bytes()] {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_value_under_the_same_name_gets_a_scrubber_of_its_own() {
        let scrubbers = Scrubbers::default();
        let secret = |value: &str| BTreeMap::from([("KEY".to_owned(), Zeroizing::new(value.to_owned()))]);
        for value in ["sk_test_first_value", "sk_test_other_value", "sk_test_first_value"] {
            let scrubber = scrubbers.of(&secret(value)).unwrap();
            assert_eq!(scrubber.clean_text(value), "{{secret:KEY}}");
        }
        assert_eq!(scrubbers.0.lock().unwrap().len(), 2);
        assert!(scrubbers.of(&BTreeMap::new()).unwrap().is_empty());
    }
}

//! Identifiers. Each kind is its own type, so that an effect's id cannot stand where an invocation's belongs.

use std::fmt;

macro_rules! id_type {
    ($name:ident, $prefix:literal, $what:literal) => {
        #[doc = concat!("The id of ", $what, ": `", $prefix, "` and a ULID.")]
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// What every id of this kind starts with.
            pub const PREFIX: &'static str = $prefix;

            /// Makes an id from the 26 characters of a ULID.
            #[must_use]
            pub fn from_ulid(ulid: &str) -> Self {
                Self(format!("{}{ulid}", Self::PREFIX))
            }

            /// Reads an id; `None` when the prefix or the alphabet is not ours.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let tail = text.strip_prefix(Self::PREFIX)?;
                let known = tail.len() == 26 && tail.bytes().all(|b| b.is_ascii_alphanumeric());
                known.then(|| Self(text.to_owned()))
            }

            /// The id as it is written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id_type!(InvocationId, "inv_", "an invocation: one caller asking for one action");
id_type!(EffectId, "eff_", "an effect: what happens at the provider because of one invocation");
id_type!(AttemptId, "att_", "an attempt: one contact with the provider");
id_type!(ApprovalId, "apr_", "an approval");
id_type!(LimitId, "lim_", "an impact limit");
id_type!(PreviewId, "prv_", "a preview");
id_type!(
    OwnerId,
    "own_",
    "one run of the process, so that a later run knows which dispatches it does not own"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_another_kind_is_not_read() {
        let id = EffectId::from_ulid("01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert_eq!(EffectId::parse(id.as_str()), Some(id.clone()));
        assert_eq!(InvocationId::parse(id.as_str()), None);
        assert_eq!(EffectId::parse("eff_' or 1=1"), None);
    }
}

//! Why a body cannot be read in one way.

/// Most characters of input that a fault repeats.
const MAX_EXCERPT: usize = 64;

/// At most 64 characters of `text`, with control characters replaced, for a fault or a log line.
pub(crate) fn excerpt(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    if text.chars().nth(MAX_EXCERPT).is_none() {
        return text.chars().map(shown).collect();
    }
    text.chars().take(MAX_EXCERPT - 1).map(shown).chain(['…']).collect()
}

/// Why a body, or the input made of it, is refused. Names are cut to 64 characters; values are never shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// Not UTF-8 (RFC 8259 section 8.1), also after percent-decoding.
    #[error("the body is not valid UTF-8")]
    BadUtf8,
    /// A byte order mark (RFC 8259 section 8.1).
    #[error("the body begins with a byte order mark: send it without")]
    ByteOrderMark,
    /// Not JSON; the offset is in bytes.
    #[error("the body is not valid JSON at byte {at}")]
    Syntax {
        /// Offset in bytes.
        at: usize,
    },
    /// A string with a bad escape, a raw control character or a lone surrogate; the offset is in bytes.
    #[error(
        "the string at byte {at} of the body has a bad escape, a raw control character or a lone surrogate"
    )]
    BadString {
        /// Offset in bytes.
        at: usize,
    },
    /// Something after the value; the offset is in bytes.
    #[error("the body goes on after its JSON value at byte {at}: send exactly one value")]
    Trailing {
        /// Offset in bytes.
        at: usize,
    },
    /// A name that stands twice where one value belongs.
    #[error("`{name}` is given more than once: send it once")]
    Duplicate {
        /// The name, cut.
        name: String,
    },
    /// A member name that our JSON library gives a meaning of its own.
    #[error("the member name `{name}` is reserved and not accepted")]
    Reserved {
        /// The name, cut.
        name: String,
    },
    /// Nested too deeply.
    #[error("the body is nested more than {max} levels deep")]
    TooDeep {
        /// The bound.
        max: usize,
    },
    /// A number that parsers round, saturate or refuse, each in its own way.
    #[error("the number {number} is beyond the range that every parser reads alike")]
    NumberRange {
        /// The number, cut.
        number: String,
    },
    /// `%` without two hex digits.
    #[error("the form contains a percent sign without two hex digits: write %25 for a percent sign")]
    BadEscape,
    /// A raw `;`, which some parsers take for `&`.
    #[error("the form contains a raw semicolon: separate with & and write %3B for a semicolon")]
    Semicolon,
    /// A field without a name.
    #[error("the form contains a value without a name")]
    EmptyName,
    /// Brackets that do not close or do not end the name.
    #[error("the brackets in the form field `{name}` are not balanced: write them as a[b][c]")]
    Brackets {
        /// The field, cut.
        name: String,
    },
    /// White space at an end of a field's name, or a control character in it.
    #[error(
        "the form field `{name}` has white space at an end of its name or a control character in it: send it without"
    )]
    Mangled {
        /// The field, cut.
        name: String,
    },
    /// `a=` beside `a[b]=`, `a[]=` beside `a[b]=`, or several `a[][b]=`.
    #[error("the form field `{name}` contradicts another field: write a list of objects as a[0][b], a[1][b]")]
    Conflict {
        /// The field, cut.
        name: String,
    },
    /// Too many fields.
    #[error("the form has more than {max} fields")]
    TooManyFields {
        /// The bound.
        max: usize,
    },
    /// A charset other than UTF-8.
    #[error("the body must be UTF-8: remove the other charset from Content-Type")]
    Charset,
    /// A form that is JSON to whoever does not ask for the type.
    #[error("the body is JSON and its Content-Type says that it is a form: send it as application/json")]
    JsonAsForm,
    /// One input member both in the URL and in the body.
    #[error("`{name}` is given both in the URL and in the body: send it in one place")]
    TwoPlaces {
        /// The member, cut.
        name: String,
    },
}

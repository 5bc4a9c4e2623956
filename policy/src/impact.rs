//! How much an effect changes.

use std::fmt;

/// What is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Money in one currency (lower-case ISO 4217), in minor units.
    Money {
        /// For example `usd`.
        currency: String,
    },
    /// How many things at the provider are made, changed or removed.
    ResourceMutations,
    /// An operator's own dimension, `^[a-z][a-z0-9_]{0,31}$`.
    Declared {
        /// The dimension's name.
        name: String,
        /// What its amounts are counted in; the name itself when nothing else is declared.
        unit: String,
    },
}

impl Dimension {
    /// The public word: `money`, `resource_mutations` or the declared name.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Money { .. } => "money",
            Self::ResourceMutations => "resource_mutations",
            Self::Declared { name, .. } => name,
        }
    }

    /// What the amounts are counted in: the currency for money.
    #[must_use]
    pub fn unit(&self) -> &str {
        match self {
            Self::Money { currency } => currency,
            Self::ResourceMutations => "resource_mutations",
            Self::Declared { unit, .. } => unit,
        }
    }

    /// Reads the two public words back.
    #[must_use]
    pub fn from_words(word: &str, unit: &str) -> Self {
        match word {
            "money" => Self::Money { currency: unit.to_owned() },
            "resource_mutations" => Self::ResourceMutations,
            _ => Self::Declared { name: word.to_owned(), unit: unit.to_owned() },
        }
    }
}

/// Whether the amount is what will happen or the most that can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The amount is exact.
    Exact,
    /// The amount is an upper bound.
    UpperBound,
}

impl Bound {
    /// The public word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::UpperBound => "upper_bound",
        }
    }
}

/// What one effect takes of a limit. `amount` is `None` when it could not be established: harmless without an
/// applicable limit, refused with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impact {
    /// What is counted.
    pub dimension: Dimension,
    /// In minor units or counts, at most 2^63 - 1.
    pub amount: Option<i64>,
    /// Exact, or the most it can be.
    pub bound: Bound,
}

impl fmt::Display for Impact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.amount {
            Some(amount) => write!(f, "{amount} {}", self.dimension.unit()),
            None => write!(f, "an unknown amount of {}", self.dimension.unit()),
        }
    }
}

/// `amount` of a declared impact: an integer, `input.<path>` or `count(input.<path>)`, optionally `* <integer>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmountRule {
    /// What is read.
    pub of: AmountOf,
    /// What it is multiplied by; 1 when nothing is declared.
    pub times: i64,
}

/// Where a declared amount comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AmountOf {
    /// A constant.
    Literal(i64),
    /// The amount at a dotted path of the input.
    Input(String),
    /// How many items the list at a dotted path of the input has.
    Count(String),
}

impl AmountRule {
    /// Reads the expression; `None` when it is not of the grammar.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (base, times) = match text.split_once('*') {
            Some((base, factor)) => (base.trim(), factor.trim().parse::<i64>().ok().filter(|n| *n >= 0)?),
            None => (text.trim(), 1),
        };
        let path_ok = |path: &str| {
            !path.is_empty()
                && path.split('.').all(|part| !part.is_empty() && !part.contains(char::is_whitespace))
        };
        let of = if let Some(path) = base.strip_prefix("input.") {
            path_ok(path).then(|| AmountOf::Input(path.to_owned()))?
        } else if let Some(path) = base.strip_prefix("count(input.").and_then(|rest| rest.strip_suffix(')')) {
            path_ok(path).then(|| AmountOf::Count(path.to_owned()))?
        } else {
            AmountOf::Literal(base.parse::<i64>().ok().filter(|n| *n >= 0)?)
        };
        Some(Self { of, times })
    }

    /// The amount for this input. `Ok(None)` when the input does not say.
    ///
    /// # Errors
    /// The path whose value is not an amount, or a product beyond 2^63 - 1.
    pub fn amount(&self, input: &serde_json::Value) -> Result<Option<i64>, String> {
        let read = match &self.of {
            AmountOf::Literal(amount) => Some(*amount),
            AmountOf::Input(path) => match crate::json::get(input, path) {
                None | Some(serde_json::Value::Null) => None,
                Some(value) => {
                    let amount =
                        crate::json::amount(value).map_err(|fault| format!("input.{path}: {fault}"))?;
                    Some(
                        i64::try_from(amount)
                            .map_err(|_| format!("input.{path}: the amount is too large"))?,
                    )
                }
            },
            AmountOf::Count(path) => match crate::json::get(input, path) {
                Some(serde_json::Value::Array(items)) => i64::try_from(items.len()).ok(),
                None | Some(_) => None,
            },
        };
        read.map(|amount| amount.checked_mul(self.times).ok_or_else(|| "the amount is too large".to_owned()))
            .transpose()
    }
}

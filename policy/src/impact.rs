//! How much an effect changes.

use std::fmt;

use crate::money;

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
        match (self.amount, &self.dimension) {
            (Some(amount), Dimension::Money { currency }) => f.write_str(&money::in_words(amount, currency)),
            (Some(amount), dimension) => write!(f, "{amount} {}", dimension.unit()),
            (None, _) => write!(f, "an unknown amount of {}", self.dimension.unit()),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn money() -> Dimension {
        Dimension::Money { currency: "usd".into() }
    }

    #[test]
    fn a_dimension_is_read_back_from_its_two_words() {
        let declared = Dimension::Declared { name: "seats".into(), unit: "seat".into() };
        for (dimension, word, unit) in [
            (money(), "money", "usd"),
            (Dimension::ResourceMutations, "resource_mutations", "resource_mutations"),
            (declared, "seats", "seat"),
        ] {
            assert_eq!((dimension.word(), dimension.unit()), (word, unit));
            assert_eq!(Dimension::from_words(word, unit), dimension);
        }
        assert_eq!([Bound::Exact, Bound::UpperBound].map(Bound::word), ["exact", "upper_bound"]);
        let said = |amount| Impact { dimension: money(), amount, bound: Bound::Exact }.to_string();
        assert_eq!([said(Some(5)), said(None)], ["0.05 USD", "an unknown amount of usd"]);
    }

    #[test]
    fn an_amount_is_a_number_a_member_or_a_count_and_perhaps_times_something() {
        let input =
            json!({ "n": 7, "a": { "b": "3" }, "list": [1, 2], "none": null, "no": "1.5", "most": i64::MAX });
        let too_large = || Err("the amount is too large".to_owned());
        for (rule, amount) in [
            ("12", Ok(Some(12))),
            ("0", Ok(Some(0))),
            ("12 * 3", Ok(Some(36))),
            ("12*0", Ok(Some(0))),
            ("input.n", Ok(Some(7))),
            ("input.a.b * 100", Ok(Some(300))),
            ("count(input.list)", Ok(Some(2))),
            ("count(input.list) * 5", Ok(Some(10))),
            ("input.most", Ok(Some(i64::MAX))),
            ("input.most * 2", too_large()),
            ("9223372036854775807 * 2", too_large()),
            // Nobody knows.
            ("input.gone", Ok(None)),
            ("input.none", Ok(None)),
            ("count(input.gone)", Ok(None)),
            ("count(input.n)", Ok(None)),
        ] {
            let parsed = AmountRule::parse(rule).unwrap();
            assert_eq!(parsed.amount(&input), amount, "{rule}");
        }
        let fault = AmountRule::parse("input.no").unwrap().amount(&input).unwrap_err();
        assert!(fault.starts_with("input.no: "), "{fault}");
    }

    #[test]
    fn what_is_not_of_the_grammar_is_not_read() {
        for rule in [
            "",
            "-1",
            "1.5",
            "n",
            "12 * -1",
            "12 * ",
            "12 * x",
            "* 3",
            "2 * 3 * 4",
            "input.",
            "input..a",
            "input.a.",
            "input.a b",
            "count(input.)",
            "count(input.a..b)",
            "count(input.a",
            "count(n)",
            "count(input.a b)",
        ] {
            assert_eq!(AmountRule::parse(rule), None, "{rule}");
        }
    }
}

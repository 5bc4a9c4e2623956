//! Money as a person reads it.

/// An amount of minor units in its currency (lower-case ISO 4217): `120.00 USD`, `5000 JPY`, `1.230 KWD`.
#[must_use]
pub fn in_words(minor_units: i64, currency: &str) -> String {
    let name = currency.to_ascii_uppercase();
    match decimals(currency) {
        0 => format!("{minor_units} {name}"),
        decimals => format!("{} {name}", with_point(minor_units, decimals)),
    }
}

fn with_point(number: i64, decimals: usize) -> String {
    let digits = format!("{:0>width$}", number.unsigned_abs(), width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(decimals));
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{whole}.{fraction}")
}

/// ISO 4217's minor units, where they are not two.
fn decimals(currency: &str) -> usize {
    match currency {
        "bif" | "clp" | "djf" | "gnf" | "jpy" | "kmf" | "krw" | "mga" | "pyg" | "rwf" | "ugx" | "vnd"
        | "vuv" | "xaf" | "xof" | "xpf" => 0,
        "bhd" | "jod" | "kwd" | "omr" | "tnd" => 3,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_written_with_its_own_decimals() {
        for (number, currency, text) in [
            (12_000, "usd", "120.00 USD"),
            (5, "usd", "0.05 USD"),
            (-5, "usd", "-0.05 USD"),
            (0, "usd", "0.00 USD"),
            (5_000, "jpy", "5000 JPY"),
            (1_234, "kwd", "1.234 KWD"),
            (i64::MIN, "usd", "-92233720368547758.08 USD"),
        ] {
            assert_eq!(in_words(number, currency), text);
        }
    }
}

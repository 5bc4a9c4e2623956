//! From a body to an amount: what is counted is what the provider will read.

use std::sync::OnceLock;

use oncegate_policy::body;
use oncegate_policy::impact::AmountRule;
use serde_json::Value;

fn rule() -> &'static AmountRule {
    static RULE: OnceLock<AmountRule> = OnceLock::new();
    RULE.get_or_init(|| AmountRule::parse("input.amount").expect("a rule"))
}

/// The first byte chooses the encoding; the rest is a body.
pub fn run(data: &[u8]) {
    compare(data, planted());
}

/// As [`run`]; `planted` has the reference take every number for a double.
pub fn compare(data: &[u8], planted: bool) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let json = choice % 2 == 0;
    let declared = if json { "application/json" } else { "application/x-www-form-urlencoded" };
    let Ok((_, input)) = body::read(Some(declared), bytes) else { return };
    let Ok(Some(counted)) = rule().amount(&input) else { return };
    let read = if json { of_json(bytes, planted) } else { of_form(bytes) };
    assert_eq!(read.as_deref(), Some(counted.to_string().as_str()), "{:?}", String::from_utf8_lossy(bytes));
}

/// Another reader's: the last member of that name, as it is written.
fn of_json(bytes: &[u8], planted: bool) -> Option<String> {
    let object: Value = serde_json::from_slice(bytes).ok()?;
    match object.get("amount")? {
        Value::Number(number) if planted => Some(format!("{}", number.as_f64()?)),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The WHATWG's reading (<https://url.spec.whatwg.org/#urlencoded-parsing>), of plain names alone.
fn of_form(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut found = text.split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (unescaped(name)? == "amount").then(|| unescaped(value)).flatten()
    });
    let first = found.next();
    assert!(found.next().is_none(), "two amounts were taken for one");
    first
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let hex = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?
            }
            plain => plain,
        });
    }
    String::from_utf8(out).ok()
}

fn planted() -> bool {
    static PLANTED: OnceLock<bool> = OnceLock::new();
    *PLANTED.get_or_init(|| std::env::var_os("ONCEGATE_FUZZ_PLANT").is_some())
}

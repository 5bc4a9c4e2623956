//! The case files in `tests/cases`, read as they are.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use toml::{Table, Value};

/// All `[[case]]` of a file.
pub(crate) fn load(name: &str) -> Vec<Table> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut file: Table = text.parse().unwrap();
    let Some(Value::Array(cases)) = file.remove("case") else { panic!("no cases in {}", path.display()) };
    let tables = cases.into_iter().map(|case| case.try_into().expect("a table"));
    tables.collect()
}

/// A text in a case, if it is there.
pub(crate) fn text<'c>(case: &'c Table, name: &str) -> Option<&'c str> {
    case.get(name).and_then(Value::as_str)
}

/// A text that every case of the file has.
pub(crate) fn must<'c>(case: &'c Table, name: &str) -> &'c str {
    text(case, name).unwrap_or_else(|| panic!("no {name} in {case}"))
}

/// Plays one case; a failed assertion becomes a line for the list of all that went wrong.
pub(crate) fn attempt(name: &str, play: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(play)) {
        Ok(done) => done,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
            Err(format!("{name}: {}", text.unwrap_or_default()))
        }
    }
}

//! Lists that are longer than a page: read to their end, or said to be longer than what is shown.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::Value;

use super::exit::Stop;
use super::print;

/// Rows of one page.
const PAGE_ROWS: u32 = 200;
/// Rows that are shown when nobody says how many.
const ROWS_DEFAULT: u32 = 50;
/// Rows of a list that is shown whole, at most.
const ROWS_MAX: u32 = 100_000;

/// Which part of a list is wanted.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    /// At most so many [default: 50, or all of what is open]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(ROWS_MAX)))]
    pub(crate) limit: Option<u32>,
    /// After so many
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u32,
}

/// What was read.
pub(crate) struct Listed {
    /// A list.
    pub(crate) rows: Value,
    /// How many are shown of how many, where not all are.
    cut: Option<(usize, u64)>,
}

impl Listed {
    /// The rows; says on standard error what is left out.
    pub(crate) fn told(self) -> Value {
        if let Some((shown, total)) = self.cut {
            print::note(&format!("{shown} of {total} shown: --limit and --offset show others"));
        }
        self.rows
    }
}

impl Part {
    /// Reads it page by page. Without `--limit` all of it where `is_open`: what somebody has to settle or decide must not be
    /// missed. `page` gives at most so many rows after so many, and how many there are.
    pub(crate) async fn read(
        self,
        is_open: bool,
        page: impl AsyncFn(u32, u32) -> Result<(Value, u64), Stop>,
    ) -> Result<Listed, Stop> {
        let at_most = self.limit.unwrap_or(if is_open { ROWS_MAX } else { ROWS_DEFAULT });
        let (mut rows, mut seen, mut taken) = (Vec::new(), BTreeSet::new(), 0);
        let total = loop {
            let limit = PAGE_ROWS.min(at_most - taken);
            let (data, total) = page(limit, self.offset.saturating_add(taken)).await?;
            let Value::Array(found) = data else { return Err(Stop::failed("the sidecar gave no list")) };
            let count = u32::try_from(found.len()).unwrap_or(u32::MAX);
            taken = taken.saturating_add(count);
            // What came in meanwhile has moved rows to the next page.
            rows.extend(found.into_iter().filter(|row| seen.insert(row["id"].as_str().map(str::to_owned))));
            if count < limit || taken >= at_most {
                break total;
            }
        };
        let end = u64::from(self.offset).saturating_add(u64::from(taken));
        let cut = (end < total || self.offset > 0).then_some((rows.len(), total));
        Ok(Listed { rows: Value::Array(rows), cut })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A list of so many, newest first; each page moves it on by one.
    async fn read(part: Part, is_open: bool, number: u32) -> Vec<String> {
        let moved = std::cell::Cell::new(0);
        let page = async |limit: u32, offset: u32| {
            let first = offset.saturating_sub(moved.replace(moved.get() + 1));
            let rows: Vec<_> = (first..number.min(first.saturating_add(limit)))
                .map(|at| json!({ "id": at.to_string() }))
                .collect();
            Ok((Value::Array(rows), u64::from(number)))
        };
        let rows = part.read(is_open, page).await.unwrap().rows;
        rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }

    #[tokio::test]
    async fn what_is_open_is_read_to_its_end_and_no_row_twice() {
        let number =
            |part: Part, is_open: bool, number: u32| async move { read(part, is_open, number).await.len() };
        let whole = Part::default();
        assert_eq!((number(whole, true, 60).await, number(whole, false, 60).await), (60, 50));
        assert_eq!((number(whole, true, 1000).await, number(whole, true, 0).await), (1000, 0));
        assert_eq!(number(Part { limit: Some(250), offset: 0 }, true, 1000).await, 249, "one of them twice");
        assert_eq!(read(Part { limit: Some(2), offset: 3 }, false, 9).await, ["3", "4"]);
    }
}

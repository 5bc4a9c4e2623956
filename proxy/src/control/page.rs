//! Pages of a list.

use serde::Serialize;

use super::answer::ApiError;

/// Rows of a page when nobody says how many.
const LIMIT_DEFAULT: u32 = 50;
/// Most rows of one page.
const LIMIT_MAX: u32 = 200;

/// Which part of a list is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// At most so many, 1 or more.
    pub(crate) limit: u32,
    /// After so many.
    pub(crate) offset: u32,
}

impl Window {
    /// Reads `limit` and `offset` as they stand in a query.
    pub(crate) fn read(limit: Option<&str>, offset: Option<&str>) -> Result<Self, ApiError> {
        let limit = match limit {
            None => LIMIT_DEFAULT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit: &u32| *limit > 0)
                .ok_or_else(|| ApiError::parameter("limit", "a whole number, 1 or more"))?
                .min(LIMIT_MAX),
        };
        let offset = match offset {
            None => 0,
            Some(text) => {
                text.parse().map_err(|_| ApiError::parameter("offset", "a whole number, 0 or more"))?
            }
        };
        Ok(Self { limit, offset })
    }
}

/// Where a page stands in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pagination {
    total: u64,
    page: u64,
    limit: u32,
    total_pages: u64,
    has_more: bool,
}

impl Pagination {
    /// Where `window` stands in a list of `total`.
    pub(crate) fn of(window: Window, total: u64) -> Self {
        let limit = u64::from(window.limit.max(1));
        let offset = u64::from(window.offset);
        Self {
            total,
            page: offset / limit + 1,
            limit: window.limit,
            total_pages: total.div_ceil(limit),
            has_more: offset.saturating_add(limit) < total,
        }
    }

    /// All of a list that is never cut.
    pub(crate) fn whole(total: usize) -> Self {
        let total = u64::try_from(total).unwrap_or(u64::MAX);
        Self {
            total,
            page: 1,
            limit: u32::try_from(total).unwrap_or(u32::MAX),
            total_pages: total.min(1),
            has_more: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_from_one() {
        let shown = |limit, offset, total| {
            let page = Pagination::of(Window { limit, offset }, total);
            (page.page, page.total_pages, page.has_more)
        };
        assert_eq!(shown(50, 0, 0), (1, 0, false));
        assert_eq!(shown(50, 0, 50), (1, 1, false));
        assert_eq!(shown(50, 0, 51), (1, 2, true));
        assert_eq!(shown(50, 50, 51), (2, 2, false));
        // A list that is never cut has as many pages as one that is: none where there is nothing.
        let whole = |total| {
            let page = Pagination::whole(total);
            (page.page, page.total_pages, page.has_more)
        };
        assert_eq!([whole(0), whole(51)], [(1, 0, false), (1, 1, false)]);
    }

    #[test]
    fn a_window_is_bounded() {
        assert_eq!(Window::read(None, None).unwrap(), Window { limit: 50, offset: 0 });
        assert_eq!(Window::read(Some("1000"), None).unwrap(), Window { limit: 200, offset: 0 });
        for (limit, offset) in [(Some("0"), None), (Some("-1"), None), (Some("x"), None), (None, Some("-1"))]
        {
            assert!(Window::read(limit, offset).is_err(), "{limit:?} {offset:?}");
        }
    }
}

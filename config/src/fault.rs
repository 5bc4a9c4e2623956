//! What is wrong with a configuration, and where.

use std::cell::RefCell;

use crate::Source;

/// One thing that is wrong (or, as a warning, doubtful), and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct Fault {
    /// The name of the [`Source`].
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// A byte of one of the sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Which source.
    pub(crate) file: usize,
    /// Bytes from its start.
    pub(crate) offset: usize,
}

/// Collects every fault and warning, so that a reader can record one and go on.
pub(crate) struct Log<'a> {
    sources: &'a [Source<'a>],
    faults: RefCell<Vec<(Place, String)>>,
    warnings: RefCell<Vec<(Place, String)>>,
}

impl<'a> Log<'a> {
    pub(crate) fn new(sources: &'a [Source<'a>]) -> Self {
        Self { sources, faults: RefCell::default(), warnings: RefCell::default() }
    }

    pub(crate) fn fault(&self, place: Place, message: impl Into<String>) {
        self.faults.borrow_mut().push((place, message.into()));
    }

    pub(crate) fn warn(&self, place: Place, message: impl Into<String>) {
        self.warnings.borrow_mut().push((place, message.into()));
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.faults.borrow().is_empty()
    }

    /// `file:line:column`, for a fault that points at a second place.
    pub(crate) fn spell(&self, place: Place) -> String {
        let Fault { file, line, column, .. } = self.locate((place, String::new()));
        format!("{file}:{line}:{column}")
    }

    /// Faults, then warnings, each in the order of the text.
    pub(crate) fn finish(self) -> (Vec<Fault>, Vec<Fault>) {
        let sorted = |found: &RefCell<Vec<(Place, String)>>| {
            let mut found = found.take();
            found.sort();
            found.dedup();
            found.into_iter().map(|one| self.locate(one)).collect()
        };
        (sorted(&self.faults), sorted(&self.warnings))
    }

    fn locate(&self, (place, message): (Place, String)) -> Fault {
        let Some(source) = self.sources.get(place.file) else {
            return Fault { file: String::new(), line: 1, column: 1, message };
        };
        let before = source.text.get(..place.offset).unwrap_or(source.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Fault {
            file: source.name.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |part| part.chars().count()) + 1,
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_and_lines_from_one() {
        let sources =
            [Source { name: "a.toml", text: "x = 1\nü = é\r\n" }, Source { name: "b.toml", text: "" }];
        let log = Log::new(&sources);
        for (file, offset, spelled) in [
            (0, 0, "a.toml:1:1"),
            (0, 5, "a.toml:1:6"),
            (0, 6, "a.toml:2:1"),
            (0, 8, "a.toml:2:2"),
            (1, 0, "b.toml:1:1"),
        ] {
            assert_eq!(log.spell(Place { file, offset }), spelled);
        }
    }
}

//! Plain tables for a terminal: columns as wide as their widest cell, numbers to the right.

/// Where a column's cells stand.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Lays out rows under their headings. Every row has as many cells as there are columns.
pub(crate) fn table(columns: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = columns.iter().map(|(heading, _)| heading.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let headings: Vec<String> = columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&headings).chain(rows) {
        let mut line = String::new();
        for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(columns) {
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            match align {
                Align::Left => line.push_str(&format!("{cell}{gap}  ")),
                Align::Right => line.push_str(&format!("{gap}{cell}  ")),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Lays out names and values, one a line.
pub(crate) fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "1200".to_owned()]];
        assert_eq!(
            table(&[("NAME", Align::Left), ("N", Align::Right)], &rows),
            "NAME     N\na        1\nlong  1200\n"
        );
        assert_eq!(facts(&[("id", "x".to_owned()), ("stage", "y".to_owned())]), "id     x\nstage  y\n");
    }
}

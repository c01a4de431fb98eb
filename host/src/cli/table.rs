//! Tables without borders: a header, aligned columns, colour that does not disturb the alignment.
//!
//! Columns are aligned by display width. Knows only text.

use unicode_width::UnicodeWidthStr;

use super::print::{Ink, Tone};

const GAP: usize = 2;

/// A piece of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// Rows under a header. Columns in which every cell is empty are left out.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.header.len());
        self.rows.push(cells.into());
    }

    /// The table as text, one line for each row, each ended.
    #[must_use]
    pub fn text(&self, ink: Ink) -> String {
        let shown: Vec<usize> =
            (0..self.header.len()).filter(|&at| self.column(at).any(|text| !text.is_empty())).collect();
        let width = |at: usize| self.column(at).chain([self.header[at]]).map(UnicodeWidthStr::width).max().unwrap_or(0);
        let widths: Vec<usize> = shown.iter().map(|&at| width(at)).collect();
        let line = |cells: Vec<(Tone, &str)>| {
            let mut line = String::new();
            for (place, (tone, text)) in cells.iter().enumerate() {
                line.push_str(&ink.paint(*tone, text));
                if cells[place + 1..].iter().any(|(_, later)| !later.is_empty()) {
                    line.extend(std::iter::repeat_n(' ', widths[place] - text.width() + GAP));
                }
            }
            line.push('\n');
            line
        };
        let header = line(shown.iter().map(|&at| (Tone::Dim, self.header[at])).collect());
        let rows = self.rows.iter().map(|row| {
            line(shown.iter().filter_map(|&at| row.get(at)).map(|cell| (cell.tone, cell.text.as_str())).collect())
        });
        std::iter::once(header).chain(rows).collect()
    }

    fn column(&self, at: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| row.get(at)).map(|cell| cell.text.as_str())
    }
}

/// Names and values below each other; empty values are left out.
#[must_use]
pub fn facts(ink: Ink, facts: &[(&str, String)]) -> String {
    let width = facts.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.width()).max().unwrap_or(0);
    let shown = facts.iter().filter(|(_, value)| !value.is_empty());
    let line = |(name, value): &(&str, String)| {
        [ink.paint(Tone::Dim, format!("{name:width$}")), "  ".into(), value.clone(), "\n".into()].concat()
    };
    shown.map(line).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let mut table = Table::new(&["NAME", "NOTHING", "STATE", "WHY"]);
        table.row(["größe".into(), "".into(), Cell::new(Tone::Good, "SUCCESS"), "".into()]);
        table.row(["a".into(), "".into(), Cell::new(Tone::Bad, "FAILED"), "it broke".into()]);
        expect![[r"
            NAME   STATE    WHY
            größe  SUCCESS
            a      FAILED   it broke
        "]]
        .assert_eq(&table.text(Ink::OFF));
    }

    #[test]
    fn facts_that_are_not_there_take_no_line() {
        expect![[r"
            id     1
            state  PENDING
        "]]
        .assert_eq(&facts(Ink::OFF, &[("id", "1".into()), ("creator", String::new()), ("state", "PENDING".into())]));
    }
}

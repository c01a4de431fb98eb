//! What is written to stdout and stderr: results to the first, everything said beside them to the second.
//!
//! Colour only on a terminal, JSON only when asked for. Knows no command and no task.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// What a piece of text means; how it looks is up to the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Strong,
    Dim,
    Good,
    Bad,
    Warn,
    Live,
}

/// Paints, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    on: bool,
}

impl Ink {
    pub const OFF: Self = Self { on: false };

    /// Colour is for terminals, and only if <https://no-color.org> is not asked for.
    fn of(terminal: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { on: terminal && !dumb && !set("NO_COLOR") }
    }

    #[must_use]
    pub fn paint(self, tone: Tone, text: impl Display) -> String {
        let code = match tone {
            Tone::Plain => return text.to_string(),
            _ if !self.on => return text.to_string(),
            Tone::Strong => "1",
            Tone::Dim => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Warn => "33",
            Tone::Live => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// The two streams, and how they are to be written.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Print {
    pub json: bool,
    pub quiet: bool,
    /// A person looks at stdout.
    pub out_terminal: bool,
    /// A person looks at stderr.
    pub err_terminal: bool,
    pub out: Ink,
    pub err: Ink,
}

#[expect(clippy::unused_self, reason = "whoever writes has to have a `Print`")]
impl Print {
    #[must_use]
    pub fn new(json: bool, quiet: bool) -> Self {
        let (out_terminal, err_terminal) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self { json, quiet, out_terminal, err_terminal, out: Ink::of(out_terminal), err: Ink::of(err_terminal) }
    }

    /// A line of the result.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn line(self, text: impl Display) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }

    /// A text of the result that ends its own lines.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn text(self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// The result as one JSON document, laid out if a person reads it.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn document(self, value: &impl Serialize) -> io::Result<()> {
        let text = if self.out_terminal { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        self.line(text.map_err(io::Error::other)?)
    }

    /// One of many JSON documents, each on a line of its own.
    ///
    /// # Errors
    /// Nobody reads it.
    pub fn record(self, value: &impl Serialize) -> io::Result<()> {
        self.line(serde_json::to_string(value).map_err(io::Error::other)?)
    }

    /// Says something beside the result. That nobody hears it is no error.
    pub fn say(self, text: impl Display) {
        if !self.quiet {
            self.shout(text);
        }
    }

    /// As [`Print::say`], and even if it is to be quiet.
    pub fn shout(self, text: impl Display) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// JSON as text, laid out if a person reads it. Keys keep their order and numbers their digits.
#[must_use]
pub fn json_text(text: &str, laid_out: bool) -> String {
    if !laid_out || serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return text.trim().to_owned();
    }
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut rest = text.chars().filter(|c| !c.is_ascii_control()).peekable();
    while let Some(c) = rest.next() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        while c != '"' && rest.next_if_eq(&' ').is_some() {}
        let empty = matches!((c, rest.peek()), ('{', Some('}')) | ('[', Some(']')));
        match c {
            ' ' => continue,
            '{' | '[' if empty => {
                out.push(c);
                out.extend(rest.next());
                continue;
            }
            '{' | '[' => depth += 1,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
            }
            _ => in_string = c == '"',
        }
        out.push(c);
        match c {
            '{' | '[' | ',' => new_line(&mut out, depth),
            ':' => out.push(' '),
            _ => {}
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Text from a guest or a stranger, in one line and with nothing in it that a terminal would obey.
#[must_use]
pub fn tame(text: &str) -> String {
    let tamed = |c: char| match c {
        '\n' | '\r' => ' ',
        c if c.is_control() && c != '\t' => '\u{fffd}',
        c => c,
    };
    text.trim_end().chars().map(tamed).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn ink_that_is_off_leaves_no_trace() {
        assert_eq!(Ink::OFF.paint(Tone::Bad, "FAILED"), "FAILED");
        assert_eq!(Ink { on: true }.paint(Tone::Bad, "FAILED"), "\x1b[31mFAILED\x1b[0m");
        assert_eq!(Ink { on: true }.paint(Tone::Plain, "x"), "x");
    }

    #[test]
    fn a_guest_cannot_talk_to_the_terminal() {
        assert_eq!(tame("a\x1b[2Jb\nc\td\n"), "a\u{fffd}[2Jb c\td");
    }

    #[test]
    fn json_is_laid_out_for_people_only() {
        assert_eq!(json_text("{\"a\":1}", false), "{\"a\":1}");
        assert_eq!(json_text("{\"a\":1}", true), "{\n  \"a\": 1\n}");
        assert_eq!(json_text("no json ", true), "no json");
    }

    #[test]
    fn json_that_is_laid_out_says_the_same() {
        let text = r#" {"z": [1.50, {}, [ ], "a,\"{\\"],
            "a" : {"b":null,"c":[[true]]} , "n": 123456789012345678901234567890} "#;
        expect![[r#"
            {
              "z": [
                1.50,
                {},
                [],
                "a,\"{\\"
              ],
              "a": {
                "b": null,
                "c": [
                  [
                    true
                  ]
                ]
              },
              "n": 123456789012345678901234567890
            }"#]]
        .assert_eq(&json_text(text, true));
        for text in ["\"  a  b\"", "3", "[]", "{ }", "null"] {
            assert_eq!(json_text(text, true), text.replace("{ }", "{}"));
        }
    }
}

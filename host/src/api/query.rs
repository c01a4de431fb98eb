//! Query parameters: each read by name, and those that nobody asked for refused.
//!
//! Must not know what they mean.

use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::problem::Problem;

/// The parameters of a request, still to be asked for.
pub(super) struct Query {
    pairs: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

/// A parameter that is not what it should be.
pub(super) fn invalid(name: &str, problem: impl Display) -> Problem {
    Problem::new("invalid_query", format!("parameter `{name}`: {problem}"))
}

impl Query {
    fn parse(text: &str) -> Result<Self, Problem> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let read = |text| unescaped(text).ok_or_else(|| invalid(name, "is not percent-encoded UTF-8"));
            Ok((read(name)?, read(value)?))
        };
        let pairs = text.split('&').filter(|text| !text.is_empty()).map(pair).collect::<Result<_, Problem>>()?;
        Ok(Self { pairs, known: Vec::new() })
    }

    /// All values of this name.
    pub(super) fn all(&mut self, name: &'static str) -> Vec<String> {
        self.known.push(name);
        self.pairs.extract_if(.., |(given, _)| given == name).map(|(_, value)| value).collect()
    }

    /// The value of this name.
    pub(super) fn one<T: FromStr<Err: Display>>(&mut self, name: &'static str) -> Result<Option<T>, Problem> {
        let mut values = self.all(name).into_iter();
        let value = values.next();
        if values.next().is_some() {
            return Err(invalid(name, "is given more than once"));
        }
        value.map(|text| text.parse().map_err(|error: T::Err| invalid(name, error))).transpose()
    }

    /// The number of this name, if it is within the range.
    pub(super) fn number(
        &mut self,
        name: &'static str,
        range: std::ops::RangeInclusive<usize>,
    ) -> Result<Option<usize>, Problem> {
        let (least, most) = (*range.start(), *range.end());
        let out = || invalid(name, format!("must be a number from {least} to {most}"));
        let Some(text) = self.one::<Text>(name)? else { return Ok(None) };
        text.0.parse().ok().filter(|number| range.contains(number)).map(Some).ok_or_else(out)
    }

    /// Nothing else was to be asked for.
    pub(super) fn end(self) -> Result<(), Problem> {
        let Some((name, _)) = self.pairs.first() else { return Ok(()) };
        let name: String = name.chars().take(80).collect();
        let known = self.known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        let offer = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(invalid(&name, format!("is not known here; there are: {offer}")))
    }
}

/// Any text.
pub(super) struct Text(pub(super) String);

impl FromStr for Text {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

/// `+` is a space and `%41` a byte (<https://url.spec.whatwg.org/#urlencoded-parsing>), but what is not UTF-8 is nothing.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (char::from(rest.next()?).to_digit(16)?, char::from(rest.next()?).to_digit(16)?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_and_bad_ones_refused() {
        assert_eq!(unescaped("a+b%2Bc%C3%BC").as_deref(), Some("a b+cü"));
        for wrong in ["%", "%4", "%zz", "%ff", "%C3"] {
            assert_eq!(unescaped(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_parameter_that_nobody_asked_for_is_refused_with_those_there_are() {
        let mut query = Query::parse("limit=3&limt=4").unwrap();
        assert_eq!(query.number("limit", 1..=9).unwrap(), Some(3));
        let problem = query.end().unwrap_err();
        assert!(problem.detail.contains("`limt`") && problem.detail.contains("`limit`"), "{}", problem.detail);
    }
}

//! Bodies and paths, read with a bound on their size and time, and every refusal a problem.
//!
//! Must not know routes or the host.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::id::TaskId;

/// Of a body of JSON.
pub(super) const JSON_BYTES_MAX: usize = 2 << 20;
const JSON_TIMEOUT: Duration = Duration::from_secs(30);
/// What is too large is read on for a while and thrown away: a client that still writes would not hear the answer.
const THROWN_AWAY_BYTES_MAX: usize = 64 << 20;
const THROWN_AWAY_TIMEOUT: Duration = Duration::from_secs(5);

/// A body of JSON, as text.
pub(super) struct JsonText(pub(super) String);

/// A body of JSON.
pub(super) struct Sent<T>(pub(super) T);

/// A body of JSON that may be absent.
pub(super) struct Maybe<T>(pub(super) T);

/// The one part of the path that varies.
pub(super) struct Named<T>(pub(super) T);

impl<S: Send + Sync> FromRequest<S> for JsonText {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        check_json(request.headers())?;
        let bytes = read(request, JSON_BYTES_MAX, JSON_TIMEOUT).await?;
        Ok(Self(json_text(bytes)?))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let JsonText(text) = JsonText::from_request(request, state).await?;
        decode(&text).map(Self)
    }
}

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for Maybe<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let json = check_json(request.headers());
        let bytes = read(request, JSON_BYTES_MAX, JSON_TIMEOUT).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        json?;
        decode(&json_text(bytes)?).map(Self)
    }
}

impl<T: FromStr<Err: Display>, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong = |detail: String| Problem::new("invalid_path", detail);
        let axum::extract::Path(text) = axum::extract::Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| wrong(rejection.body_text()))?;
        text.parse().map(Self).map_err(|error: T::Err| wrong(error.to_string()))
    }
}

/// A task and the number of one of its attempts.
pub(super) struct OfTask(pub(super) TaskId, pub(super) u32);

impl<S: Send + Sync> FromRequestParts<S> for OfTask {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong = |detail: String| Problem::new("invalid_path", detail);
        let axum::extract::Path((task, attempt)) =
            axum::extract::Path::<(String, String)>::from_request_parts(parts, state)
                .await
                .map_err(|rejection| wrong(rejection.body_text()))?;
        let task = task.parse().map_err(|error: crate::id::IdError| wrong(error.to_string()))?;
        let attempt = attempt.parse().map_err(|_| wrong(format!("`{attempt}` is no number of an attempt")))?;
        Ok(Self(task, attempt))
    }
}

fn json_text(bytes: Bytes) -> Result<String, Problem> {
    String::from_utf8(bytes.into())
        .map_err(|error| Problem::new("malformed_json", format!("the body is not UTF-8: {}", error.utf8_error())))
}

/// Reads JSON.
pub(super) fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Problem> {
    let malformed =
        |error: &serde_json::Error| Problem::new("malformed_json", format!("the body is not JSON: {error}"));
    if text.trim_ascii().is_empty() {
        return Err(Problem::new("malformed_json", "the body is empty, and should be JSON"));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        match path.as_str() {
            _ if !inner.is_data() => malformed(&inner),
            "." | "?" => Problem::new("invalid_body", inner.to_string()),
            path => Problem::new("invalid_body", format!("`{path}`: {inner}")),
        }
    })?;
    json.end().map_err(|error| malformed(&error))?;
    Ok(value)
}

/// The media type without its parameters, in lower case.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or("?");
    Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Whether the body is of one of these types.
pub(super) fn check_media_type(headers: &HeaderMap, fits: impl Fn(&str) -> bool, wanted: &str) -> Result<(), Problem> {
    match media_type(headers) {
        Some(given) if fits(&given) => Ok(()),
        Some(given) => {
            let given: String = given.chars().take(80).collect();
            Err(Problem::new("unsupported_media_type", format!("the body is `{given}`, and should be {wanted}")))
        }
        None => Err(Problem::new(
            "unsupported_media_type",
            format!("the body has no `Content-Type`, and should be {wanted}"),
        )),
    }
}

fn check_json(headers: &HeaderMap) -> Result<(), Problem> {
    let fits =
        |given: &str| given == "application/json" || (given.starts_with("application/") && given.ends_with("+json"));
    check_media_type(headers, fits, "`application/json`")
}

/// The whole body, if it is no larger than `max` bytes and arrives within the time.
pub(super) async fn read(request: Request, max: usize, within: Duration) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    let declared = parts.headers.get(header::CONTENT_LENGTH).and_then(|text| text.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|bytes| bytes > max as u64) {
        // One that asks before it sends is told at once.
        if !parts.headers.contains_key(header::EXPECT) {
            throw_away(body).await;
        }
        return Err(too_large(max));
    }
    let collected = tokio::time::timeout(within, collect(body, max)).await;
    collected.unwrap_or_else(|_| Err(Problem::new("body_timeout", format!("the body took longer than {within:?}"))))
}

async fn collect(body: Body, max: usize) -> Result<Bytes, Problem> {
    let mut chunks = body.into_data_stream();
    let mut all = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Problem::new("body_incomplete", crate::chain(&error)))?;
        if all.len() + chunk.len() > max {
            throw_away(Body::from_stream(chunks)).await;
            return Err(too_large(max));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.into())
}

fn too_large(max: usize) -> Problem {
    Problem::new("body_too_large", format!("the body has more than the {max} bytes that this route takes"))
}

async fn throw_away(body: Body) {
    let reading = async {
        let (mut chunks, mut seen) = (body.into_data_stream(), 0);
        while let Some(Ok(chunk)) = chunks.next().await {
            seen += chunk.len();
            if seen > THROWN_AWAY_BYTES_MAX {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(THROWN_AWAY_TIMEOUT, reading).await;
}

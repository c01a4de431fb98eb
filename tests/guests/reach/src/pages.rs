//! HTTP.

use crate::wasi::http::outgoing_handler::handle;
use crate::wasi::http::types::{
    ErrorCode, Fields, IncomingResponse, Method, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use crate::wasi::io::streams::StreamError;
use crate::{Came, name};

pub fn command(words: &[&str]) -> Option<Came> {
    Some(match words {
        ["get", url] => ask(url, None, None).and_then(told),
        ["get", url, "within", ms] => ask(url, None, ms.parse().ok()).and_then(told),
        ["post", url, text] => ask(url, Some(text), None).and_then(told),
        // As a client does that is told to go elsewhere.
        ["follow", url] => ask(url, None, None).and_then(|response| {
            let to = response.headers().get("location").into_iter().next().unwrap_or_default();
            ask(&String::from_utf8_lossy(&to), None, None).and_then(told)
        }),
        _ => return None,
    })
}

fn ask(url: &str, text: Option<&str>, ms: Option<u64>) -> Result<IncomingResponse, String> {
    let (scheme, rest) = url.split_once("://").ok_or("no scheme")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let request = OutgoingRequest::new(Fields::new());
    let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
    request.set_scheme(Some(&scheme)).map_err(|()| "bad scheme")?;
    request.set_authority(Some(authority)).map_err(|()| "bad authority")?;
    request.set_path_with_query(Some(&format!("/{path}"))).map_err(|()| "bad path")?;
    let body = match text {
        None => None,
        Some(_) => {
            request.set_method(&Method::Post).map_err(|()| "bad method")?;
            Some(request.body().map_err(|()| "no body")?)
        }
    };
    let options = ms.map(|ms| {
        let options = RequestOptions::new();
        let _ = options.set_first_byte_timeout(Some(ms * 1_000_000));
        let _ = options.set_connect_timeout(Some(ms * 1_000_000));
        options
    });
    let coming = handle(request, options).map_err(named)?;
    if let (Some(body), Some(text)) = (body, text) {
        let stream = body.write().map_err(|()| "no stream")?;
        stream.blocking_write_and_flush(text.as_bytes()).map_err(|_| "body broke")?;
        drop(stream);
        OutgoingBody::finish(body, None).map_err(named)?;
    }
    coming.subscribe().block();
    coming.get().ok_or("not there")?.map_err(|()| "taken")?.map_err(named)
}

fn told(response: IncomingResponse) -> Came {
    let body = response.consume().map_err(|()| "no body")?;
    let stream = body.stream().map_err(|()| "no stream")?;
    let mut all = Vec::new();
    loop {
        match stream.blocking_read(1 << 16) {
            Ok(bytes) => all.extend(bytes),
            Err(StreamError::Closed) => break,
            Err(StreamError::LastOperationFailed(error)) => return Err(error.to_debug_string()),
        }
    }
    let text =
        if all.len() > 200 { format!("{} bytes", all.len()) } else { String::from_utf8_lossy(&all).into_owned() };
    Ok(format!("{} {text}", response.status()))
}

fn named(error: ErrorCode) -> String {
    name(error)
}

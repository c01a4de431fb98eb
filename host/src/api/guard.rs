//! What goes round every route: who may ask, what becomes of a panic, and of a route that is not there.
//!
//! The API is for this machine. A page of another site that a browser here shows must not reach it: neither under a name
//! that its owner points to this machine (DNS rebinding), nor by sending what the browser lets it send blindly.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;

use super::problem::Problem;

/// The routes, with all this round them.
pub(super) fn around(routes: Router) -> Router {
    routes.fallback(no_route).method_not_allowed_fallback(no_method).layer(from_fn(admit)).layer(from_fn(survive))
}

async fn no_route(uri: Uri) -> Problem {
    Problem::new("route_not_found", format!("there is no route `{}`", shortened(uri.path())))
}

async fn no_method(method: Method, uri: Uri) -> Problem {
    let path = shortened(uri.path());
    Problem::new("method_not_allowed", format!("`{path}` does not know the method {}", shortened(method.as_str())))
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

async fn survive(request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if let Ok(response) = AssertUnwindSafe(next.run(request)).catch_unwind().await {
        return response;
    }
    tracing::error!(%method, path, "a handler panicked");
    Problem::internal(format!("the handler of {method} `{}` panicked", shortened(&path))).into_response()
}

async fn admit(request: Request, next: Next) -> Response {
    let mut response = match check(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn check(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let mut named = headers.get_all(header::HOST).iter();
    let host = match (named.next(), named.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        (None, _) => return Err(misdirected("nothing")),
        (Some(_), Some(_)) => return Err(misdirected("several names")),
    };
    let target = uri.authority().map(Authority::as_str);
    if let Some(name) = target.into_iter().chain([host]).find(|name| !is_this_machine(name)) {
        return Err(misdirected(&format!("`{}`", shortened(name))));
    }
    if method.is_safe() {
        return Ok(());
    }
    match headers.get(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if is_same(origin, host) => Ok(()),
        Some(origin) => {
            let origin = shortened(&String::from_utf8_lossy(origin.as_bytes()));
            Err(Problem::new("origin_not_allowed", format!("a page of `{origin}` may not send {method} requests")))
        }
    }
}

fn misdirected(name: &str) -> Problem {
    Problem::new("host_not_allowed", format!("the request's `Host` says {name}, which is not this machine"))
}

fn is_same(origin: &HeaderValue, host: &str) -> bool {
    origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://")).is_some_and(|o| o.eq_ignore_ascii_case(host))
}

/// Whether a `Host` names this machine in a way that no name server can change.
fn is_this_machine(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_no_name_server_can_change_are_this_machine() {
        for name in ["localhost", "LOCALHOST:7717", "127.0.0.1", "127.0.0.1:80", "127.8.8.8", "[::1]", "[::1]:7717"] {
            assert!(is_this_machine(name), "{name}");
        }
        let others = [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "0.0.0.0",
            "192.168.0.1:7717",
            "[::]",
            "evil@127.0.0.1",
            "[fe80::1]",
            "::1",
            "127.1",
            "localhost:7717/x",
            "2130706433",
        ];
        for name in others {
            assert!(!is_this_machine(name), "{name}");
        }
    }

    #[tokio::test]
    async fn a_panic_is_a_problem() {
        use tower::ServiceExt as _;
        async fn broken() {
            panic!("on purpose");
        }
        let router = around(Router::new().route("/broken", axum::routing::get(broken)));
        let request = Request::get("/broken").header("host", "localhost").body(axum::body::Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status(), 500);
        assert_eq!(response.headers()[header::CONTENT_TYPE], super::super::problem::MEDIA_TYPE);
    }
}

//! HTTP.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};

use super::outside::{host, mute_nameserver, nameserver, page, silent};
use super::{Place, http};

const DENIED: &str = "ErrorCode::HttpRequestDenied";
const PROHIBITED: &str = "ErrorCode::DestinationIpProhibited";
const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn plain(text: &str) -> SocketAddr {
    page(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()))
}

#[test]
fn a_granted_host_answers_and_no_other_is_asked() {
    let server = nameserver(&[&[LOOPBACK]]);
    let mut place = Place::asking(vec![server]);
    let address = plain("hello");
    let port = address.port();
    for (grant, script, expected) in [
        (format!("{address}"), format!("get http://{address}/"), "200 hello"),
        (format!("127.0.0.0/8:{port}"), format!("get http://{address}/a?b"), "200 hello"),
        (format!("api.example@private:{port}"), format!("get http://API.example:{port}/"), "200 hello"),
        ("*.example@private:*".to_owned(), format!("get http://api.example:{port}/"), "200 hello"),
        (format!("api.example:{port}"), format!("get http://api.example:{port}/"), PROHIBITED),
        (format!("api.example@private:{port}"), format!("get http://{address}/"), DENIED),
        ("api.example@private".to_owned(), format!("get http://api.example:{port}/"), DENIED),
        ("127.0.0.1".to_owned(), format!("get http://{address}/"), DENIED),
        ("0.0.0.0/0:*".to_owned(), format!("get http://{address}/"), DENIED),
        (format!("api.example@private:{port}"), format!("get http://evil.test@api.example:{port}/"), "bad authority"),
        (format!("[::ffff:127.0.0.1]:{port}"), format!("get http://[::ffff:127.0.0.1]:{port}/"), "200 hello"),
        (format!("*.example@private:{port}"), format!("get http://[::ffff:127.0.0.1]:{port}/"), DENIED),
    ] {
        let told = place.told(&http(&[&grant]), &script);
        let same = told == [expected] || (expected == "bad authority" && told == ["ErrorCode::HttpRequestUriInvalid"]);
        assert!(same, "{grant} {script}: {told:?}");
    }
}

#[test]
fn a_redirect_is_a_request_like_any_other() {
    let mut place = Place::new();
    let inner = plain("secret");
    let outer = page(format!("HTTP/1.1 302 Found\r\nlocation: http://{inner}/\r\ncontent-length: 0\r\n\r\n"));
    let told = place.told(&http(&[&outer.to_string()]), &format!("follow http://{outer}/"));
    assert_eq!(told, [DENIED]);
    let told = place.told(&http(&[&outer.to_string(), &inner.to_string()]), &format!("follow http://{outer}/"));
    assert_eq!(told, ["200 secret"]);
}

#[test]
fn each_request_looks_again_where_its_name_leads() {
    let server = nameserver(&[&[LOOPBACK], &[Ipv4Addr::new(169, 254, 169, 254)]]);
    let mut place = Place::asking(vec![server]);
    let port = plain("hello").port();
    let url = format!("get http://rebind.example:{port}/");
    let told = place.told(&http(&["rebind.example:*", &format!("127.0.0.1:{port}")]), &format!("{url};{url}"));
    assert_eq!(told, ["200 hello", PROHIBITED]);
}

#[test]
fn a_body_is_sent_and_the_host_is_named() {
    let mut place = Place::new();
    let address = host(|mut stream| {
        let (mut request, mut part) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"0\r\n\r\n") {
            let Ok(read @ 1..) = stream.read(&mut part) else { return };
            request.extend(&part[..read]);
        }
        let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
        let line = request.lines().find(|line| line.starts_with("host:")).unwrap_or_default().to_owned();
        let seen = if request.contains("payload") { line } else { "no body".to_owned() };
        let _ = write!(stream, "HTTP/1.1 201 Created\r\ncontent-length: {}\r\n\r\n{seen}", seen.len());
    });
    let told = place.told(&http(&[&address.to_string()]), &format!("post http://{address}/ payload"));
    assert_eq!(told, [format!("201 host: {address}")]);
}

#[test]
fn what_is_no_answer_is_an_error() {
    let mut place = Place::new();
    for (answer, code) in [
        ("HTTP/1.1 200 OK\r\ncontent-le".to_owned(), "ErrorCode::HttpResponseIncomplete"),
        (format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)), "ErrorCode::HttpResponseHeaderSectionSize"),
        ("not http\r\n\r\n".to_owned(), "ErrorCode::"),
    ] {
        let address = page(answer);
        let told = place.told(&http(&[&address.to_string()]), &format!("get http://{address}/"));
        assert!(told[0].starts_with(code), "{code}: {told:?}");
    }
}

#[test]
fn a_host_that_never_answers_costs_the_time_that_the_guest_gives_it() {
    let (address, closed, _accepted) = silent();
    let mut place = Place::new();
    let told = place.told(&http(&[&address.to_string()]), &format!("get http://{address}/ within 20"));
    assert!(matches!(&*told[0], "ErrorCode::HttpResponseTimeout" | "ErrorCode::ConnectionTimeout"), "{told:?}");
    closed.recv().unwrap();
}

#[test]
fn a_kill_ends_a_request_that_nobody_answers_and_the_host_sees_it() {
    let (address, closed, accepted) = silent();
    let mut place = Place::new();
    let command = format!("get http://{address}/");
    let key = place.start(&http(&[&address.to_string()]), &command);
    accepted.recv().unwrap();
    place.bed.settle();
    assert_eq!(place.kill(key).as_deref(), Some("wasi:io/poll"));
    assert!(closed.recv().unwrap() > 0, "the request was sent");
    let mute = mute_nameserver();
    let mut place = Place::asking(vec![mute.local_addr().unwrap()]);
    let sat_in = place.killed_in(&http(&["api.example"]), "get http://api.example/");
    assert_eq!(sat_in.as_deref(), Some("wasi:io/poll"));
}

#[test]
fn a_body_that_never_ends_ends_with_the_kill() {
    let (closed, told) = std::sync::mpsc::channel();
    let address = host(move |mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
        let _ = closed.send(());
    });
    let mut place = Place::new();
    let command = format!("get http://{address}/");
    let key = place.start(&http(&[&address.to_string()]), &command);
    place.until(key, &command);
    place.bed.settle();
    place.kill(key);
    told.recv().unwrap();
}

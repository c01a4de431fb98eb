//! Names and TCP.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use super::outside::{host, mute_nameserver, nameserver, silent};
use super::{Place, tcp};
use crate::task::Ending;

const DENIED: &str = "access-denied";
const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 215, 14);
const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Says back in capitals what it hears first, and closes.
fn echo() -> std::net::SocketAddr {
    host(|mut stream| {
        let mut heard = [0; 100];
        let length = stream.read(&mut heard).unwrap_or(0);
        let _ = stream.write_all(&heard[..length].to_ascii_uppercase());
    })
}

#[test]
fn a_granted_address_is_reached_and_no_other() {
    let mut place = Place::new();
    let (one, other) = (echo(), echo());
    for grant in [one.to_string(), format!("127.0.0.0/8:{}", one.port())] {
        let told = place.told(&tcp(&[&grant]), &format!("tcp {one} hello;tcp {other} hello;bind;udp"));
        assert_eq!(told[..3], ["HELLO", DENIED, DENIED], "{grant}");
    }
    let told = place.told(&tcp(&["0.0.0.0/0:*"]), &format!("tcp {one} hello;tcp 169.254.169.254:80 x"));
    assert_eq!(told, [DENIED, DENIED], "all that is public is not what is private");
}

#[test]
fn a_name_opens_its_addresses_unless_they_are_private() {
    let server = nameserver(&[&[LOOPBACK]]);
    let mut place = Place::asking(vec![server]);
    let one = echo();
    let port = one.port();
    let plain = format!("db.example:{port}");
    let told = place.told(&tcp(&[&plain]), &format!("resolve db.example;tcp {one} x;resolve other.example"));
    assert_eq!(told, [DENIED, DENIED, DENIED]);
    let private = format!("db.example@private:{port}");
    let told = place.told(&tcp(&[&private]), &format!("tcp {one} x;tcpname db.example {port} hello;tcp {one} x"));
    assert_eq!(told, [DENIED, "HELLO", "X"], "an address is open once the name has led to it");
    let told = place.told(&tcp(&["*.example@private:1"]), &format!("tcpname a.example {port} hello"));
    assert_eq!(told, [DENIED], "the port is another");
}

#[test]
fn a_name_that_turns_to_a_private_address_is_refused() {
    let server = nameserver(&[&[PUBLIC], &[LOOPBACK], &[PUBLIC, LOOPBACK]]);
    let mut place = Place::asking(vec![server]);
    let told = place.told(
        &tcp(&["rebind.example:*"]),
        "resolve rebind.example;resolve rebind.example;resolve rebind.example;tcp 127.0.0.1:1 x",
    );
    assert_eq!(told, ["93.184.215.14", DENIED, "93.184.215.14", DENIED]);
}

#[test]
fn the_machines_own_names_are_known() {
    let mut place = Place::new();
    let one = echo();
    let port = one.port();
    let told = place.told(&tcp(&[&format!("localhost@private:{port}")]), &format!("tcpname localhost {port} hello"));
    assert_eq!(told, ["HELLO"]);
}

#[test]
fn sockets_are_bounded() {
    let mut place = Place::new();
    assert_eq!(place.told(&tcp(&["127.0.0.1:1"]), "sockets"), ["64 new-socket-limit"]);
}

#[test]
fn a_refused_connection_is_named() {
    let mut place = Place::new();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(place.told(&tcp(&[&gone.to_string()]), &format!("tcp {gone} x")), ["connection-refused"]);
}

#[test]
fn a_kill_ends_every_wait_and_the_peer_sees_it() {
    let (address, closed, accepted) = silent();
    let mut place = Place::new();
    let granted = tcp(&[&address.to_string()]);
    for command in ["hang", "talk"] {
        let command = format!("{command} {address}");
        let key = place.start(&granted, &command);
        accepted.recv().unwrap();
        place.bed.settle();
        let sat_in = place.kill(key);
        // Whoever sends to a host that listens is not always found waiting.
        assert!(command.starts_with("talk") || sat_in.as_deref() == Some("wasi:io/streams"), "{sat_in:?}");
        closed.recv().unwrap();
    }
    // Connections that nobody closed go with the guest.
    place.start(&granted, &format!("keep {address};keep {address}"));
    assert_eq!(place.ended().ending, Ending::Succeeded);
    closed.recv().unwrap();
    closed.recv().unwrap();
}

#[test]
fn no_byte_is_sent_after_the_end() {
    let (address, closed, accepted) = silent();
    let mut place = Place::new();
    for _ in 0..20 {
        let key = place.start(&tcp(&[&address.to_string()]), &format!("talk {address}"));
        accepted.recv().unwrap();
        place.bed.kill(key);
        let sent = place.ended().cost.bytes_out;
        // The connection is over by then, and what the peer had is what was counted.
        assert!(closed.recv().unwrap() <= sent);
    }
}

#[test]
fn a_kill_ends_a_connect_that_nobody_answers() {
    // A listener whose queue is full answers nobody.
    let listener =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address: std::net::SocketAddr = rustix::net::getsockname(&listener).unwrap().try_into().unwrap();
    let _first = std::net::TcpStream::connect(address).unwrap();
    let mut place = Place::new();
    let sat_in = place.killed_in(&tcp(&[&address.to_string()]), &format!("hang {address}"));
    assert_eq!(sat_in.as_deref(), Some("wasi:io/poll"));
}

#[test]
fn a_kill_ends_a_look_up_that_nobody_answers() {
    let mute = mute_nameserver();
    let mut place = Place::asking(vec![mute.local_addr().unwrap()]);
    let sat_in = place.killed_in(&tcp(&["db.example:1"]), "resolve db.example");
    assert_eq!(sat_in.as_deref(), Some("wasi:io/poll"));
}

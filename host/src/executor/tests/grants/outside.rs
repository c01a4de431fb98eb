//! What lies outside: nameservers and hosts, small ones, on this machine.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// A nameserver that answers the first question for an address with the first answer, and so on; the last one stays.
pub(super) fn nameserver(answers: &[&[Ipv4Addr]]) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let answers: Vec<Vec<Ipv4Addr>> = answers.iter().map(|answer| answer.to_vec()).collect();
    // Ends with the tests.
    thread::spawn(move || {
        let (mut asked, mut packet) = (0, [0; 512]);
        while let Ok((length, from)) = socket.recv_from(&mut packet) {
            let question = &packet[..length];
            // Behind the header: the name up to its empty label, type, class.
            let name_ends = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
            let is_a = question[name_ends..name_ends + 2] == [0, 1];
            let addresses = if is_a { &*answers[asked.min(answers.len() - 1)] } else { &[] };
            asked += usize::from(is_a);
            let mut answer = question[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::try_from(addresses.len()).unwrap(), 0, 0, 0, 0]);
            answer.extend(&question[12..name_ends + 4]);
            for address in addresses {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
                answer.extend(address.octets());
            }
            socket.send_to(&answer, from).unwrap();
        }
    });
    address
}

/// One that never answers.
pub(super) fn mute_nameserver() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

/// A host that treats each connection as told.
pub(super) fn host(treat: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(treat));
    address
}

/// A host that gives each request this answer.
pub(super) fn page(answer: String) -> SocketAddr {
    host(move |mut stream| {
        let mut request = [0; 4096];
        if stream.read(&mut request).is_ok_and(|read| read > 0) {
            // Whoever has gone does not want it.
            let _ = stream.write_all(answer.as_bytes());
        }
    })
}

/// A host that answers nothing, and tells how many bytes came by the time that the connection was closed.
pub(super) fn silent() -> (SocketAddr, Receiver<u64>, Receiver<()>) {
    let ((closed, told), (accepted, came)) = (channel(), channel());
    let address = host(move |mut stream| {
        let _ = accepted.send(());
        let (mut all, mut part) = (0, [0; 4096]);
        while let Ok(read) = stream.read(&mut part) {
            if read == 0 {
                break;
            }
            all += read as u64;
        }
        let _ = closed.send(all);
    });
    (address, told, came)
}

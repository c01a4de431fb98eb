//! Tables: how hosts are written, what names and ranges open, which addresses are special.

use std::net::IpAddr;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_host_is_written_back_as_it_was_read() {
    for text in [
        "api.example.com",
        "api.example.com:8080",
        "*.example.com",
        "*.example.com:*",
        "db.internal@private:5432",
        "*.corp@private:*",
        "localhost@private:80",
        "192.0.2.7",
        "192.0.2.7:443",
        "10.1.0.0/16:*",
        "10.1.0.0/16",
        "2001:db8::1",
        "[2001:db8::1]:443",
        "[2001:db8::/32]:*",
        "fd00::/8",
        "0.0.0.0/0:443",
        "xn--bcher-kva.example",
    ] {
        let grant: HostGrant = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(grant.to_string(), text);
    }
    let read = |text: &str| text.parse::<HostGrant>().unwrap().to_string();
    assert_eq!(read("API.Example.COM."), "api.example.com");
    assert_eq!(read("::ffff:10.0.0.0/104"), "10.0.0.0/8");
    assert_eq!(read("[::1]"), "::1");
}

#[test]
fn what_is_no_host_is_refused_and_says_why() {
    for (text, says) in [
        ("", "1 to 253 bytes"),
        ("https://api.example.com", "address of a page"),
        ("api.example.com/path", "no address"),
        ("api.example.com:0", "from 1 to 65535"),
        ("api.example.com:65536", "from 1 to 65535"),
        ("api.example.com:+5", "from 1 to 65535"),
        ("api.example.com:", "from 1 to 65535"),
        ("api..example.com", "no part of a name"),
        ("-x.example", "no part of a name"),
        ("*", "only at the beginning"),
        ("a.*.com", "only at the beginning"),
        ("a b", "no part of a name"),
        ("bücher.example", "not ASCII"),
        ("x@public", "the only one is `@private`"),
        ("10.0.0.1@private", "no address"),
        ("256.1.1.1", "no address"),
        ("127.1", "no address"),
        ("10.0.0.0/33", "from 0 to 32"),
        ("10.0.0.0/+8", "from 0 to 32"),
        ("10.0.0.1/8", "begins at `10.0.0.0`"),
        ("[::1", "not closed"),
        ("[::1]x", "what is `x`"),
        ("fd00::/8:443", "in brackets"),
        ("user:secret@example.com", "no port"),
    ] {
        let error = text.parse::<HostGrant>().expect_err(text);
        assert!(error.to_string().contains(says), "{text}: {error}");
    }
}

#[test]
fn a_name_is_met_as_dns_has_it() {
    let meets = |grant: &str, name: &str| grant.parse::<HostGrant>().unwrap().host.meets_name(name);
    for (grant, name, met) in [
        ("api.example.com", "api.example.com", true),
        ("api.example.com", "API.example.com.", true),
        ("api.example.com", "xapi.example.com", false),
        ("api.example.com", "api.example.com.evil.net", false),
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "a.b.Example.com", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", ".example.com", false),
        ("*.example.com", "evilexample.com", false),
        ("*.example.com", "éexample.com", false),
        ("10.0.0.1", "10.0.0.1", false),
    ] {
        assert_eq!(meets(grant, name), met.then_some(false), "{grant} {name}");
    }
    assert_eq!(meets("db.corp@private", "db.corp"), Some(true));
}

#[test]
fn ports_are_open_as_they_are_written() {
    assert!(Ports::Usual.open(443, Some(443)) && !Ports::Usual.open(80, Some(443)) && !Ports::Usual.open(80, None));
    assert!(Ports::One(8080).open(8080, Some(80)) && !Ports::One(8080).open(80, Some(80)));
    assert!(Ports::Every.open(1, None));
}

#[test]
fn what_is_not_public_is_special_in_every_guise() {
    for text in [
        "0.0.0.0",
        "10.255.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.19.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.1.1.1",
        "255.255.255.255",
        "168.63.129.16",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(is_special(ip(text)), "{text}");
    }
    for text in [
        "1.1.1.1",
        "93.184.215.14",
        "100.63.255.255",
        "100.128.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "168.63.129.17",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
    ] {
        assert!(!is_special(ip(text)), "{text}");
    }
}

#[test]
fn a_range_opens_what_is_special_only_if_it_lists_it_itself() {
    let opens = |net: &str, address: &str| net.parse::<Net>().unwrap().opens(ip(address));
    for (net, address, open) in [
        ("0.0.0.0/0", "8.8.8.8", true),
        ("0.0.0.0/0", "127.0.0.1", false),
        ("0.0.0.0/0", "10.0.0.1", false),
        ("8.0.0.0/6", "10.0.0.1", false),
        ("10.0.0.0/8", "10.0.0.1", true),
        ("10.1.0.0/16", "10.1.2.3", true),
        ("10.1.0.0/16", "10.2.0.1", false),
        ("127.0.0.1", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("127.0.0.1", "::ffff:127.0.0.1", true),
        ("10.1.0.0/16", "::ffff:10.1.2.3", true),
        ("::/0", "2606:4700::1", true),
        ("::/0", "::1", false),
        ("::/0", "fd00::1", false),
        ("::/0", "64:ff9b::10.0.0.1", false),
        ("fd00::/8", "fd00::1", true),
        ("::1", "::1", true),
        ("64:ff9b::a00:1", "64:ff9b::10.0.0.1", true),
        ("8.8.8.8", "2606:4700::1", false),
    ] {
        assert_eq!(opens(net, address), open, "{net} {address}");
    }
}

#[test]
fn grants_have_bounds() {
    let told = |grants: Grants| grants.check().unwrap_err().to_string();
    let of = |environment: &[(&str, &str)]| Grants {
        environment: environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Grants::default()
    };
    assert_eq!(of(&[("A", "1"), ("B", "")]).check(), Ok(()));
    assert!(told(of(&[("A=B", "")])).contains("no name of a variable"));
    assert!(told(of(&[("", "")])).contains("no name of a variable"));
    assert!(told(of(&[("A", "\0")])).contains("NUL"));
    assert!(told(of(&[("A", "1"), ("A", "2")])).contains("given twice"));
    assert!(told(of(&[("A", &"x".repeat(ENVIRONMENT_BYTES_MAX))])).contains("bytes"));
    let scratch = |bytes, files| Grants { scratch: Some(Scratch { bytes, files }), ..Grants::default() };
    assert_eq!(scratch(1, 1).check(), Ok(()));
    assert!(told(scratch(0, 1)).contains("`scratch.bytes` is 0"));
    assert!(told(scratch(1, SCRATCH_FILES_MAX + 1)).contains("`scratch.files`"));
    let hosts = |text: &str, count| vec![text.parse().unwrap(); count];
    assert!(told(Grants { http: hosts("a.example", HOSTS_MAX + 1), ..Grants::default() }).contains("65 hosts"));
    assert!(told(Grants { tcp: hosts("a.example", 1), ..Grants::default() }).contains("says no port"));
    assert_eq!(Grants { tcp: hosts("a.example:*", 1), http: hosts("a", 1), ..Grants::default() }.check(), Ok(()));
}

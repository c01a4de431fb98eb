//! One host of a grant, as it is written: `name`, `*.name`, an address or a range, and behind a colon its port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::GrantsError;
use super::address::Net;

/// A host, or several, and the ports that are open there.
///
/// `api.example.com` · `*.example.com:8443` · `db.internal@private:5432` · `10.1.0.0/16:*` · `[2001:db8::1]:443`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGrant {
    pub host: HostPattern,
    pub ports: Ports,
}

/// Which hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// This name, in lower case. If `private`, also where it leads to an address that is not public.
    Name { name: String, private: bool },
    /// Every name below this one, but not itself.
    Below { name: String, private: bool },
    /// These addresses.
    Net(Net),
}

/// Which ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// The usual one of what is spoken there: 80 for HTTP, 443 for HTTPS.
    Usual,
    One(u16),
    Every,
}

impl Ports {
    /// Whether the port is open; `usual` says which one is meant if none is written.
    #[must_use]
    pub fn open(self, port: u16, usual: Option<u16>) -> bool {
        match self {
            Self::Usual => usual == Some(port),
            Self::One(open) => open == port,
            Self::Every => true,
        }
    }
}

impl HostPattern {
    /// If the name is meant: whether it may lead to a private address.
    #[must_use]
    pub fn meets_name(&self, wanted: &str) -> Option<bool> {
        let wanted = wanted.strip_suffix('.').unwrap_or(wanted);
        match self {
            Self::Name { name, private } => wanted.eq_ignore_ascii_case(name).then_some(*private),
            Self::Below { name, private } => {
                let split = wanted.len().checked_sub(name.len() + 1)?;
                let (label, rest) = wanted.split_at_checked(split)?;
                let below = !label.is_empty() && rest.strip_prefix('.')?.eq_ignore_ascii_case(name);
                below.then_some(*private)
            }
            Self::Net(_) => None,
        }
    }

    /// Whether the address itself is granted.
    #[must_use]
    pub fn opens(&self, address: IpAddr) -> bool {
        matches!(self, Self::Net(net) if net.opens(address))
    }
}

impl FromStr for HostGrant {
    type Err = GrantsError;

    fn from_str(text: &str) -> Result<Self, GrantsError> {
        parse(text).map_err(|problem| GrantsError::Host { text: text.chars().take(300).collect(), problem })
    }
}

fn parse(text: &str) -> Result<HostGrant, String> {
    if text.contains("//") {
        return Err("it is an address of a page; only the host and its port are granted".to_owned());
    }
    let (host, port) = split(text)?;
    let ports = match port {
        None => Ports::Usual,
        Some("*") => Ports::Every,
        Some(port) => {
            let digits = port.bytes().all(|byte| byte.is_ascii_digit());
            let number = port.parse().ok().filter(|number| digits && *number != 0);
            Ports::One(number.ok_or_else(|| format!("`{port}` is no port: it must be from 1 to 65535, or `*`"))?)
        }
    };
    Ok(HostGrant { host: pattern(host)?, ports })
}

/// The host, and what stands behind its colon.
fn split(text: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, behind) = rest.split_once(']').ok_or("the bracket is not closed")?;
        return match behind {
            "" => Ok((host, None)),
            _ => behind.strip_prefix(':').map(|port| (host, Some(port))).ok_or_else(|| format!("what is `{behind}`?")),
        };
    }
    let bare = text.split_once('/').map_or(text, |(address, _)| address);
    if bare.parse::<Ipv6Addr>().is_ok() {
        if text.matches('/').count() == 1 && text.rsplit('/').next().is_some_and(|behind| behind.contains(':')) {
            return Err("an IPv6 address with a port stands in brackets: `[2001:db8::/32]:443`".to_owned());
        }
        return Ok((text, None));
    }
    Ok(text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))))
}

fn pattern(host: &str) -> Result<HostPattern, String> {
    let looks_numeric = host.contains('/')
        || host.contains(':')
        || host.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit()));
    if looks_numeric {
        return host.parse().map(HostPattern::Net).map_err(|error: super::NetError| error.to_string());
    }
    let (name, private) = match host.split_once('@') {
        None => (host, false),
        Some((name, "private")) => (name, true),
        Some((_, mark)) => return Err(format!("`@{mark}` is no mark; the only one is `@private`")),
    };
    match name.strip_prefix("*.") {
        Some(parent) => Ok(HostPattern::Below { name: checked(parent)?, private }),
        None => Ok(HostPattern::Name { name: checked(name)?, private }),
    }
}

/// The name in lower case, if it is one that could be looked up.
fn checked(name: &str) -> Result<String, String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() || name.len() > 253 {
        return Err("a name has 1 to 253 bytes".to_owned());
    }
    for label in name.split('.') {
        let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if label.is_empty() || label.len() > 63 || !plain || label.starts_with('-') || label.ends_with('-') {
            return Err(match label {
                "*" => "a `*` stands only at the beginning, as in `*.example.com`".to_owned(),
                _ if !label.is_ascii() => format!("`{label}` is not ASCII: write the name as DNS has it, `xn--…`"),
                _ => format!("`{label}` is no part of a name"),
            });
        }
    }
    Ok(name.to_ascii_lowercase())
}

impl fmt::Display for HostGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |private: bool| if private { "@private" } else { "" };
        match (&self.host, self.ports) {
            (HostPattern::Name { name, private }, _) => write!(f, "{name}{}", mark(*private))?,
            (HostPattern::Below { name, private }, _) => write!(f, "*.{name}{}", mark(*private))?,
            (HostPattern::Net(net), Ports::Usual) => write!(f, "{net}")?,
            (HostPattern::Net(net), _) if net.to_string().contains(':') => write!(f, "[{net}]")?,
            (HostPattern::Net(net), _) => write!(f, "{net}")?,
        }
        match self.ports {
            Ports::Usual => Ok(()),
            Ports::One(port) => write!(f, ":{port}"),
            Ports::Every => f.write_str(":*"),
        }
    }
}

//! Ranges of addresses, and which addresses no guest reaches unless they are listed themselves.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    first: IpAddr,
    prefix: u8,
}

/// A text is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    #[error("`{0}` is no address")]
    Address(String),
    #[error("`/{0}` is no length of a prefix: it must be from 0 to {1}")]
    Prefix(String, u8),
    #[error("bits of it are set behind the first {0}: the range begins at `{1}`")]
    HostBits(u8, IpAddr),
}

impl Net {
    /// The range of one address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        let first = address.to_canonical();
        Self { first, prefix: width(first) }
    }

    /// Whether the address is one of these. An IPv4 address stays itself when it is written as an IPv6 one.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        width(address) == width(self.first) && mask(address, self.prefix) == mask(self.first, self.prefix)
    }

    /// Whether a grant of this range opens the address: it is within, and if it is special, so is the whole range.
    /// So `0.0.0.0/0` opens what is public, and `10.1.0.0/16` itself.
    #[must_use]
    pub fn opens(&self, address: IpAddr) -> bool {
        self.contains(address) && (!is_special(address) || self.is_within_special())
    }

    fn is_within_special(&self) -> bool {
        specials().any(|special| special.prefix <= self.prefix && special.contains(self.first))
            || (self.prefix == width(self.first) && is_special(self.first))
    }
}

impl FromStr for Net {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, NetError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let given: IpAddr = address.parse().map_err(|_| NetError::Address(address.to_owned()))?;
        let Some(prefix) = prefix else { return Ok(Self::of(given)) };
        let most = width(given);
        let wrong = || NetError::Prefix(prefix.to_owned(), most);
        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let length = prefix.parse().ok().filter(|length| digits && *length <= most).ok_or_else(wrong)?;
        let first = from_bits(mask(given, length), given);
        if first != given {
            return Err(NetError::HostBits(length, first));
        }
        // A range of IPv4 addresses written as IPv6 ones.
        let canonical = given.to_canonical();
        if given.is_ipv6() && canonical.is_ipv4() && length >= 96 {
            Ok(Self { first: canonical, prefix: length - 96 })
        } else {
            Ok(Self { first: given, prefix: length })
        }
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == width(self.first) {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}/{}", self.first, self.prefix)
        }
    }
}

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address's first bits, and zeros.
fn mask(address: IpAddr, prefix: u8) -> u128 {
    let behind = u32::from(width(address) - prefix);
    bits(address).checked_shr(behind).and_then(|kept| kept.checked_shl(behind)).unwrap_or(0)
}

fn from_bits(bits: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or_default())),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    }
}

/// Ranges that are not the public internet: the special-purpose registries of IANA (RFC 6890 and what updates it), and
/// what clouds serve their machines' secrets on (most of these lie within link-local, unique-local or shared space).
const SPECIAL_V4: [([u8; 4], u8); 16] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
    // Azure's platform address, in the midst of public ones.
    ([168, 63, 129, 16], 32),
];

/// Of IPv6, what is not global unicast (`2000::/3`), and within that what is not public.
const SPECIAL_V6: [([u16; 8], u8); 9] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 8),
    ([0x0100, 0, 0, 0, 0, 0, 0, 0], 8),
    ([0x0400, 0, 0, 0, 0, 0, 0, 0], 6),
    ([0x1000, 0, 0, 0, 0, 0, 0, 0], 4),
    ([0x4000, 0, 0, 0, 0, 0, 0, 0], 2),
    ([0x8000, 0, 0, 0, 0, 0, 0, 0], 1),
    // IETF protocol assignments, Teredo among them.
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    ([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];

fn specials() -> impl Iterator<Item = Net> {
    let v4 = SPECIAL_V4.into_iter().map(|(first, prefix)| Net { first: IpAddr::V4(first.into()), prefix });
    let v6 = SPECIAL_V6.into_iter().map(|(first, prefix)| Net { first: IpAddr::V6(first.into()), prefix });
    v4.chain(v6)
}

/// Whether the address is private, loopback, link-local, shared, multicast, a cloud's own, or anything else but public.
/// An IPv6 address that leads to an IPv4 one (mapped, NAT64, 6to4) is what that is.
#[must_use]
pub fn is_special(address: IpAddr) -> bool {
    let address = address.to_canonical();
    if let IpAddr::V6(v6) = address
        && let Some(inner) = embedded(v6)
    {
        return is_special(IpAddr::V4(inner));
    }
    specials().any(|special| special.contains(address))
}

/// The IPv4 address that a translator would make of this one: NAT64 (RFC 6052), 6to4 (RFC 3056).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let pair = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(pair(high, low)),
        _ => None,
    }
}

//! How long to wait before the next attempt: exponential, capped, and spread by a hash, so that a replay gives the same.

use std::time::Duration;

use super::terms::RetryPolicy;
use crate::id::TaskId;

/// The spread added to a delay, at most, in thousandths of it.
const SPREAD_MILLE_MAX: u32 = 200;

impl RetryPolicy {
    /// `min(cap, base · 2^(n−1))` for retry `n`, counted from 1.
    fn plain_delay(&self, n: u32) -> Duration {
        let doubled = 1u32.checked_shl(n.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(doubled).min(self.cap)
    }

    /// The delay before retry `n` with the whole spread on it.
    pub(super) fn longest_delay(&self, n: u32) -> Duration {
        let plain = self.plain_delay(n);
        plain.saturating_add(plain.saturating_mul(SPREAD_MILLE_MAX) / 1000)
    }

    /// The delay before retry `n` of this task, in `[d, 1.2 d]`; a longer wish of the guest wins.
    #[must_use]
    pub fn delay(&self, id: TaskId, n: u32, wish: Option<Duration>) -> Duration {
        let plain = self.plain_delay(n);
        let spread = plain.saturating_mul(hash(id, n) % (SPREAD_MILLE_MAX + 1)) / 1000;
        plain.saturating_add(spread).max(wish.unwrap_or_default())
    }
}

/// FNV-1a over the id and the number (<http://www.isthe.com/chongo/tech/comp/fnv/>), folded to 32 bits.
fn hash(id: TaskId, n: u32) -> u32 {
    let bytes = id.as_bytes().iter().copied().chain(n.to_le_bytes());
    let wide = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    u32::try_from((wide >> 32) ^ (wide & 0xffff_ffff)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        max_retries: 3,
        base: Duration::from_secs(10),
        cap: Duration::from_hours(1),
        retry_timeouts: false,
    };

    #[test]
    fn delays_double_up_to_the_cap_and_stay_within_a_fifth() {
        let id = TaskId::from_bytes([7; 16]);
        for (n, seconds) in [(1, 10), (2, 20), (3, 40), (9, 2560), (10, 3600), (33, 3600), (40, 3600)] {
            let plain = Duration::from_secs(seconds);
            let delay = POLICY.delay(id, n, None);
            assert!(plain <= delay && delay <= plain * 6 / 5, "{n}: {delay:?}");
            assert_eq!(delay, POLICY.delay(id, n, None), "a replay gives the same");
        }
    }

    #[test]
    fn no_delay_overflows() {
        let policy = RetryPolicy { base: Duration::MAX, cap: Duration::MAX, ..POLICY };
        assert_eq!(policy.delay(TaskId::from_bytes([7; 16]), u32::MAX, None), Duration::MAX);
        assert_eq!(policy.longest_delay(u32::MAX), Duration::MAX);
    }

    #[test]
    fn a_herd_is_spread() {
        let delays: std::collections::BTreeSet<_> =
            (0..=255u8).map(|i| POLICY.delay(TaskId::from_bytes([i; 16]), 1, None)).collect();
        assert!(delays.len() > 100, "{}", delays.len());
    }

    #[test]
    fn a_longer_wish_of_the_guest_wins_and_a_shorter_does_not() {
        let id = TaskId::from_bytes([1; 16]);
        assert_eq!(POLICY.delay(id, 1, Some(Duration::from_secs(99))), Duration::from_secs(99));
        assert!(POLICY.delay(id, 1, Some(Duration::from_secs(1))) >= Duration::from_secs(10));
    }
}

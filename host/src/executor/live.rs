//! The attempts that an executor holds, by key.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::attempt::Attempt;
use super::protocol::AttemptKey;

/// Several maps, so that guests' threads, which may be put aside while they hold a lock, seldom hold the one that is wanted.
const SHARDS: usize = 32;

type Shard = HashMap<AttemptKey, Arc<Attempt>>;

pub(super) struct Live {
    shards: [Mutex<Shard>; SHARDS],
}

impl Live {
    pub(super) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Whether the key was new.
    pub(super) fn insert(&self, attempt: &Arc<Attempt>) -> bool {
        match self.shard(attempt.key).entry(attempt.key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(Arc::clone(attempt));
                true
            }
        }
    }

    pub(super) fn get(&self, key: AttemptKey) -> Option<Arc<Attempt>> {
        self.shard(key).get(&key).map(Arc::clone)
    }

    pub(super) fn remove(&self, key: AttemptKey) {
        self.shard(key).remove(&key);
    }

    /// Those for which `wanted` says so.
    pub(super) fn select(&self, wanted: impl Fn(&Attempt) -> bool) -> Vec<Arc<Attempt>> {
        let mut selected = Vec::new();
        for shard in &self.shards {
            selected.extend(lock(shard).values().filter(|attempt| wanted(attempt)).map(Arc::clone));
        }
        selected
    }

    fn shard(&self, key: AttemptKey) -> MutexGuard<'_, Shard> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        let place = hasher.finish() as usize % SHARDS;
        lock(&self.shards[place])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The messages between a node and an executor process as bytes: a length, and then the message in postcard's form.
//! Both ends are the same program, so there is nothing to negotiate.

mod orders;
mod reports;

use std::io::{self, Read};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(super) use orders::{FromNode, Setup};
pub(super) use reports::FromExecutor;
pub use reports::Lock;

use super::protocol::AttemptKey;
use crate::id::TaskId;
use crate::time::Timestamp;

/// No message is longer: an input and a result have a megabyte at most, and logs are fetched in small parts.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
const LENGTH_BYTES: usize = size_of::<u32>();

/// Appends a message to what is to be sent.
pub(super) fn write(out: &mut Vec<u8>, message: &impl Serialize) {
    let begin = out.len();
    out.extend([0; LENGTH_BYTES]);
    match postcard::to_io(message, &mut *out) {
        Ok(_) => {
            let length = u32::try_from(out.len() - begin - LENGTH_BYTES).unwrap_or(u32::MAX);
            out[begin..begin + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        }
        Err(error) => {
            // Nothing that is sent holds what postcard cannot write; if it does, the watch over executors finds the gap.
            tracing::error!(%error, "a message could not be written");
            out.truncate(begin);
        }
    }
}

/// Reads one message; none at the end of the stream. `buffer` is used again and again.
pub(super) fn read<T: DeserializeOwned>(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<T>> {
    let mut length = [0; LENGTH_BYTES];
    match stream.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    buffer.clear();
    buffer.resize(length, 0);
    stream.read_exact(buffer)?;
    postcard::from_bytes(buffer).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Key([u8; 16], u32);

impl From<AttemptKey> for Key {
    fn from(key: AttemptKey) -> Self {
        Self(*key.task.as_bytes(), key.attempt)
    }
}

impl From<Key> for AttemptKey {
    fn from(Key(task, attempt): Key) -> Self {
        Self { task: TaskId::from_bytes(task), attempt }
    }
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
}

fn instant(micros: Option<i64>) -> Option<Timestamp> {
    micros.map(Timestamp::from_micros)
}

//! Grants in the JSON of stored terms. Rows that were written before there were any have none.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::task::{Grants, GrantsError, HostGrant, Scratch};

/// [`Grants`], as they are stored.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub(super) struct GrantsBody(pub(super) Arc<Grants>);

impl GrantsBody {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    environment: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scratch: Option<StoredScratch>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    http: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tcp: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredScratch {
    bytes: u64,
    files: u64,
}

impl From<GrantsBody> for Stored {
    fn from(GrantsBody(grants): GrantsBody) -> Self {
        let written = |hosts: &[HostGrant]| hosts.iter().map(ToString::to_string).collect();
        Self {
            environment: grants.environment.clone(),
            scratch: grants.scratch.map(|Scratch { bytes, files }| StoredScratch { bytes, files }),
            http: written(&grants.http),
            tcp: written(&grants.tcp),
        }
    }
}

impl TryFrom<Stored> for GrantsBody {
    type Error = GrantsError;

    fn try_from(stored: Stored) -> Result<Self, GrantsError> {
        let read = |hosts: Vec<String>| hosts.iter().map(|host| host.parse()).collect::<Result<_, _>>();
        Ok(Self(Arc::new(Grants {
            environment: stored.environment,
            scratch: stored.scratch.map(|StoredScratch { bytes, files }| Scratch { bytes, files }),
            http: read(stored.http)?,
            tcp: read(stored.tcp)?,
        })))
    }
}

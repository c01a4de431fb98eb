//! What a type's guests may reach.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::task::{self, GrantsError, HostGrant, SCRATCH_FILES};

/// What guests of a type may reach beyond clocks, random numbers, standard streams and their log: nothing unless it is
/// here. A task keeps the grants of the version of its type that it was born with; no submission changes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Grants {
    /// Environment variables. Whoever may read a task sees them: no place for secrets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// A folder `/scratch` of each attempt's own, empty at its start and gone with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratch: Option<Scratch>,
    /// Hosts that may be asked by `wasi:http`: `name`, `*.name`, an address or a range, and a port (`:8443`, `:*`) if it
    /// is not the usual one. A name that leads to a private address needs `name@private`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http: Vec<String>,
    /// Hosts that may be connected to by `wasi:sockets`, written as those of `http`; each with its port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<String>,
}

/// The quota of a scratch folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Scratch {
    /// Sizes of all files together; holes count.
    pub bytes: u64,
    /// Files and folders. Default 10,000.
    #[serde(default = "files")]
    pub files: u64,
}

const fn files() -> u64 {
    SCRATCH_FILES
}

impl Grants {
    /// Whether nothing is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl TryFrom<Grants> for task::Grants {
    type Error = GrantsError;

    fn try_from(wire: Grants) -> Result<Self, GrantsError> {
        let read = |hosts: Vec<String>| hosts.iter().map(|host| host.parse()).collect::<Result<_, _>>();
        Ok(Self {
            environment: wire.environment.into_iter().collect(),
            scratch: wire.scratch.map(|Scratch { bytes, files }| task::Scratch { bytes, files }),
            http: read(wire.http)?,
            tcp: read(wire.tcp)?,
        })
    }
}

impl From<&task::Grants> for Grants {
    fn from(grants: &task::Grants) -> Self {
        let written = |hosts: &[HostGrant]| hosts.iter().map(ToString::to_string).collect();
        Self {
            environment: grants.environment.iter().cloned().collect(),
            scratch: grants.scratch.map(|task::Scratch { bytes, files }| Scratch { bytes, files }),
            http: written(&grants.http),
            tcp: written(&grants.tcp),
        }
    }
}

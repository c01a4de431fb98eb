//! What a guest may reach, as flags of `run` and `push`, and as a line for a person.

use std::sync::Arc;

use clap::Args;

use super::exit::Complaint;
use super::human::bytes;
use super::print::tame;
use super::values::{pair, size};
use crate::api::wire;
use crate::task::{Grants, HostGrant, SCRATCH_FILES, Scratch};

/// What the guest may reach. Nothing unless it is given.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Grants")]
pub struct GrantsArgs {
    /// An environment variable; whoever may read the task sees it
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    environment: Vec<(String, String)>,
    /// A folder /scratch of each attempt's own, of this size
    #[arg(long, value_name = "SIZE", value_parser = size)]
    scratch: Option<u64>,
    /// Files and folders in /scratch [default: 10000]
    #[arg(long, value_name = "N", requires = "scratch")]
    scratch_files: Option<u64>,
    /// A host for HTTP: NAME, *.NAME, an address or a range, then :PORT or :* if it is not the usual port
    #[arg(long, value_name = "HOST")]
    allow_http: Vec<HostGrant>,
    /// A host for TCP, with its port; NAME@private if it leads to a private address
    #[arg(long, value_name = "HOST:PORT")]
    allow_tcp: Vec<HostGrant>,
}

impl GrantsArgs {
    /// What the flags say.
    ///
    /// # Errors
    /// A grant is out of its bounds.
    pub fn grants(&self) -> Result<Arc<Grants>, Complaint> {
        let grants = Grants {
            environment: self.environment.clone(),
            scratch: self.scratch.map(|bytes| Scratch { bytes, files: self.scratch_files.unwrap_or(SCRATCH_FILES) }),
            http: self.allow_http.clone(),
            tcp: self.allow_tcp.clone(),
        };
        grants.check().map_err(|error| Complaint::usage(error.to_string()).hint(error.hint()))?;
        Ok(Arc::new(grants))
    }
}

/// The grants, one fact for each kind.
pub(super) fn facts(grants: &wire::Grants) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !grants.environment.is_empty() {
        let variables: Vec<_> =
            grants.environment.iter().map(|(name, value)| tame(&format!("{name}={value}"))).collect();
        facts.push(("environment", variables.join(" ")));
    }
    if let Some(scratch) = grants.scratch {
        facts.push(("scratch", format!("{}, {} files", bytes(scratch.bytes), scratch.files)));
    }
    for (name, hosts) in [("http", &grants.http), ("tcp", &grants.tcp)] {
        if !hosts.is_empty() {
            facts.push((name, hosts.join(" ")));
        }
    }
    facts
}

/// The grants in one line, which is empty if there are none.
pub(super) fn line(grants: &wire::Grants) -> String {
    facts(grants).iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

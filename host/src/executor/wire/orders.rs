//! From the node to an executor process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Key;
use crate::executor::protocol::{Start, StopOrder};
use crate::id::{Digest, IdError};
use crate::task::{Grants, GrantsError, HostGrant, Limits, Scratch, StopReason};
use crate::time::Timestamp;

/// The first message of all: what the process has to know to begin.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::executor) struct Setup {
    pub(in crate::executor) slots: u32,
    pub(in crate::executor) guest_threads: usize,
    pub(in crate::executor) memory_bytes_max: u64,
    /// The cache of compiled components, which the process only reads.
    pub(in crate::executor) artefacts: PathBuf,
    /// Where core dumps are kept.
    pub(in crate::executor) dumps: Option<PathBuf>,
    /// Where scratch folders are made.
    pub(in crate::executor) scratch: Option<PathBuf>,
    pub(in crate::executor) nameservers: Vec<SocketAddr>,
    /// The process that it belongs to.
    pub(in crate::executor) node_pid: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::executor) enum FromNode {
    Setup(Setup),
    Start(Box<WireStart>),
    Stop(Key, WireStop),
    Kill(Key),
    /// To be answered, so that the node knows that the process is awake.
    Ping,
    /// Kill what runs, and end.
    Close,
}

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::executor) struct WireStop {
    reason: String,
    kill_at: i64,
    message: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(in crate::executor) struct WireStart {
    key: Key,
    component: [u8; 32],
    input: String,
    task_type: String,
    trace: String,
    creator: Option<String>,
    run_timeout: Duration,
    fuel: Option<u64>,
    core_dump: bool,
    limits: WireLimits,
    grants: WireGrants,
}

/// Hosts are written as people write them.
#[derive(Debug, Serialize, Deserialize)]
struct WireGrants {
    environment: Vec<(String, String)>,
    scratch: Option<(u64, u64)>,
    http: Vec<String>,
    tcp: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "they are called as in the terms")]
struct WireLimits {
    memory_bytes_max: u64,
    table_elements_max: u64,
    instances_max: u64,
    result_bytes_max: u64,
    log_lines_max: u64,
    log_bytes_max: u64,
    host_call_bytes_max: u64,
    handles_max: u64,
}

impl From<&Start> for WireStart {
    fn from(start: &Start) -> Self {
        Self {
            key: start.key.into(),
            component: *start.component.as_bytes(),
            input: start.input.to_string(),
            task_type: start.task_type.to_string(),
            trace: start.trace.to_string(),
            creator: start.creator.as_deref().map(str::to_owned),
            run_timeout: start.run_timeout,
            fuel: start.fuel,
            core_dump: start.core_dump,
            limits: (&start.limits).into(),
            grants: (&*start.grants).into(),
        }
    }
}

impl TryFrom<WireStart> for Start {
    type Error = Unreadable;

    fn try_from(wire: WireStart) -> Result<Self, Unreadable> {
        Ok(Self {
            key: wire.key.into(),
            component: Digest::from_bytes(wire.component),
            input: wire.input.into(),
            task_type: wire.task_type.parse()?,
            trace: wire.trace.parse()?,
            creator: wire.creator.map(Into::into),
            run_timeout: wire.run_timeout,
            fuel: wire.fuel,
            core_dump: wire.core_dump,
            limits: wire.limits.into(),
            grants: Arc::new(wire.grants.try_into()?),
        })
    }
}

/// What is sent is what was read before: this does not happen between two processes of the same program.
#[derive(Debug, thiserror::Error)]
pub(in crate::executor) enum Unreadable {
    #[error(transparent)]
    Id(#[from] IdError),
    #[error(transparent)]
    Grants(#[from] GrantsError),
}

impl From<&Grants> for WireGrants {
    fn from(grants: &Grants) -> Self {
        let written = |hosts: &[HostGrant]| hosts.iter().map(ToString::to_string).collect();
        Self {
            environment: grants.environment.clone(),
            scratch: grants.scratch.map(|scratch| (scratch.bytes, scratch.files)),
            http: written(&grants.http),
            tcp: written(&grants.tcp),
        }
    }
}

impl TryFrom<WireGrants> for Grants {
    type Error = GrantsError;

    fn try_from(wire: WireGrants) -> Result<Self, GrantsError> {
        let read = |hosts: Vec<String>| hosts.iter().map(|host| host.parse()).collect::<Result<_, _>>();
        Ok(Self {
            environment: wire.environment,
            scratch: wire.scratch.map(|(bytes, files)| Scratch { bytes, files }),
            http: read(wire.http)?,
            tcp: read(wire.tcp)?,
        })
    }
}

impl From<&Limits> for WireLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes_max: limits.memory_bytes_max,
            table_elements_max: limits.table_elements_max,
            instances_max: limits.instances_max,
            result_bytes_max: limits.result_bytes_max,
            log_lines_max: limits.log_lines_max,
            log_bytes_max: limits.log_bytes_max,
            host_call_bytes_max: limits.host_call_bytes_max,
            handles_max: limits.handles_max,
        }
    }
}

impl From<WireLimits> for Limits {
    fn from(limits: WireLimits) -> Self {
        Self {
            memory_bytes_max: limits.memory_bytes_max,
            table_elements_max: limits.table_elements_max,
            instances_max: limits.instances_max,
            result_bytes_max: limits.result_bytes_max,
            log_lines_max: limits.log_lines_max,
            log_bytes_max: limits.log_bytes_max,
            host_call_bytes_max: limits.host_call_bytes_max,
            handles_max: limits.handles_max,
        }
    }
}

impl From<&StopOrder> for WireStop {
    fn from(stop: &StopOrder) -> Self {
        Self {
            reason: stop.reason.code().to_owned(),
            kill_at: stop.kill_at.as_micros(),
            message: stop.message.to_string(),
        }
    }
}

impl From<WireStop> for StopOrder {
    fn from(stop: WireStop) -> Self {
        Self {
            // Both ends are the same program, and know the same reasons.
            reason: StopReason::parse(&stop.reason).unwrap_or(StopReason::Cancelled),
            kill_at: Timestamp::from_micros(stop.kill_at),
            message: stop.message.into(),
        }
    }
}

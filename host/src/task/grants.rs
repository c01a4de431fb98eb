//! What a guest may reach: nothing unless its type says so. How grants are written, and which addresses they open.
//!
//! Knows nothing of sockets, name look-ups or files.

mod address;
mod host;
#[cfg(test)]
mod tests;

pub use address::{Net, NetError, is_special};
pub use host::{HostGrant, HostPattern, Ports};

/// Names and values of one environment together, in bytes.
pub const ENVIRONMENT_BYTES_MAX: usize = 32 << 10;
/// Variables of one environment.
pub const VARIABLES_MAX: usize = 256;
/// Hosts of one list.
pub const HOSTS_MAX: usize = 64;
/// The most that one scratch folder may hold.
pub const SCRATCH_BYTES_MAX: u64 = 64 << 30;
/// The most files and folders in one scratch folder: a listing is made in one call, which nothing interrupts.
pub const SCRATCH_FILES_MAX: u64 = 100_000;
/// Files and folders of a scratch folder, unless the grant says otherwise.
pub const SCRATCH_FILES: u64 = 10_000;

/// What a guest may reach beyond clocks, random numbers, standard streams and its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Names and values, in order, no name twice. Shown to whoever may read: no place for secrets.
    pub environment: Vec<(String, String)>,
    /// A folder of its own, for the time of one attempt.
    pub scratch: Option<Scratch>,
    /// Where HTTP requests may go.
    pub http: Vec<HostGrant>,
    /// Where TCP connections may go.
    pub tcp: Vec<HostGrant>,
}

/// The quota of a scratch folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// Sizes of all files together. Holes count.
    pub bytes: u64,
    /// Files and folders.
    pub files: u64,
}

/// The grants cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantsError {
    #[error("`{text}` names no host: {problem}")]
    Host { text: String, problem: String },
    #[error("`{name}` is no name of a variable: it must have 1 to 128 bytes, and no `=` and no NUL in it")]
    VariableName { name: String },
    #[error("the value of `{name}` has a NUL in it")]
    VariableValue { name: String },
    #[error("the variable `{name}` is given twice")]
    VariableTwice { name: String },
    #[error("the environment has {given} {unit}, and at most {most} are taken")]
    EnvironmentTooLarge { given: usize, unit: &'static str, most: usize },
    #[error("`{list}` lists {given} hosts, and at most {most} are taken")]
    TooManyHosts { list: &'static str, given: usize, most: usize },
    #[error("`scratch.{field}` is {given}, but must be from 1 to {most}")]
    Scratch { field: &'static str, given: u64, most: u64 },
    #[error("`{text}` of `tcp` says no port: there is no usual one")]
    PortMissing { text: String },
}

impl GrantsError {
    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Host { .. } => {
                "a host is `name`, `*.name`, an address, or a range as `10.0.0.0/8`; then `:port` or `:*`; `name@private` if the name \
                 leads to a private address"
            }
            Self::PortMissing { .. } => "write `host:port`, or `host:*` for every port",
            Self::VariableName { .. } | Self::VariableValue { .. } | Self::VariableTwice { .. } => {
                "each variable is a name and a value"
            }
            Self::EnvironmentTooLarge { .. } => {
                "give the task what is large in its input, or in a file that it fetches"
            }
            Self::TooManyHosts { .. } => "one grant can stand for many hosts: `*.name`, or a range of addresses",
            Self::Scratch { .. } => "leave `scratch` out for a task that needs no files",
        }
    }
}

impl Grants {
    /// Whether nothing is granted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether every grant is within its bounds.
    ///
    /// # Errors
    /// Names the first that is not.
    pub fn check(&self) -> Result<(), GrantsError> {
        self.check_environment()?;
        if let Some(Scratch { bytes, files }) = self.scratch {
            for (field, given, most) in [("bytes", bytes, SCRATCH_BYTES_MAX), ("files", files, SCRATCH_FILES_MAX)] {
                if !(1..=most).contains(&given) {
                    return Err(GrantsError::Scratch { field, given, most });
                }
            }
        }
        for (list, hosts) in [("http", &self.http), ("tcp", &self.tcp)] {
            if hosts.len() > HOSTS_MAX {
                return Err(GrantsError::TooManyHosts { list, given: hosts.len(), most: HOSTS_MAX });
            }
        }
        match self.tcp.iter().find(|grant| grant.ports == Ports::Usual) {
            Some(grant) => Err(GrantsError::PortMissing { text: grant.to_string() }),
            None => Ok(()),
        }
    }

    fn check_environment(&self) -> Result<(), GrantsError> {
        let too_large = |given, unit, most| GrantsError::EnvironmentTooLarge { given, unit, most };
        if self.environment.len() > VARIABLES_MAX {
            return Err(too_large(self.environment.len(), "variables", VARIABLES_MAX));
        }
        let bytes = self.environment.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > ENVIRONMENT_BYTES_MAX {
            return Err(too_large(bytes, "bytes", ENVIRONMENT_BYTES_MAX));
        }
        for (place, (name, value)) in self.environment.iter().enumerate() {
            if name.is_empty() || name.len() > 128 || name.contains(['=', '\0']) {
                return Err(GrantsError::VariableName { name: name.clone() });
            }
            if value.contains('\0') {
                return Err(GrantsError::VariableValue { name: name.clone() });
            }
            if self.environment[..place].iter().any(|(earlier, _)| earlier == name) {
                return Err(GrantsError::VariableTwice { name: name.clone() });
            }
        }
        Ok(())
    }
}

//! How a process gives up what it does not need: files, system calls, limits. Each can be refused by the kernel, and says so.
//!
//! Must not know which process gives up what: that is said where the process begins.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, getppid, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

pub(crate) type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Nobody who runs or compiles what strangers upload needs these: programs, other processes, the machine.
pub(crate) const NEVER: [i64; 44] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_mknodat,
];

/// Those that make a process; x86-64 has kept two of old.
#[cfg(target_arch = "x86_64")]
pub(crate) const FORKS: &[i64] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const FORKS: &[i64] = &[];

/// Ends this process when its parent ends.
///
/// # Errors
/// The kernel refuses, or the parent is gone already.
pub(crate) fn die_with(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before that was said.
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|now| now.get() != parent) {
        return Err(io::Error::other("the parent is gone"));
    }
    Ok(())
}

/// Whoever ends a service may signal all of its processes at once. The node then tells guests to stop, gives them their
/// grace, and ends its executors itself.
pub(crate) fn leave_signals_to_the_node() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: to ignore a signal installs no handler; nothing of this process relies on these four.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Gives up what the administrator may do, should it be the administrator's process. Whose files it may open is left as it
/// is: the way to its own may lead through folders of others.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    let files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let left = capabilities(None)?.permitted & files;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: left, permitted: left, inheritable: none })?)
}

/// Lowers a limit, and what it can be raised to, which may lie a little above. One that was lower before stays.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn lower(resource: Resource, to: u64, margin: u64) -> io::Result<()> {
    let there = getrlimit(resource);
    let least = |there: Option<u64>, to: u64| Some(there.map_or(to, |there| there.min(to)));
    let maximum = least(there.maximum, to.saturating_add(margin));
    Ok(setrlimit(resource, Rlimit { current: least(maximum, to), maximum })?)
}

/// What is left of the file system. What is open stays open.
pub(crate) struct Files<'a> {
    pub(crate) read: &'a [&'a Path],
    pub(crate) written: &'a [&'a Path],
    /// Whether TCP stays.
    pub(crate) network: bool,
}

impl Files<'_> {
    /// Gives up the rest, and signals to and sockets of other processes with it. Must be called while there is one thread.
    ///
    /// # Errors
    /// The kernel holds the process to nothing of this, or to a part of it only.
    pub(crate) fn keep_only(&self) -> Outcome {
        let files = ABI::V5;
        let status = self.rules(files)?.restrict_self()?;
        // What came to kernels later than the files is welcome, but not told.
        match status.ruleset {
            RulesetStatus::NotEnforced => Err("the kernel has no landlock".into()),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }

    fn rules(&self, files: ABI) -> Result<landlock::RulesetCreated, landlock::RulesetError> {
        let later = ABI::V6;
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(files))?
            .scope(Scope::from_all(later))?;
        if !self.network {
            rules = rules.handle_access(AccessNet::from_all(later))?;
        }
        let read = path_beneath_rules(self.read, AccessFs::from_read(files) & !AccessFs::Execute);
        let written = path_beneath_rules(self.written, AccessFs::from_all(files) & !AccessFs::Execute);
        rules.create()?.add_rules(read)?.add_rules(written)
    }
}

/// System calls that are refused: those without a condition always.
#[derive(Default)]
pub(crate) struct Calls {
    rules: BTreeMap<i64, Vec<SeccompRule>>,
}

/// A condition on an argument of a call: which, how, and with what it is compared. The lower 32 bits count.
pub(crate) type Argument = (u8, SeccompCmpOp, u32);

impl Calls {
    pub(crate) fn refuse(mut self, calls: &[i64]) -> Self {
        self.rules.extend(calls.iter().map(|call| (*call, Vec::new())));
        self
    }

    /// Refuses a call whose arguments are so; each of several lists is reason enough.
    pub(crate) fn refuse_if(mut self, call: i64, lists: &[&[Argument]]) -> Result<Self, BackendError> {
        let condition = |(place, how, value): &Argument| {
            SeccompCondition::new(*place, SeccompCmpArgLen::Dword, how.clone(), u64::from(*value))
        };
        let rule = |list: &&[Argument]| SeccompRule::new(list.iter().map(condition).collect::<Result<_, _>>()?);
        let rules = lists.iter().map(rule).collect::<Result<_, _>>()?;
        self.rules.insert(call, rules);
        Ok(self)
    }

    /// Signals go to this process only: an abort is one.
    pub(crate) fn refuse_signals_to_others(self) -> Result<Self, BackendError> {
        let other: Argument = (0, SeccompCmpOp::Ne, own_pid());
        let other = [other];
        self.refuse_if(libc::SYS_kill, &[&other])?.refuse_if(libc::SYS_tgkill, &[&other])
    }

    /// Gives them up, for this thread and those that it starts.
    ///
    /// # Errors
    /// The kernel has no filters.
    pub(crate) fn give_up(self, errno: i32) -> Outcome {
        let refuse = SeccompAction::Errno(errno.unsigned_abs());
        let arch = std::env::consts::ARCH.try_into()?;
        let filter = SeccompFilter::new(self.rules, SeccompAction::Allow, refuse, arch)?;
        let program: BpfProgram = filter.try_into()?;
        Ok(seccompiler::apply_filter(&program)?)
    }
}

pub(crate) fn own_pid() -> u32 {
    getpid().as_raw_nonzero().get().unsigned_abs()
}

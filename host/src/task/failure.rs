//! How an attempt ends: what the guest said, or what became of it.

use std::time::Duration;

/// What a failure means for what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// The business said no. Never retried.
    Business,
    /// A dependency faltered. Retried while retries are left.
    System,
    /// A defect. Never retried; the scene is kept.
    Fatal,
}

impl FailureClass {
    /// Each of them once.
    pub const ALL: [Self; 3] = [Self::Business, Self::System, Self::Fatal];

    /// The stable code of the API and the store.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Business => "business",
            Self::System => "system",
            Self::Fatal => "fatal",
        }
    }

    /// Reads what `code` gives.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.code() == code)
    }
}

/// How the attempt came to its end. Reported once the sandbox is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The guest returned ok. The result itself travels beside this.
    Succeeded,
    /// The guest returned `stopped`.
    Stopped,
    /// The guest returned a failure of its own.
    Failed { class: FailureClass, message: String, retry_after: Option<Duration> },
    /// The guest died of itself: a defect.
    Died { cause: Death, message: String },
    /// The guest used up its fuel.
    FuelSpent,
    /// The host killed the guest, as it had been ordered to.
    Killed,
    /// The attempt was lost through no word of its own. `message` says what happened to what held it; may be empty.
    Lost { loss: Loss, message: String },
}

/// What a guest can die of. Each is a fatal failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Death {
    /// An instruction trapped.
    Trap,
    /// It asked for more memory than its limit.
    OutOfMemory,
    /// Its calls went too deep.
    StackOverflow,
    /// The result is not JSON, not UTF-8, or larger than allowed.
    BadResult,
    /// A host call passed a limit.
    HostCallLimit,
    /// The component could not be loaded or instantiated.
    Unloadable,
    /// The host itself failed under the guest; the node's log says more.
    HostFault,
}

impl Death {
    /// Each of them once.
    pub const ALL: [Self; 7] = [
        Self::Trap,
        Self::OutOfMemory,
        Self::StackOverflow,
        Self::BadResult,
        Self::HostCallLimit,
        Self::Unloadable,
        Self::HostFault,
    ];
}

/// Who took the attempt along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The node died under it. Counts as a retry: the task may be what killed it.
    Node,
    /// Its executor died for another guest's sake. Not counted.
    Executor,
    /// Its executor died while it ran this very guest, which may be what killed it. Counts as a retry.
    Suspect,
}

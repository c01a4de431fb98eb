//! What becomes of an attempt whose component cannot be loaded.

use crate::component::{ComponentError, LoadError};
use crate::task::{Death, Ending, FailureClass};

/// What cannot be read or compiled now may be later: that is the node's want. What is missing or does not fit stays so.
pub(super) fn ending_of(error: &LoadError) -> Ending {
    let message = crate::chain(error);
    match error {
        LoadError::Unreadable { .. }
        | LoadError::NotCompiled(_)
        | LoadError::Unfit { source: ComponentError::HostFault { .. }, .. } => {
            Ending::Failed { class: FailureClass::System, message, retry_after: None }
        }
        LoadError::Missing(_) | LoadError::Unfit { .. } => Ending::Died { cause: Death::Unloadable, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Digest;

    #[test]
    fn a_compiler_that_was_killed_from_outside_is_no_fault_of_the_component() {
        let unfit = |source| LoadError::Unfit { digest: Digest::of(b"x"), source };
        let fault = ending_of(&unfit(ComponentError::HostFault { detail: "killed from outside".to_owned() }));
        assert!(matches!(fault, Ending::Failed { class: FailureClass::System, .. }), "{fault:?}");
        let fault = ending_of(&unfit(ComponentError::CoreModule));
        assert!(matches!(fault, Ending::Died { cause: Death::Unloadable, .. }), "{fault:?}");
    }
}

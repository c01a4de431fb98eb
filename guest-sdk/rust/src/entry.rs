//! From the host's call to the author's function: JSON in, JSON out.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Failure;

/// Makes a function the task that this crate is.
///
/// The function takes one value that serde can read and returns `Result<T, Failure>` with a `T` that serde can write. Use
/// it once, at the root of a crate with `crate-type = ["cdylib"]`.
///
/// ```
/// use atropos_guest::Failure;
///
/// fn run(numbers: Vec<i64>) -> Result<i64, Failure> {
///     Ok(numbers.iter().sum())
/// }
///
/// atropos_guest::task!(run);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! task {
    ($run:path) => {
        const _: () = {
            fn __run(input: &str) -> ::core::result::Result<::std::string::String, $crate::Failure> {
                $crate::__private::start(::core::module_path!());
                $crate::__private::run(input, $run)
            }

            #[cfg(target_family = "wasm")]
            struct Task;

            #[cfg(target_family = "wasm")]
            impl $crate::__private::bindings::Guest for Task {
                fn run(
                    input: ::std::string::String,
                ) -> ::core::result::Result<::std::string::String, $crate::__private::bindings::Failure> {
                    __run(&input).map_err($crate::__private::to_wire)
                }
            }

            #[cfg(target_family = "wasm")]
    $crate::__private::bindings::export_sdk!(Task with_types_in $crate::__private::bindings);

            // Elsewhere nothing is exported, but the function is checked all the same.
            #[cfg(not(target_family = "wasm"))]
            let _ = __run;
        };
    };
}

/// Before the author's code runs: the log is there, and a panic reaches it.
pub fn start(module_path: &'static str) {
    #[cfg(feature = "log")]
    crate::logging::install(module_path.split("::").next().unwrap_or(module_path));
    #[cfg(not(feature = "log"))]
    let _ = module_path;
    #[cfg(target_family = "wasm")]
    std::panic::set_hook(Box::new(|panic| {
        // "panicked at src/lib.rs:7:5:\nmessage". What follows is a trap.
        crate::log_line(crate::Level::Error, &panic.to_string());
    }));
}

/// Runs the author's function on a JSON text, and gives its result as one.
pub fn run<I, O, F>(input: &str, task: F) -> Result<String, Failure>
where
    I: DeserializeOwned,
    O: Serialize,
    F: FnOnce(I) -> Result<O, Failure>,
{
    let input = serde_json::from_str(input)
        .map_err(|e| Failure::business(format_args!("the input does not fit this task: {e}")))?;
    let output = task(input)?;
    serde_json::to_string(&output)
        .map_err(|e| Failure::fatal(format_args!("the result cannot be written as JSON: {e}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(serde::Deserialize)]
    struct Input {
        a: u32,
        b: u32,
    }

    fn divide(input: Input) -> Result<u32, Failure> {
        input.a.checked_div(input.b).ok_or_else(|| Failure::business("division by zero"))
    }

    #[test]
    fn json_goes_in_and_json_comes_out() {
        assert_eq!(run(r#"{"a": 12, "b": 4}"#, divide), Ok("3".to_owned()));
        assert_eq!(run("null", |()| Ok(())), Ok("null".to_owned()));
    }

    #[test]
    fn the_tasks_own_failure_comes_through() {
        assert_eq!(run(r#"{"a": 1, "b": 0}"#, divide), Err(Failure::business("division by zero")));
    }

    #[test]
    fn an_input_that_does_not_parse_is_a_business_failure_that_says_what_is_missing() {
        assert_eq!(
            run(r#"{"a": 1}"#, divide),
            Err(Failure::business("the input does not fit this task: missing field `b` at line 1 column 8"))
        );
        assert!(matches!(run("", divide), Err(Failure::Business(_))));
    }

    #[test]
    fn a_result_that_json_cannot_hold_is_a_defect() {
        let keys_are_no_strings = |()| Ok(BTreeMap::from([((1, 2), 3)]));
        assert!(matches!(run("null", keys_are_no_strings), Err(Failure::Fatal(_))));
    }
}

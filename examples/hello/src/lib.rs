//! Greets somebody: the smallest task there is.
//!
//! Input: `{"name": "Ada"}`. Result: `{"greeting": "Hello, Ada!"}`.

use atropos_guest::{Failure, log};
use serde::{Deserialize, Serialize};

/// What the task takes. An input without a `name`, or with a field that is not listed here, is refused before `run`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    name: String,
}

/// What the task gives back.
#[derive(Debug, PartialEq, Serialize)]
struct Output {
    greeting: String,
}

atropos_guest::task!(run);

fn run(input: Input) -> Result<Output, Failure> {
    let name = input.name.trim();
    if name.is_empty() {
        return Err(Failure::business("there is nobody to greet: `name` is empty"));
    }
    log::info!("greeting {name}");
    Ok(Output { greeting: format!("Hello, {name}!") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_is_greeted() {
        let greeted = run(Input { name: " Ada ".to_owned() });
        assert_eq!(greeted, Ok(Output { greeting: "Hello, Ada!".to_owned() }));
    }

    #[test]
    fn nobody_is_not() {
        assert!(matches!(run(Input { name: " ".to_owned() }), Err(Failure::Business(_))));
    }
}

//! Parse, run, exit code.

fn main() -> std::process::ExitCode {
    atropos::cli::main()
}

//! The `packhouse` binary: hands its arguments to [`packhouse::cli`] and exits with its status.

fn main() -> std::process::ExitCode {
    packhouse::cli::main()
}

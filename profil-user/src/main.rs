//! The `profil` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    profil_user::cli::main()
}

//! The TypeScript in `sdk/src/generated` is what the types of Rust say. `cargo xtask generate` writes it anew.

#![allow(
    clippy::disallowed_methods,
    reason = "what is generated are files of the sources"
)]

#[path = "generated/typescript.rs"]
mod typescript;

use std::{fs, path::Path};

use runlog_bindings::all_calls;

/// Set by `cargo xtask generate`: to write what differs.
const WRITE: &str = "RUNLOG_GENERATE";

#[test]
fn generated_typescript_is_what_the_types_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/src/generated");
    let calls = all_calls();
    for (name, text) in [
        ("types.ts", typescript::types(&calls)),
        ("calls.ts", typescript::calls(&calls)),
    ] {
        let path = folder.join(name);
        if std::env::var_os(WRITE).is_some() {
            fs::write(&path, &text).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == text,
            "{} isn't what the types of Rust say; run `cargo xtask generate`",
            path.display()
        );
    }
}

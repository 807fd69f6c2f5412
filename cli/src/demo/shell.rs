//! Quoting paths for a shell.

use std::{
    env,
    path::{Path, PathBuf},
};

/// How to call this program from a shell: by its name if the shell finds it, otherwise by its path.
pub(super) fn called(program: &Path) -> String {
    let found = env::var_os("PATH").and_then(|path| {
        env::split_paths(&path)
            .map(|folder| folder.join("runlog"))
            .find(|candidate| candidate.is_file())
    });
    let is_same = |found: PathBuf| matches!((found.canonicalize(), program.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if found.is_some_and(is_same) {
        return "runlog".to_owned();
    }
    match env::current_dir()
        .ok()
        .and_then(|folder| program.strip_prefix(folder).ok().map(Path::to_owned))
    {
        Some(relative) => quoted(&relative),
        None => quoted(program),
    }
}

/// A path, quoted for a shell.
pub(super) fn quoted(path: &Path) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    match path.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_plain) => text.to_owned(),
        Some(text) if !text.chars().any(char::is_control) => {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
        _ => {
            // Escaped: safe to print on a terminal, and readable for shells that support this form.
            let escaped = path
                .as_os_str()
                .as_encoded_bytes()
                .iter()
                .map(|byte| match byte {
                    b'\\' | b'\'' => format!("\\{}", char::from(*byte)),
                    b' '..=b'~' => char::from(*byte).to_string(),
                    byte => format!("\\x{byte:02x}"),
                });
            format!("$'{}'", escaped.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_path_is_one_word_of_a_shell() {
        for (path, expected) in [
            ("a/b-1.c", "a/b-1.c"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("\x1b[31m'é", "$'\\x1b[31m\\'\\xc3\\xa9'"),
        ] {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}

//! Modules that name each other in every way that Rust has.

use super::*;
use crate::sources::tests::Folder;

fn edges(files: &[(&str, &str)]) -> Vec<String> {
    let folder = Folder::of(files);
    let modules = Modules::read(folder.path(), "lib.rs").unwrap();
    let edges = modules.edges().into_keys();
    edges
        .map(|edge| format!("{} -> {}", edge.from.display(), edge.to.display()))
        .filter(|edge| !edge.starts_with("lib.rs"))
        .collect()
}

#[test]
fn imports_and_paths_in_the_code_are_found() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        (
            "a.rs",
            "use crate::{b::{B, inner::Deep}, c};\nfn f() { c::g(); }",
        ),
        ("b.rs", "pub struct B; pub mod inner { pub struct Deep; }"),
        ("c.rs", "pub fn g() -> u8 { crate::d::D::new() }"),
        ("d.rs", "pub struct D;"),
    ];
    assert_eq!(
        edges(&files),
        ["a.rs -> b.rs", "a.rs -> c.rs", "c.rs -> d.rs"]
    );
}

#[test]
fn a_re_export_leads_to_the_file_that_defines() {
    let files = [
        ("lib.rs", "mod a; mod runs; pub use runs::NewRun as Fresh;"),
        ("a.rs", "use crate::{Fresh, runs::{Place, Globbed}};"),
        (
            "runs/mod.rs",
            "mod start; mod place; mod glob; pub use start::NewRun; pub(crate) use place::Place; pub use glob::*;",
        ),
        ("runs/start.rs", "use super::Place; pub struct NewRun;"),
        ("runs/place.rs", "pub struct Place;"),
        ("runs/glob.rs", "pub struct Globbed;"),
    ];
    assert_eq!(
        edges(&files),
        [
            "a.rs -> runs/glob.rs",
            "a.rs -> runs/place.rs",
            "a.rs -> runs/start.rs",
            "runs/mod.rs -> runs/glob.rs",
            "runs/mod.rs -> runs/place.rs",
            "runs/mod.rs -> runs/start.rs",
            "runs/start.rs -> runs/place.rs"
        ]
    );
}

#[test]
fn what_a_parent_defines_or_imports_is_found_through_super() {
    let files = [
        ("lib.rs", "mod room; mod other;"),
        (
            "room.rs",
            "use crate::other::Other; mod child; struct Mine;",
        ),
        ("room/child.rs", "use super::{Mine, Other};"),
        ("other.rs", "pub struct Other;"),
    ];
    assert_eq!(
        edges(&files),
        [
            "room/child.rs -> other.rs",
            "room/child.rs -> room.rs",
            "room.rs -> other.rs"
        ]
    );
}

#[test]
fn tests_comments_literals_and_other_crates_name_nothing() {
    let files = [
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod gone;"),
        (
            "a.rs",
            "// crate::b::B\n/* crate::b::B */ const T: &str = \"crate::b::B\"; const Q: char = '\"';\nuse std::b::B;\n\
             const R: &str = r#\"\"crate::b::B\"#;\n#[cfg(test)]\nuse crate::b::B;\n#[cfg(test)]\nmod tests { use crate::b::B; }",
        ),
        ("b.rs", "pub struct B; #[cfg(not(test))] use crate::a::T;"),
    ];
    assert_eq!(edges(&files), ["b.rs -> a.rs"]);
}

#[test]
fn public_names_at_the_root_are_counted() {
    let folder = Folder::of(&[
        (
            "lib.rs",
            "pub mod a; mod b; pub use a::{X, y::{Y, Z as W}}; pub(crate) use b::Q; pub struct S; fn f() {}",
        ),
        ("a.rs", ""),
        ("b.rs", ""),
    ]);
    let modules = Modules::read(folder.path(), "lib.rs").unwrap();
    assert_eq!(modules.root_names(), ["a", "X", "Y", "W", "S"]);
}

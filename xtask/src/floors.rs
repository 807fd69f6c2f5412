//! Layering of a crate's modules: no module imports one of a higher layer, and there are no import cycles.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    child::root,
    modules::{Edge, Modules},
    report::Outcome,
};

/// A crate, and its layering rules.
struct Crate {
    sources: &'static str,
    root: &'static str,
    /// Its modules, the lowest layer first; those not named are below all of them.
    floors: &'static [&'static str],
    /// How many public names it may have at its root.
    names_max: usize,
}

const CRATES: [Crate; 7] = [
    Crate::of("core/log/src", "lib.rs", &[]),
    Crate::of(
        "core/engine/src",
        "lib.rs",
        &["format", "storage", "log", "index", "store", "embedded"],
    ),
    Crate::of("core/model/src", "lib.rs", &[]),
    Crate {
        // The names that a new user needs; all others are in their modules.
        names_max: 41,
        ..Crate::of(
            "core/runlog/src",
            "lib.rs",
            &[
                "journal",
                "kernel",
                "watch",
                "contexts",
                "scan",
                "flows",
                "runs",
                "chats",
                "transcripts",
                "sessions",
                "agents",
                "opening",
                "backup",
                "compaction",
                "retention",
                "repair",
                "blocking",
                "archive",
            ],
        )
    },
    Crate::of("core/bindings/src", "lib.rs", &[]),
    Crate::of("cli/src", "main.rs", &[]),
    Crate::of("xtask/src", "main.rs", &[]),
];

impl Crate {
    const fn of(
        sources: &'static str,
        root: &'static str,
        floors: &'static [&'static str],
    ) -> Self {
        Self {
            sources,
            root,
            floors,
            names_max: usize::MAX,
        }
    }

    /// The layer of a file; 0 is below all named ones.
    fn height(&self, file: &Path) -> usize {
        let module = file.iter().next().unwrap_or_default().to_string_lossy();
        let module = module.trim_end_matches(".rs");
        let floor = self.floors.iter().position(|floor| *floor == module);
        floor.map_or(0, |floor| floor + 1)
    }

    /// The imports among its modules; not those of its root, which only re-exports.
    fn edges(&self, modules: &Modules) -> BTreeMap<Edge, String> {
        let mut edges = modules.edges();
        edges.retain(|edge, _| edge.from != Path::new(self.root));
        edges
    }
}

/// Finds imports that point up or form a cycle, and roots with too many names.
pub(crate) fn check() -> Outcome {
    let mut found = Vec::new();
    for each in &CRATES {
        let modules = Modules::read(&root().join(each.sources), each.root)?;
        found.extend(faults(each, &modules));
    }
    for fault in &found {
        eprintln!("error: {fault}");
    }
    if !found.is_empty() {
        return Err(format!("{} faults", found.len()));
    }
    Ok(String::new())
}

fn faults(of: &Crate, modules: &Modules) -> Vec<String> {
    let edges = of.edges(modules);
    let mut found: Vec<String> = edges
        .iter()
        .filter(|(edge, _)| of.height(&edge.from) < of.height(&edge.to))
        .map(|(edge, path)| {
            format!(
                "{}/{} names {path} of {}, which is on a higher floor",
                of.sources,
                edge.from.display(),
                edge.to.display()
            )
        })
        .collect();
    let circles = circles(&edges);
    let circles = circles.iter().map(|circle| {
        format!(
            "{}: these name each other in a circle:\n{}",
            of.sources,
            describe(circle, &edges)
        )
    });
    found.extend(circles);
    let names = modules.root_names().len();
    if names > of.names_max {
        found.push(format!(
            "{}/{} has {names} public names, and may have {}: leave some to their modules",
            of.sources, of.root, of.names_max
        ));
    }
    found
}

/// The imports within a cycle, one per line.
fn describe(circle: &BTreeSet<&PathBuf>, edges: &BTreeMap<Edge, String>) -> String {
    let lines = edges
        .iter()
        .filter(|(edge, _)| circle.contains(&edge.from) && circle.contains(&edge.to))
        .map(|(edge, path)| {
            format!(
                "    {} -> {}  by {path}",
                edge.from.display(),
                edge.to.display()
            )
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// The import cycles, each as its set of files (a strongly connected component).
fn circles(edges: &BTreeMap<Edge, String>) -> Vec<BTreeSet<&PathBuf>> {
    let mut below: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = BTreeMap::new();
    for edge in edges.keys() {
        below.entry(&edge.from).or_default().insert(&edge.to);
    }
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = below
        .keys()
        .map(|file| (*file, reachable(file, &below)))
        .collect();
    let mut circles: Vec<BTreeSet<&PathBuf>> = Vec::new();
    for (file, reached_from_it) in &reached {
        let is_known = circles.iter().any(|circle| circle.contains(file));
        if reached_from_it.contains(file) && !is_known {
            let leads_back = |other: &&&PathBuf| {
                reached
                    .get(**other)
                    .is_some_and(|reached| reached.contains(file))
            };
            circles.push(reached_from_it.iter().filter(leads_back).copied().collect());
        }
    }
    circles
}

/// The files reachable from one by any number of imports.
fn reachable<'a>(
    from: &'a PathBuf,
    below: &BTreeMap<&'a PathBuf, BTreeSet<&'a PathBuf>>,
) -> BTreeSet<&'a PathBuf> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        for to in below.get(file).into_iter().flatten() {
            if found.insert(*to) {
                next.push(to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tests::Folder;

    const TOWER: Crate = Crate {
        names_max: 4,
        ..Crate::of("tower", "lib.rs", &["format", "log"])
    };

    fn faults_of(files: &[(&str, &str)]) -> Vec<String> {
        let folder = Folder::of(files);
        faults(&TOWER, &Modules::read(folder.path(), "lib.rs").unwrap())
    }

    #[test]
    fn an_import_that_points_up_is_found() {
        let files = [
            ("lib.rs", "mod format; mod log; mod ids;"),
            ("format.rs", "use crate::ids::Id; pub struct Frame;"),
            ("log.rs", "use crate::format::Frame; pub struct Writer;"),
            ("ids.rs", "pub struct Id(crate::log::Writer);"),
        ];
        assert_eq!(
            faults_of(&files)[0],
            "tower/ids.rs names crate::log::Writer of log.rs, which is on a higher floor"
        );
    }

    #[test]
    fn level_and_downward_imports_are_fine() {
        let files = [
            ("lib.rs", "mod format; mod log; pub use log::Log;"),
            ("format.rs", "pub struct Frame;"),
            ("log/mod.rs", "mod writer; mod reader; pub use writer::Log;"),
            (
                "log/writer.rs",
                "use super::reader::Reader; use crate::format::Frame; pub struct Log;",
            ),
            (
                "log/reader.rs",
                "use crate::format; fn f() -> format::Frame {} pub struct Reader;",
            ),
        ];
        assert_eq!(faults_of(&files), [""; 0]);
    }

    #[test]
    fn a_circle_is_found_also_through_a_re_export() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use b::B;"),
            ("a.rs", "use crate::B; pub struct A;"),
            ("b.rs", "use crate::c; pub struct B(c::C);"),
            ("c.rs", "pub struct C(crate::a::A);"),
        ];
        let faults = faults_of(&files);
        assert_eq!(faults.len(), 1);
        for edge in ["a.rs -> b.rs  by crate::B", "b.rs -> c.rs", "c.rs -> a.rs"] {
            assert!(faults[0].contains(edge), "{}", faults[0]);
        }
    }

    #[test]
    fn a_parent_with_code_is_in_a_circle_with_a_child_that_names_it() {
        let room = [
            ("lib.rs", "mod room;"),
            (
                "room/mod.rs",
                "mod child; struct Wall; fn f() { child::g() }",
            ),
            ("room/child.rs", "use super::Wall; pub fn g() {}"),
        ];
        assert!(faults_of(&room)[0].contains("room/child.rs -> room/mod.rs"));
    }

    #[test]
    fn too_many_names_at_the_root_are_found() {
        let files = [
            ("lib.rs", "pub mod a; pub use a::{B, C, D, E};"),
            ("a.rs", ""),
        ];
        assert!(faults_of(&files)[0].contains("has 5 public names, and may have 4"));
    }
}

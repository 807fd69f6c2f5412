//! The modules of a crate, and what each of them names of the others, read from the text of its files.
//!
//! A path is followed to the file that defines its last name: through re-exports, imports of a parent, and globs. What
//! only tests compile is left out. Methods are not followed: a call of one names no module.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

/// How many re-exports a path may lead through; more are a circle of them.
const HOPS_MAX: u32 = 16;

/// A crate's modules; the first is its root.
pub(crate) struct Modules {
    modules: Vec<Module>,
}

#[derive(Default)]
struct Module {
    /// From the crate's `src`.
    file: PathBuf,
    /// The names that lead to it from the root.
    path: Vec<String>,
    children: HashMap<String, usize>,
    /// What it imports or re-exports, by the name it has here.
    imports: HashMap<String, Vec<String>>,
    /// What it imports all names of.
    globs: Vec<Vec<String>>,
    defines: HashSet<String>,
    /// Every path in it, imports included.
    mentions: Vec<Vec<String>>,
    /// The names that others have of it: public modules and re-exports.
    public: Vec<String>,
}

/// That a file names what another defines.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Edge {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
}

impl Modules {
    /// The modules of the crate whose root this file of `sources` is.
    pub(crate) fn read(sources: &Path, root: &str) -> Result<Self, String> {
        let mut all = Self {
            modules: Vec::new(),
        };
        all.read_file(sources, PathBuf::from(root), Vec::new())?;
        Ok(all)
    }

    /// Each pair of files of which one names what the other defines, with one of the paths that do.
    pub(crate) fn edges(&self) -> BTreeMap<Edge, String> {
        let mut edges = BTreeMap::new();
        for (index, module) in self.modules.iter().enumerate() {
            for mention in &module.mentions {
                let Some(target) = self.definer(index, mention, 0) else {
                    continue;
                };
                let to = &self.modules[target].file;
                if *to != module.file {
                    let edge = Edge {
                        from: module.file.clone(),
                        to: to.clone(),
                    };
                    edges.entry(edge).or_insert_with(|| mention.join("::"));
                }
            }
        }
        edges
    }

    /// The public names at the root.
    pub(crate) fn root_names(&self) -> &[String] {
        &self.modules[0].public
    }

    fn read_file(
        &mut self,
        sources: &Path,
        file: PathBuf,
        path: Vec<String>,
    ) -> Result<usize, String> {
        let full = sources.join(&file);
        let text =
            fs::read_to_string(&full).map_err(|error| format!("{}: {error}", full.display()))?;
        let index = self.add(file.clone(), path);
        for (parent, name) in self.read_text(index, &text) {
            // What is declared in an inline module would stand in a folder of its name; no crate here has that.
            let (name, parent_path) = (name, self.modules[parent].path.clone());
            let folder = folder_of(&file);
            let candidates = [
                folder.join(format!("{name}.rs")),
                folder.join(&name).join("mod.rs"),
            ];
            let Some(child) = candidates.iter().find(|file| sources.join(file).is_file()) else {
                return Err(format!(
                    "{}: no file of its module `{name}`",
                    full.display()
                ));
            };
            let path = [parent_path, vec![name.clone()]].concat();
            let child = self.read_file(sources, child.clone(), path)?;
            self.modules[parent].children.insert(name, child);
        }
        Ok(index)
    }

    fn add(&mut self, file: PathBuf, path: Vec<String>) -> usize {
        self.modules.push(Module {
            file,
            path,
            ..Module::default()
        });
        self.modules.len() - 1
    }

    /// Takes in a file's text; gives the modules that have files of their own, each with the module that declares it.
    fn read_text(&mut self, index: usize, text: &str) -> Vec<(usize, String)> {
        let mut tokens = Tokens::of(text);
        let mut declared = Vec::new();
        // The inline modules that are open, with the depth of braces at which each ends.
        let mut open = vec![(index, 0_usize)];
        let (mut depth, mut is_public) = (0_usize, false);
        while let Some(token) = tokens.next() {
            let (current, ends_at) = open.last().copied().unwrap_or((index, 0));
            match token {
                "#" => {
                    if tokens.attribute_says_test() {
                        tokens.skip_item();
                    }
                    continue;
                }
                "pub" => {
                    is_public = !tokens.skip_restriction();
                    continue;
                }
                "mod" => {
                    let name = tokens.next().unwrap_or("").to_owned();
                    if is_public {
                        self.modules[current].public.push(name.clone());
                    }
                    if tokens.next() == Some("{") {
                        let path =
                            [self.modules[current].path.clone(), vec![name.clone()]].concat();
                        let child = self.add(self.modules[current].file.clone(), path);
                        self.modules[current].children.insert(name, child);
                        open.push((child, depth));
                        depth += 1;
                    } else {
                        declared.push((current, name));
                    }
                }
                "use" if tokens.peek() != Some("<") => {
                    for leaf in tokens.use_tree(&[]) {
                        self.modules[current].import(leaf, is_public);
                    }
                }
                "{" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    if open.len() > 1 && depth == ends_at {
                        open.pop();
                    }
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
                | "macro_rules" => {
                    if tokens.peek() == Some("!") {
                        tokens.next();
                    }
                    if let Some(name) = tokens.peek().filter(|name| is_name(name)) {
                        self.modules[current].defines.insert(name.to_owned());
                        if is_public && depth == 0 {
                            self.modules[current].public.push(name.to_owned());
                        }
                    }
                }
                name if is_name(name) && tokens.peek() == Some("::") => {
                    let path = tokens.path_from(name);
                    self.modules[current].mentions.push(path);
                }
                _ => {}
            }
            is_public = false;
        }
        declared
    }

    /// The module that defines what a path names, seen from a module; `None` for what is of another crate, and for a path
    /// that ends in a module, whose names are mentioned where they are used.
    fn definer(&self, from: usize, path: &[String], hops: u32) -> Option<usize> {
        if hops > HOPS_MAX {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut current = match first.as_str() {
            "crate" => 0,
            "self" => from,
            "super" => self.parent(from)?,
            name => {
                let here = &self.modules[from];
                if let Some(child) = here.children.get(name).filter(|_| !rest.is_empty()) {
                    *child
                } else {
                    let import = here.imports.get(name)?;
                    // `use name::…` of another crate's is its own import.
                    if import.first() == Some(first) && import.len() == 1 {
                        return None;
                    }
                    return self.definer(from, &[import, rest].concat(), hops + 1);
                }
            }
        };
        while let Some((name, after)) = rest.split_first() {
            let module = &self.modules[current];
            if name == "super" {
                current = self.parent(current)?;
            } else if name == "*" {
                return Some(current);
            } else if let Some(import) = module
                .imports
                .get(name)
                .filter(|_| !module.children.contains_key(name) || after.is_empty())
            {
                return self.definer(current, &[import, after].concat(), hops + 1);
            } else if let Some(child) = module.children.get(name) {
                current = *child;
            } else {
                return Some(self.through_globs(current, name, hops).unwrap_or(current));
            }
            rest = after;
        }
        None
    }

    /// The module that a glob of this one gets a name from.
    fn through_globs(&self, module: usize, name: &str, hops: u32) -> Option<usize> {
        if self.modules[module].defines.contains(name) {
            return None;
        }
        self.modules[module].globs.iter().find_map(|glob| {
            let target = self.definer(module, glob, hops + 1)?;
            let there = &self.modules[target];
            if there.defines.contains(name) {
                return Some(target);
            }
            let import = there.imports.get(name)?;
            self.definer(target, import, hops + 2)
        })
    }

    fn parent(&self, module: usize) -> Option<usize> {
        let (_, path) = self.modules[module].path.split_last()?;
        self.modules.iter().position(|module| module.path == path)
    }
}

impl Module {
    /// Takes in one name that is imported.
    fn import(&mut self, leaf: Leaf, is_public: bool) {
        let Leaf { path, name } = leaf;
        if name == "*" {
            self.globs.push(path.clone());
        } else {
            if is_public {
                self.public.push(name.clone());
            }
            self.imports.insert(name, path.clone());
        }
        self.mentions.push(path);
    }
}

/// Where the modules of a file have theirs.
fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
    match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") | None => folder,
        Some(stem) => folder.join(stem),
    }
}

/// One name of an import, and the whole path to it.
struct Leaf {
    path: Vec<String>,
    name: String,
}

/// The words and signs of a text, without comments and literals.
struct Tokens<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Tokens<'a> {
    fn of(text: &'a str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = token_length(rest, first);
            let (token, after) = rest.split_at(length);
            if !token.trim().is_empty() && !token.starts_with(['"', '/']) {
                tokens.push(token);
            }
            rest = after;
        }
        Self { tokens, at: 0 }
    }

    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    /// After a `#`: past the attribute, which may be that only tests compile what follows.
    fn attribute_says_test(&mut self) -> bool {
        if self.peek() == Some("!") {
            self.next();
        }
        let start = self.at;
        self.skip_group();
        let attribute = &self.tokens[start..self.at];
        attribute.starts_with(&["[", "cfg"])
            && attribute.contains(&"test")
            && !attribute.contains(&"not")
    }

    /// Past a group in brackets of any kind that begins here.
    fn skip_group(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.next() {
            match token {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Past the item, field or statement that begins here.
    fn skip_item(&mut self) {
        let is_use = self.peek() == Some("use");
        while let Some(token) = self.peek() {
            match token {
                "(" | "[" => self.skip_group(),
                "{" => {
                    self.skip_group();
                    if !is_use {
                        return;
                    }
                }
                ";" => {
                    self.next();
                    return;
                }
                "}" => return,
                _ => {
                    self.next();
                }
            }
        }
    }

    /// After a `pub`: past what restricts it, which may be nothing.
    fn skip_restriction(&mut self) -> bool {
        let is_restricted = self.peek() == Some("(");
        if is_restricted {
            self.skip_group();
        }
        is_restricted
    }

    /// After the `use`, or in a group of one: the names that are imported.
    fn use_tree(&mut self, before: &[String]) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        let mut path = before.to_vec();
        let mut name = None;
        while let Some(token) = self.next() {
            match token {
                "::" => {}
                "{" => {
                    leaves.extend(self.use_tree(&path));
                    path = before.to_vec();
                }
                "as" => name = self.next().map(str::to_owned),
                "," | "}" | ";" => {
                    leaves.extend(leaf(&path, before, name.take()));
                    path = before.to_vec();
                    if token != "," {
                        break;
                    }
                }
                segment => path.push(segment.to_owned()),
            }
        }
        leaves
    }

    /// The path that begins with a name, up to generic arguments.
    fn path_from(&mut self, first: &str) -> Vec<String> {
        let mut path = vec![first.to_owned()];
        while self.peek() == Some("::") {
            self.next();
            match self.peek().filter(|name| is_name(name)) {
                Some(name) => path.push(name.to_owned()),
                None => break,
            }
            self.next();
        }
        path
    }
}

/// The import of a whole path; `None` where there is nothing after what a group shares.
fn leaf(path: &[String], before: &[String], name: Option<String>) -> Option<Leaf> {
    if path.len() == before.len() {
        return None;
    }
    let mut path = path.to_vec();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = name.or_else(|| path.last().cloned())?;
    Some(Leaf { path, name })
}

fn is_name(token: &str) -> bool {
    token
        .chars()
        .next()
        .is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// How many bytes the token, blank, comment or literal at the start of a text takes. Literals and comments are told by
/// their first character, `"` or `/`; a division is taken for a comment of one character, which does no harm.
fn token_length(text: &str, first: char) -> usize {
    let end_of = |found: Option<usize>| found.unwrap_or(text.len());
    if first.is_whitespace() {
        return end_of(text.find(|c: char| !c.is_whitespace()));
    }
    if text.starts_with("//") {
        return end_of(text.find('\n'));
    }
    if text.starts_with("/*") {
        return text.find("*/").map_or(text.len(), |at| at + 2);
    }
    if text.starts_with("::") {
        return 2;
    }
    if first == '"' {
        return quoted_length(text);
    }
    if first == '\'' {
        return character_length(text);
    }
    if let Some(raw) = text.strip_prefix('r').or_else(|| text.strip_prefix("br")) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = text.len() - raw.len() + hashes + 1;
            return text[start..]
                .find(&end)
                .map_or(text.len(), |at| start + at + end.len());
        }
    }
    if first.is_alphanumeric() || first == '_' {
        return end_of(text.find(|c: char| !c.is_alphanumeric() && c != '_'));
    }
    first.len_utf8()
}

/// Of a text that begins with a double quote, the bytes up to the one that closes it.
fn quoted_length(text: &str) -> usize {
    let mut is_escaped = true; // the quote that opens
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Of a text that begins with a single quote, the bytes of the character literal, or of the quote alone before a lifetime.
fn character_length(text: &str) -> usize {
    let mut rest = text.char_indices().skip(1);
    match (rest.next(), rest.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let after = at + escaped.len_utf8();
            text[after..]
                .find('\'')
                .map_or(text.len(), |end| after + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
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
}

//! The modules of a crate, and the names that each uses of the others, parsed from the source files.
//!
//! A path is followed to the file that defines its last name: through re-exports, imports of a parent, and globs. Code
//! under `cfg(test)` is skipped. Methods are not followed: a method call names no module.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use crate::tokens::{Leaf, Tokens, is_name};

/// The most re-exports that a path is followed through; more are a cycle.
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
    /// Its public names: modules and re-exports.
    public: Vec<String>,
}

/// A dependency of one file on another, whose name it uses.
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

    /// Parses a file's text; returns the modules that have files of their own, each with the module that declares it.
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
    /// Adds one imported name.
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

/// The folder of a file's submodules.
fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
    match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") | None => folder,
        Some(stem) => folder.join(stem),
    }
}

#[cfg(test)]
mod tests;

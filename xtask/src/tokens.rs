//! The words and signs of Rust source, and the few forms of them that say which names a file imports.

/// One name of an import, and the whole path to it.
pub(crate) struct Leaf {
    pub(crate) path: Vec<String>,
    pub(crate) name: String,
}

/// The words and signs of a text, without comments and literals.
pub(crate) struct Tokens<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
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

    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).copied()
    }

    pub(crate) fn next(&mut self) -> Option<&'a str> {
        let token = self.peek()?;
        self.at += 1;
        Some(token)
    }

    /// After a `#`: past the attribute, which may be that only tests compile what follows.
    pub(crate) fn attribute_says_test(&mut self) -> bool {
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
    pub(crate) fn skip_item(&mut self) {
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
    pub(crate) fn skip_restriction(&mut self) -> bool {
        let is_restricted = self.peek() == Some("(");
        if is_restricted {
            self.skip_group();
        }
        is_restricted
    }

    /// After the `use`, or in a group of one: the names that are imported.
    pub(crate) fn use_tree(&mut self, before: &[String]) -> Vec<Leaf> {
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
    pub(crate) fn path_from(&mut self, first: &str) -> Vec<String> {
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

pub(crate) fn is_name(token: &str) -> bool {
    token
        .chars()
        .next()
        .is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// How many bytes the token, blank, comment or literal at the start of a text takes. Literals and comments are recognized by
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

//! Python literals, as `repr` writes them, turned into JSON: SWE-agent stores tool calls in this form.

/// The deepest nesting that is read.
const DEPTH_MAX: usize = 64;

/// The JSON of a Python literal made of dicts, lists, tuples, strings, numbers, `True`, `False` and `None`.
/// `None` when it is anything else.
pub(super) fn to_json(literal: &str) -> Option<String> {
    let mut reader = Reader {
        rest: literal,
        json: String::with_capacity(literal.len()),
    };
    reader.value(0)?;
    reader.skip_space();
    reader.rest.is_empty().then_some(reader.json)
}

struct Reader<'a> {
    rest: &'a str,
    json: String,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, what: char) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(what) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if depth >= DEPTH_MAX {
            return None;
        }
        self.skip_space();
        match self.rest.chars().next()? {
            '{' => self.dict(depth),
            '[' => self.list(depth, '[', ']'),
            '(' => self.list(depth, '(', ')'),
            quote @ ('\'' | '"') => self.string(quote),
            _ => self.word(),
        }
    }

    fn dict(&mut self, depth: usize) -> Option<()> {
        self.eat('{');
        self.json.push('{');
        let mut first = true;
        while !self.eat('}') {
            if !first {
                self.json.push(',');
            }
            first = false;
            self.skip_space();
            let quote = self
                .rest
                .chars()
                .next()
                .filter(|c| matches!(c, '\'' | '"'))?;
            self.string(quote)?;
            if !self.eat(':') {
                return None;
            }
            self.json.push(':');
            self.value(depth + 1)?;
            if !self.eat(',') {
                self.skip_space();
                if !self.rest.starts_with('}') {
                    return None;
                }
            }
        }
        self.json.push('}');
        Some(())
    }

    fn list(&mut self, depth: usize, open: char, close: char) -> Option<()> {
        self.eat(open);
        self.json.push('[');
        let mut first = true;
        while !self.eat(close) {
            if !first {
                self.json.push(',');
            }
            first = false;
            self.value(depth + 1)?;
            if !self.eat(',') {
                self.skip_space();
                if !self.rest.starts_with(close) {
                    return None;
                }
            }
        }
        self.json.push(']');
        Some(())
    }

    fn word(&mut self) -> Option<()> {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        match word {
            "True" => self.json.push_str("true"),
            "False" => self.json.push_str("false"),
            "None" => self.json.push_str("null"),
            number => {
                serde_json::from_str::<serde_json::Number>(number).ok()?;
                self.json.push_str(number);
            }
        }
        self.rest = rest;
        Some(())
    }

    fn string(&mut self, quote: char) -> Option<()> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        chars.next();
        loop {
            match chars.next()?.1 {
                '\\' => escape(&mut chars, &mut text)?,
                c if c == quote => break,
                c => text.push(c),
            }
        }
        self.rest = chars.as_str();
        self.json.push_str(&serde_json::to_string(&text).ok()?);
        Some(())
    }
}

fn escape(chars: &mut std::str::CharIndices<'_>, text: &mut String) -> Option<()> {
    let plain = match chars.next()?.1 {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'v' => '\x0b',
        '\n' => return Some(()),
        c @ ('\\' | '\'' | '"') => c,
        'x' => hexadecimal(chars, 2)?,
        'u' => hexadecimal(chars, 4)?,
        'U' => hexadecimal(chars, 8)?,
        c @ '0'..='7' => octal(chars, c)?,
        other => {
            text.push('\\');
            other
        }
    };
    text.push(plain);
    Some(())
}

fn hexadecimal(chars: &mut std::str::CharIndices<'_>, count: usize) -> Option<char> {
    let mut code = 0;
    for _ in 0..count {
        code = code * 16 + chars.next()?.1.to_digit(16)?;
    }
    char::from_u32(code)
}

fn octal(chars: &mut std::str::CharIndices<'_>, first: char) -> Option<char> {
    let mut code = first.to_digit(8)?;
    for _ in 0..2 {
        let Some(digit) = chars.clone().next().and_then(|(_, c)| c.to_digit(8)) else {
            break;
        };
        code = code * 8 + digit;
        chars.next();
    }
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_writes_is_read() {
        for (literal, json) in [
            ("[]", "[]"),
            ("{}", "{}"),
            ("[{'a': 'b', \"c\": \"it's\"}]", r#"[{"a":"b","c":"it's"}]"#),
            (
                r"'a\n\\n\'\x41\u00e9\U0001F600\0\101'",
                r#""a\n\\n'Aé😀\u0000A""#,
            ),
            (
                "(1, -2.5, 1e-07, True, False, None,)",
                "[1,-2.5,1e-07,true,false,null]",
            ),
            (r"'\d'", r#""\\d""#),
        ] {
            assert_eq!(to_json(literal).as_deref(), Some(json), "{literal}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for literal in [
            "",
            "'open",
            "[1 2]",
            "{'a' 1}",
            "{1: 2}",
            "nan",
            "[1]]",
            "__import__('os')",
            "'\\ud800'",
        ] {
            assert_eq!(to_json(literal), None, "{literal}");
        }
        assert_eq!(to_json(&"[".repeat(100_000)), None);
    }
}

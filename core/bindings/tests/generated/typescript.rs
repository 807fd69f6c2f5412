//! JSON schemas as TypeScript.

use std::collections::BTreeMap;

use runlog_bindings::schema::{Call, Calls, Form, in_javascript};
use serde_json::{Map, Value};

/// Comments are at most this wide.
const WIDTH: usize = 116;
const HEADER: &str =
    "// Generated from the types of Rust by `cargo xtask generate`. A change here is lost.\n\n";
/// Types that TypeScript has by hand, with where they are.
const BY_HAND: [(&str, &str); 4] = [
    ("Page", "../pages.js"),
    ("ReceivedCommand", "../flow-types.js"),
    ("RunSnapshot", "../flow-types.js"),
    ("Updates", "../updates.js"),
];

/// Which way a value goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To Runlog.
    Given,
    /// From Runlog.
    Result,
}

/// Writes types, those that go both ways and differ under a name for each.
struct Printer<'c> {
    calls: &'c Calls,
    /// The types that are given in another form than they are returned.
    differ: Vec<&'c str>,
}

/// Every type that a call names.
pub(super) fn types(calls: &Calls) -> String {
    let printer = Printer::new(calls);
    let mut all = BTreeMap::new();
    for (way, definitions) in [(Way::Given, calls.given()), (Way::Result, calls.results())] {
        for (name, schema) in definitions {
            if !is_by_hand(name) {
                let own = printer.name(name, way);
                all.insert(own.clone(), printer.definition(&own, schema, way));
            }
        }
    }
    let text: Vec<String> = all.into_values().collect();
    HEADER.to_owned() + &imports(&text.concat(), &BY_HAND) + &text.join("\n")
}

/// The calls of each object.
pub(super) fn calls(calls: &Calls) -> String {
    let printer = Printer::new(calls);
    let mut text = String::new();
    for (object, calls) in &calls.objects {
        text += &format!("\nexport interface {object} {{\n");
        for call in calls {
            text += &printer.call(call);
        }
        text += "}\n";
    }
    let names = printer.names_in(&text);
    let import = if names.is_empty() {
        String::new()
    } else {
        format!(
            "import type {{\n  {},\n}} from \"./types.js\";\n",
            names.join(",\n  ")
        )
    };
    HEADER.to_owned() + imports(&text, &BY_HAND).trim_end_matches('\n') + "\n" + &import + &text
}

fn imports(text: &str, from: &[(&str, &str)]) -> String {
    let used = from.iter().filter(|(name, _)| has_word(text, name));
    let lines = used.map(|(name, file)| format!("import type {{ {name} }} from \"{file}\";\n"));
    lines.collect::<String>() + "\n"
}

fn is_by_hand(name: &str) -> bool {
    ["RawJson", "JsonObject"].contains(&name)
        || name.contains("_for_")
        || BY_HAND.iter().any(|(by_hand, _)| *by_hand == name)
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric())
        .any(|found| found == word)
}

impl<'c> Printer<'c> {
    fn new(calls: &'c Calls) -> Self {
        let mut printer = Self {
            calls,
            differ: Vec::new(),
        };
        // What a type is made of differs first.
        loop {
            let before = printer.differ.len();
            for (name, given) in calls.given() {
                let Some(result) = calls.results().get(name) else {
                    continue;
                };
                if printer.differ.contains(&name.as_str()) {
                    continue;
                }
                let forms = [(given, Way::Given), (result, Way::Result)]
                    .map(|(schema, way)| printer.definition(name, schema, way));
                if forms[0].replace(" | undefined", "") != forms[1] {
                    printer.differ.push(name);
                }
            }
            if printer.differ.len() == before {
                return printer;
            }
        }
    }

    /// The name of a type in TypeScript.
    fn name(&self, name: &str, way: Way) -> String {
        if let Some((generic, of)) = name.split_once("_for_") {
            return format!("{generic}<{}>", self.name(of, Way::Result));
        }
        match (name, way) {
            ("RawJson", _) => "unknown".to_owned(),
            ("JsonObject", Way::Given) => "object".to_owned(),
            ("JsonObject", Way::Result) => "Record<string, unknown>".to_owned(),
            (name, Way::Given) if self.differ.contains(&name) => format!("New{name}"),
            _ => name.to_owned(),
        }
    }

    fn names_in(&self, text: &str) -> Vec<String> {
        let ways = [
            (Way::Given, self.calls.given()),
            (Way::Result, self.calls.results()),
        ];
        let mut names: Vec<String> = ways
            .iter()
            .flat_map(|(way, all)| {
                let own = all.keys().filter(|name| !is_by_hand(name));
                own.map(|name| self.name(name, *way))
            })
            .filter(|name| has_word(text, name))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn call(&self, call: &Call) -> String {
        let arguments = self.value(&call.arguments, Way::Given, 1);
        let arguments = if arguments == "{}" {
            "undefined".to_owned()
        } else {
            arguments
        };
        let answer = self.value(&call.answer, Way::Result, 1);
        let form = match call.form {
            Form::Value => "value",
            Form::Packed => "packed",
            Form::Beside => "beside",
            Form::Made => "made",
        };
        format!(
            "  {}: {{ args: {arguments}; {form}: {answer} }};\n",
            call.method
        )
    }

    fn definition(&self, name: &str, schema: &Value, way: Way) -> String {
        let mut text = doc(schema, "");
        match schema.get("properties") {
            Some(_) if schema.get("oneOf").is_none() => {
                text += &format!("export interface {name} {}\n", self.object(schema, way, 0));
            }
            _ => text += &format!("export type {name} = {};\n", self.value(schema, way, 0)),
        }
        text
    }

    /// A schema as a type.
    fn value(&self, schema: &Value, way: Way, depth: usize) -> String {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            return self.name(name.trim_start_matches("#/$defs/"), way);
        }
        if let Some(value) = schema.get("const") {
            return value.to_string();
        }
        for union in ["enum", "anyOf", "oneOf"] {
            if let Some(parts) = schema.get(union).and_then(Value::as_array) {
                let parts = parts.iter().map(|part| match union {
                    "enum" if part.is_null() => "undefined".to_owned(),
                    "enum" => part.to_string(),
                    _ => self.value(part, way, depth),
                });
                return parts.collect::<Vec<_>>().join(" | ");
            }
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.of_type(name, schema, way, depth),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str);
                let names = names.map(|name| self.of_type(name, schema, way, depth));
                names.collect::<Vec<_>>().join(" | ")
            }
            _ => "unknown".to_owned(),
        }
    }

    fn of_type(&self, name: &str, schema: &Value, way: Way, depth: usize) -> String {
        match name {
            "integer" | "number" => "number".to_owned(),
            "boolean" => "boolean".to_owned(),
            "string" => "string".to_owned(),
            "null" => "undefined".to_owned(),
            "array" => match schema.get("prefixItems").and_then(Value::as_array) {
                Some(items) => {
                    let items = items.iter().map(|item| self.value(item, way, depth));
                    format!("[{}]", items.collect::<Vec<_>>().join(", "))
                }
                None => {
                    let item = self.value(schema.get("items").unwrap_or(&Value::Null), way, depth);
                    let item = if item.contains(' ') {
                        format!("({item})")
                    } else {
                        item
                    };
                    let readonly = if way == Way::Given { "readonly " } else { "" };
                    format!("{readonly}{item}[]")
                }
            },
            "object" if schema.get("properties").is_some() => self.object(schema, way, depth),
            "object" => match schema.get("additionalProperties") {
                Some(Value::Object(value)) => {
                    let value = self.value(&Value::Object(value.clone()), way, depth);
                    format!("Record<string, {value}>")
                }
                Some(Value::Bool(false)) => "{}".to_owned(),
                _ => "Record<string, unknown>".to_owned(),
            },
            other => panic!("no type of TypeScript is known for {other}"),
        }
    }

    fn object(&self, schema: &Value, way: Way, depth: usize) -> String {
        let none = Map::new();
        let fields = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&none);
        if fields.is_empty() {
            return "{}".to_owned();
        }
        let required = schema.get("required").and_then(Value::as_array);
        let indent = "  ".repeat(depth + 1);
        let mut text = "{\n".to_owned();
        for (name, field) in fields {
            let kind = self.value(field, way, depth + 1);
            let bare = without_undefined(&kind);
            let always = way == Way::Result && field.get("x-always-present").is_some();
            let is_required = required.is_some_and(|all| all.iter().any(|one| one == name));
            let name = in_javascript(name);
            text += &match default_of(field).filter(|_| way == Way::Given && !is_required) {
                Some(described) => doc(&described, &indent),
                None => doc(field, &indent),
            };
            text += &match (always || is_required && bare == kind, way) {
                (true, _) => format!("{indent}{name}: {bare};\n"),
                (false, Way::Given) => format!("{indent}{name}?: {bare} | undefined;\n"),
                (false, Way::Result) => format!("{indent}{name}?: {bare};\n"),
            };
        }
        // What isn't known is kept, and who gives or reads it says so on purpose: any name would be one, a misspelt one too.
        text + &"  ".repeat(depth) + "}"
    }
}

fn without_undefined(kind: &str) -> String {
    let parts = kind.split(" | ").filter(|part| *part != "undefined");
    parts.collect::<Vec<_>>().join(" | ")
}

/// A field with what it is when it is left out, if that can be said in a word and isn't yet: a number, or a name.
fn default_of(field: &Value) -> Option<Value> {
    let text = field.get("description").and_then(Value::as_str)?;
    let default = match field.get("default")? {
        Value::Number(number) if number.as_f64() != Some(0.0) => number.to_string(),
        Value::String(name) if !name.is_empty() => format!("`{name}`"),
        _ => return None,
    };
    if text.contains("left out") || text.contains(&default) {
        return None;
    }
    let mut described = field.clone();
    described["description"] = Value::String(format!("{text} {default} when left out."));
    Some(described)
}

/// The documentation of a schema as a comment. Examples are Rust, and left out.
fn doc(schema: &Value, indent: &str) -> String {
    let Some(text) = schema.get("description").and_then(Value::as_str) else {
        return String::new();
    };
    let text = text.split("```").next().unwrap_or_default();
    let mut lines = Vec::new();
    for paragraph in text
        .split("\n\n")
        .map(str::trim)
        .filter(|text| !text.is_empty())
    {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let mut line = String::new();
        for word in plain(paragraph).split_whitespace() {
            if !line.is_empty()
                && indent.len() + line.chars().count() + word.chars().count() > WIDTH
            {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line += word;
        }
        lines.push(line);
    }
    match lines.as_slice() {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => {
            let lines = lines
                .iter()
                .map(|line| format!("{indent} * {line}").trim_end().to_owned());
            format!(
                "{indent}/**\n{}\n{indent} */\n",
                lines.collect::<Vec<_>>().join("\n")
            )
        }
    }
}

/// A text without the links of Rust's documentation, in which what these name has its name in JavaScript.
fn plain(text: &str) -> String {
    let text = text
        .replace("`None` is ", "left out, ")
        .replace("`None`", "left out");
    let mut parts = text.split('[');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(']') {
            Some((name, rest)) => {
                let target = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
                plain += &linked(name, target.map_or(name, |(target, _)| target));
                plain += target.map_or(rest, |(_, rest)| rest);
            }
            None => plain += part,
        }
    }
    plain.replace(". left out", ". Left out")
}

/// What a link of Rust's documentation is called in JavaScript: a variant by its value, a field or a call by its own name.
fn linked(name: &str, target: &str) -> String {
    let Some(path) = name.strip_prefix('`').and_then(|it| it.strip_suffix('`')) else {
        return name.to_owned();
    };
    let is_type = |name: &str| name.starts_with(|first: char| first.is_ascii_uppercase());
    let (of, last) = path.rsplit_once("::").unwrap_or(("", path));
    let (of_target, _) = target
        .trim_matches('`')
        .rsplit_once("::")
        .unwrap_or_default();
    let is_constant = last.chars().all(|it| it.is_ascii_uppercase() || it == '_');
    let is_variant = is_type(last) && of_target.rsplit("::").next().is_some_and(is_type);
    let quoted = match (is_constant, is_variant) {
        (true, _) => last.to_owned(),
        (_, true) => snake_case(last),
        _ if is_type(last) => last.to_owned(),
        _ => [of, &in_javascript(last)].join(if of.is_empty() { "" } else { "." }),
    };
    format!("`{quoted}`")
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

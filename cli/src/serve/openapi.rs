//! The OpenAPI description, generated from the endpoints.

use std::sync::Arc;

use axum::{
    body::Bytes,
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    endpoint::{AnswerSpec, Endpoint, Example, schema_of},
    names,
    problem::Problem,
    query::Query,
    tokens::Rights,
};

/// The path of the description.
pub(super) const PATH: &str = "/openapi.json";

const ABOUT: &str = "Runs of AI agents, their contexts, chats and flows, as a Runlog store has them. Lists come in pages: \
`next` of one is the `cursor` (or `first`) of the next, with the same filters. Errors are problems as RFC 9457 has them, \
with a `code`. Where the server has a token, each request needs `Authorization: Bearer TOKEN`. Fields of newer versions \
may come at any time.";

/// The endpoint with the description of the others, and of itself.
pub(super) fn endpoint(others: &[Endpoint]) -> Endpoint {
    let mut own = Endpoint {
        method: Method::GET,
        path: PATH,
        about: "Describes the API.",
        rights: Rights::None,
        path_schema: json!({}),
        query_schema: Query::of::<super::endpoint::NoQuery>().schema_over_http(),
        headers: &[],
        body_schema: None,
        answer: AnswerSpec {
            schema: |_| json!({"type": "object"}),
            ..AnswerSpec::json::<()>(StatusCode::OK)
        },
        example: Example::default(),
        route: get(|| async {}),
        is_cached: Arc::default(),
    };
    let mut description = document(others.iter().chain([&own]));
    without_rust(&mut description);
    with_enums(&mut description);
    let description = Bytes::from(description.to_string());
    own.route = get(move || async move { given(description.clone()) });
    own
}

fn given(description: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], description).into_response()
}

fn document<'a>(endpoints: impl Iterator<Item = &'a Endpoint>) -> Value {
    let settings = SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
    let mut generator = settings.into_generator();
    let problem = schema_of::<Problem>(&mut generator);
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in endpoints {
        let operations = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        operations[endpoint.method.as_str().to_lowercase()] =
            operation(endpoint, &problem, &mut generator);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Runlog",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(false),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

/// Takes out of descriptions what is meant for readers of Rust's documentation, from which the schemas have them: examples,
/// and the targets of links.
fn without_rust(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "description" => *text = plain(text),
                    _ if name == "example" => {}
                    _ => without_rust(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(without_rust),
        _ => {}
    }
}

/// Says of values that are one of some texts which these are, by `enum`: generators of clients know what to make of that, where of a
/// choice of constants, each with its own description, some make a class for each. The descriptions come together in one.
fn with_enums(document: &mut Value) {
    match document {
        Value::Object(fields) => {
            if let Some((values, about)) = fields.get("oneOf").and_then(texts_of) {
                fields.remove("oneOf");
                fields.insert("type".into(), "string".into());
                fields.insert("enum".into(), values.into());
                let own = fields.get("description").and_then(Value::as_str);
                let whole = own.into_iter().map(str::to_owned).chain(about);
                let whole = whole.collect::<Vec<_>>().join("\n");
                if !whole.is_empty() {
                    fields.insert("description".into(), whole.into());
                }
            }
            fields
                .iter_mut()
                .filter(|(name, _)| *name != "example")
                .for_each(|(_, value)| with_enums(value));
        }
        Value::Array(values) => values.iter_mut().for_each(with_enums),
        _ => {}
    }
}

/// The texts of a choice of nothing but texts, with what is said of each.
fn texts_of(choices: &Value) -> Option<(Vec<Value>, Vec<String>)> {
    let (mut values, mut about) = (Vec::new(), Vec::new());
    for choice in choices.as_array()? {
        let own: Vec<Value> = match (choice.get("const"), choice.get("enum")) {
            (Some(text), None) => vec![text.clone()],
            (None, Some(Value::Array(texts))) => texts.clone(),
            _ => return None,
        };
        let description = choice.get("description").and_then(Value::as_str);
        for text in &own {
            let text = text.as_str()?;
            about.extend(description.map(|about| format!("- `{text}`: {about}")));
        }
        values.extend(own);
    }
    Some((values, about))
}

fn plain(text: &str) -> String {
    let text = text.split("```").next().unwrap_or_default().trim_end();
    let text = text
        .replace("`None` is ", "left out, ")
        .replace("`None`", "left out");
    let mut parts = text.split('[');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((name, rest)) = part.split_once(']') else {
            plain += "[";
            plain += part;
            continue;
        };
        match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((target, _)) if target.starts_with("http") => plain = plain + "[" + part,
            Some((_, rest)) => plain = plain + name + rest,
            // `[name]` in a text, as in `[1, 2]`, or a link without a target of its own.
            None if name.starts_with('`') => plain = plain + name + rest,
            None => plain = plain + "[" + part,
        }
    }
    plain
}

fn operation(endpoint: &Endpoint, problem: &Value, generator: &mut SchemaGenerator) -> Value {
    let AnswerSpec {
        status,
        content_type,
        about,
        schema,
    } = &endpoint.answer;
    let answer =
        json!({"description": about, "content": {*content_type: {"schema": schema(generator)}}});
    let mut responses = json!({
        status.as_str(): answer,
        "default": {
            "description": "Why it was refused, or failed.",
            "content": {"application/problem+json": {"schema": problem}},
        },
    });
    if endpoint.headers.iter().any(|(name, _)| *name == "Range") {
        responses["206"] = responses["200"].clone();
        responses["304"] = json!({"description": "Not Modified"});
        responses["412"] = responses["default"].clone();
    }
    if endpoint.path.ends_with("/playback") {
        responses["204"] = json!({"description": "The client has all of it."});
    }
    let summary = endpoint.about.split(['.', ':', ';']).next();
    let mut operation = json!({
        "operationId": operation_id(endpoint),
        "summary": summary,
        "description": endpoint.about,
        "tags": [tag(endpoint.path)],
        "parameters": parameters(endpoint),
        "responses": responses,
        "security": match endpoint.rights {
            Rights::None => json!([]),
            // No token is needed if the server has none.
            Rights::Read => json!([{"token": []}, {}]),
            Rights::Write => json!([{"token": []}]),
        },
    });
    if let Some(schema) = &endpoint.body_schema {
        let mut content = json!({"schema": schema});
        if let Some(example) = &endpoint.example.body {
            content["example"] = example.clone();
        }
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": content}});
    }
    operation
}

/// `get_v1_runs_run_id_messages`
fn operation_id(endpoint: &Endpoint) -> String {
    let words = endpoint
        .path
        .split(|letter: char| !letter.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    let method = endpoint.method.as_str().to_lowercase();
    words.fold(method, |id, word| id + "_" + word)
}

/// The tag of an endpoint: the first word of its path after the version.
fn tag(path: &str) -> &str {
    let mut words = path.split('/').skip(1);
    match (words.next(), words.next()) {
        (Some("api"), _) => "agent-runs",
        (_, Some(word)) => word,
        _ => "description",
    }
}

fn parameters(endpoint: &Endpoint) -> Vec<Value> {
    let mut parameters = of_schema(&endpoint.path_schema, "path");
    let examples = form_urlencoded::parse(endpoint.example.query.as_bytes());
    let examples: Vec<(String, String)> = examples.into_owned().collect();
    for mut parameter in of_schema(&endpoint.query_schema, "query") {
        let is_it = |(name, _): &&(String, String)| parameter["name"] == name.as_str();
        let given = examples.iter().filter(is_it).map(|(_, text)| text.as_str());
        let example = if parameter["schema"]["type"] == "array" {
            let texts = Some(given.collect::<Vec<_>>());
            texts.filter(|texts| !texts.is_empty()).map(Value::from)
        } else {
            // Numbers and booleans are written in a query as in JSON.
            let mut values = given.map(|text| serde_json::from_str(text).unwrap_or(text.into()));
            values.next()
        };
        if let Some(example) = example {
            parameter["example"] = example;
        }
        parameters.push(parameter);
    }
    for (name, about) in endpoint.headers {
        parameters.push(json!({
            "name": name, "in": "header", "required": false, "description": about, "schema": {"type": "string"},
        }));
    }
    parameters
}

/// The fields of an object as parameters.
fn of_schema(schema: &Value, place: &str) -> Vec<Value> {
    let none = Map::new();
    let fields = names::fields_of(schema).unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array);
    let parameter = |(name, field): (&String, &Value)| {
        let is_required = required.is_some_and(|names| names.iter().any(|own| own == name));
        let mut field = field.clone();
        let about = field
            .as_object_mut()
            .and_then(|field| field.remove("description"));
        json!({
            "name": name,
            "in": place,
            "required": place == "path" || is_required,
            "description": about,
            "schema": field,
        })
    };
    fields.iter().map(parameter).collect()
}

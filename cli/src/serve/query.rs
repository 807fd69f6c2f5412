//! Reading query parameters: texts, whose types are defined by the query's schema.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, value::to_raw_value};

use super::{
    names,
    problem::{Answer, Problem},
};

/// The most items of a page.
pub(super) const PAGE_ITEMS_MAX: usize = 1_000;

/// Pages of at most this many items are short reads.
const LIGHT_ITEMS_MAX: usize = 100;

/// The names of the page size.
const LIMITS: [&str; 2] = ["limit", "page_size"];

/// The names of texts that are searched for.
const SEARCHES: [&str; 2] = ["keywords", "text"];

/// The query of an endpoint, described by its type. Cheap to clone, because that is done for each request.
#[derive(Clone)]
pub(super) struct Query {
    schema: Arc<Value>,
    /// The same with the names over HTTP.
    over_http: Arc<Value>,
}

impl Query {
    pub(super) fn of<T: JsonSchema>() -> Self {
        let schema = names::schema_of::<T>();
        let over_http = names::schema_over_http(schema.clone());
        Self {
            schema: Arc::new(schema),
            over_http: Arc::new(over_http),
        }
    }

    /// Its schema with the names over HTTP.
    pub(super) fn schema_over_http(&self) -> Value {
        let mut schema = Value::clone(&self.over_http);
        for name in LIMITS {
            if let Some(Value::Object(limit)) = schema.pointer_mut(&format!("/properties/{name}")) {
                // A page of chats of size 0 has the usual size.
                if name == "limit" {
                    limit.insert("minimum".into(), 1.into());
                }
                limit.insert("maximum".into(), PAGE_ITEMS_MAX.into());
            }
        }
        schema
    }

    /// Reads a query.
    pub(super) fn read<T: DeserializeOwned>(&self, query: Option<&str>) -> Answer<T> {
        let none = Map::new();
        let fields = names::fields_of(&self.over_http).unwrap_or(&none);
        let mut given = Map::new();
        for (name, text) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            // What stands for bytes that are no UTF-8 would be looked for, and not found.
            if text.contains(char::REPLACEMENT_CHARACTER) && !is_given(query) {
                return Err(Problem::invalid(format!("`{name}` is no UTF-8")));
            }
            let Some(field) = fields.get(&*name) else {
                return Err(names::unknown(&name, fields));
            };
            let is_list = has_type(field, "array");
            let value = match is_list.then(|| field.get("items")).flatten() {
                Some(item) => value_of(&name, &text, item)?,
                None => value_of(&name, &text, field)?,
            };
            match given.get_mut(&*name) {
                None if is_list => drop(given.insert(name.into_owned(), vec![value].into())),
                None => drop(given.insert(name.into_owned(), value)),
                Some(Value::Array(values)) if is_list => values.push(value),
                Some(_) => {
                    let detail = format!("`{name}` is given twice; give it once");
                    return Err(Problem::invalid(detail));
                }
            }
        }
        for name in LIMITS {
            let limit = given.get(name).and_then(Value::as_u64).unwrap_or(0);
            if limit > PAGE_ITEMS_MAX as u64 {
                return Err(Problem::invalid(format!(
                    "`{name}` is {limit}, but a page has at most {PAGE_ITEMS_MAX} items; ask for its `next` then"
                )));
            }
        }
        let given = to_raw_value(&given)
            .map_err(|error| Problem::internal(format!("the query has no JSON form: {error}")))?;
        names::read(&given, &self.schema)
    }
}

/// Whether a query itself has the character that stands for bytes that are no UTF-8.
fn is_given(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.to_ascii_uppercase().contains("%EF%BF%BD"))
}

/// Whether a query requests only a short read.
pub(super) fn is_light(query: Option<&str>) -> bool {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes()).all(|(name, value)| {
        // A search in texts reads many of them.
        !SEARCHES.contains(&&*name)
            && (!LIMITS.contains(&&*name)
                || value
                    .parse()
                    .is_ok_and(|limit: usize| limit <= LIGHT_ITEMS_MAX))
    })
}

/// The value of a text.
fn value_of(name: &str, text: &str, field: &Value) -> Answer<Value> {
    let expected =
        |what: &str| Problem::invalid(format!("`{name}` is {text:?}, but has to be {what}"));
    if has_type(field, "integer") {
        let number: Result<u64, _> = text.parse();
        return number
            .map(Value::from)
            .map_err(|_| expected("a whole number of 0 or more"));
    }
    if has_type(field, "number") {
        let number: Option<f64> = text.parse().ok().filter(|number: &f64| number.is_finite());
        return number.map(Value::from).ok_or_else(|| expected("a number"));
    }
    if has_type(field, "boolean") {
        let truth: Result<bool, _> = text.parse();
        return truth
            .map(Value::from)
            .map_err(|_| expected("true or false"));
    }
    Ok(Value::String(text.to_owned()))
}

/// Whether a field may have this JSON type.
fn has_type(field: &Value, wanted: &str) -> bool {
    match field.get("type") {
        Some(Value::String(own)) => own == wanted,
        Some(Value::Array(types)) => types.iter().any(|own| own == wanted),
        _ => field
            .get("anyOf")
            .and_then(Value::as_array)
            .is_some_and(|choices| choices.iter().any(|choice| has_type(choice, wanted))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlog::{RunStatus, flows::PlaybackOptions, runs::ListRuns, sessions::ListSessions};

    fn read<T: JsonSchema + DeserializeOwned>(query: &str) -> Result<T, String> {
        let read = Query::of::<T>().read(Some(query));
        read.map_err(|problem| problem.detail().to_owned())
    }

    #[test]
    fn texts_become_what_the_fields_are() {
        let runs: ListRuns = read("status=paused&agent_name=1&limit=7&project=a%26b+c").unwrap();
        assert_eq!(runs.status, Some(RunStatus::Paused));
        assert_eq!(
            runs.agent_name.as_deref(),
            Some("1"),
            "a text of digits is a text"
        );
        assert_eq!((runs.limit, runs.project.as_deref()), (7, Some("a&b c")));
        let playback: PlaybackOptions =
            read("types=node:*&types=agent:text&speed=2.5&last=9").unwrap();
        assert_eq!((playback.types.len(), playback.last), (2, Some(9)));
        assert!(read::<ListSessions>("deleted=true").is_ok());
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        for (query, wanted) in [
            ("limit=x", "`limit` is \"x\""),
            ("limit=-1", "`limit`"),
            ("limit=1001", "at most 1000"),
            ("agentId=a", "`agentId`"),
            ("status=paused&status=failed", "`status` is given twice"),
            ("status=odd", "odd"),
            (
                "parent_run_id=1",
                "`parent_run_id`: \"1\" is not an id (a UUID)",
            ),
        ] {
            let refused = read::<ListRuns>(query).unwrap_err();
            assert!(refused.contains(wanted), "{query}: {refused}");
        }
        assert!(read::<ListSessions>("deleted=1").is_err());
    }
}

//! [`Endpoint`]: one endpoint of the API with the types of its input and output, which are used for its handler and its
//! description.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::{
        FromRequestParts, Path, Request, State, path::ErrorKind as PathError,
        rejection::PathRejection,
    },
    http::{
        HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts, uri::PathAndQuery,
    },
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, on},
};
use runlog::{Store, contexts::read_json};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    app::App,
    background::{at_once, in_background},
    cache::Lookup,
    guard::check_rights,
    names,
    problem::{Answer, Problem},
    query::{Query, is_light},
    tokens::Rights,
    waiting::{Ends, Waiting},
};

/// The most bytes of a request's body.
pub(super) const BODY_BYTES_MAX: usize = 32 << 20;
/// UTF-8's.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How long a request's body may take.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);
/// How long computing an answer may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// One endpoint of the API.
pub(super) struct Endpoint {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// Its description.
    pub(super) about: &'static str,
    pub(super) rights: Rights,
    pub(super) path_schema: Value,
    pub(super) query_schema: Value,
    /// The headers that it uses, with their descriptions.
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) body_schema: Option<Value>,
    pub(super) answer: AnswerSpec,
    /// A valid query and body.
    pub(super) example: Example,
    pub(super) route: MethodRouter<App>,
    /// Whether answers are kept in the [cache](App::answers). The route, which is made before, has it too.
    pub(super) is_cached: Arc<AtomicBool>,
}

/// The answer of an endpoint.
pub(super) struct AnswerSpec {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    /// Its description.
    pub(super) about: &'static str,
    pub(super) schema: fn(&mut SchemaGenerator) -> Value,
}

/// A valid request.
#[derive(Default)]
pub(super) struct Example {
    pub(super) query: &'static str,
    pub(super) body: Option<Value>,
}

/// Of endpoints that take no query.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoQuery {}

/// Of endpoints whose addresses have no parts that differ.
#[derive(Deserialize, JsonSchema)]
pub(super) struct NoPath {}

/// The schema of a type.
pub(super) fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().into()
}

/// An endpoint that reads: `answer` gets the store, the path parameters, and the query.
pub(super) fn get<P, Q, A, F, Fut>(path: &'static str, about: &'static str, answer: F) -> Endpoint
where
    P: DeserializeOwned + JsonSchema + Send + 'static,
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema + 'static,
    F: Fn(Store, P, Q) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer<A>>,
{
    let is_cached = Arc::new(AtomicBool::new(false));
    let query = Query::of::<Q>();
    let query_schema = query.schema_over_http();
    let is_endpoint_cached = Arc::clone(&is_cached);
    let handler = move |State(app): State<App>, request: Request| async move {
        let (mut parts, _) = request.into_parts();
        check_rights(&app, &parts.headers, Rights::Read)?;
        let mut lookup = None;
        if is_endpoint_cached.load(Ordering::Relaxed) {
            // Before the request is parsed: the address of an answer was understood once.
            let (app, address) = (app.clone(), address_of(&parts.uri));
            let looked_up = at_once(move || {
                let lookup = app.answers().look_up(&address, app.store())?;
                Ok((address, lookup))
            });
            match looked_up.await? {
                (_, Lookup::Found(json)) => return Ok(json_response(StatusCode::OK, json)),
                (address, Lookup::Missing { stands, now }) => lookup = Some((address, now, stands)),
            }
        }
        let path = path_of::<P>(&mut parts, &app).await?;
        let asked = query.read(parts.uri.query())?;
        let work = move |ends: Option<Ends>| {
            // Everything acknowledged before the request is visible, with a single refresh.
            let (kept_as, now) = match lookup {
                Some((address, now, stands)) => (Some((address, stands)), now),
                None => (None, pollster::block_on(app.store().as_of_now())?),
            };
            let now = match ends {
                Some(ends) => ends.reads_of(&now),
                None => now,
            };
            let make =
                |now: &Store| json_of(&pollster::block_on(answer(now.clone(), path, asked))?);
            let json = match kept_as {
                Some((address, stands)) => app.answers().make(&address, stands, &now, make)?,
                None => make(&now)?,
            };
            Ok(json_response(StatusCode::OK, json))
        };
        if is_light(parts.uri.query()) {
            return at_once(|| work(None)).await;
        }
        // Dropped with this future when the client goes away, and when the time is over.
        let waiting = Waiting::default();
        let ends = waiting.ends();
        let answering = in_background(|| work(Some(ends)));
        tokio::time::timeout(ANSWER_TIME_MAX, answering)
            .await
            .unwrap_or_else(|_| Err(took_too_long()))
    };
    let route = on(MethodFilter::GET, handler);
    let answer = AnswerSpec::json::<A>(StatusCode::OK);
    Endpoint {
        is_cached,
        ..reads::<P>(path, about, query_schema, answer, route)
    }
}

/// The path and query of a request.
fn address_of(uri: &Uri) -> String {
    let address = uri
        .path_and_query()
        .map_or(uri.path(), PathAndQuery::as_str);
    address.to_owned()
}

/// The common part of endpoints that read.
fn reads<P: JsonSchema>(
    path: &'static str,
    about: &'static str,
    query_schema: Value,
    answer: AnswerSpec,
    route: MethodRouter<App>,
) -> Endpoint {
    Endpoint {
        method: Method::GET,
        path,
        about,
        rights: Rights::Read,
        path_schema: names::schema_of::<P>(),
        query_schema,
        headers: &[],
        body_schema: None,
        answer,
        example: Example::default(),
        route,
        is_cached: Arc::default(),
    }
}

/// An endpoint that writes: `answer` gets the store, the path parameters, and the body.
pub(super) fn post<P, B, A, F, Fut>(
    path: &'static str,
    about: &'static str,
    status: StatusCode,
    answer: F,
) -> Endpoint
where
    P: DeserializeOwned + JsonSchema + Send + 'static,
    B: DeserializeOwned + JsonSchema + Send + 'static,
    A: Serialize + JsonSchema + 'static,
    F: Fn(Store, P, B) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer<A>>,
{
    let handler = move |State(app): State<App>, request: Request| async move {
        let (mut parts, body) = request.into_parts();
        check_rights(&app, &parts.headers, Rights::Write)?;
        let path = path_of::<P>(&mut parts, &app).await?;
        Query::of::<NoQuery>().read::<NoQuery>(parts.uri.query())?;
        let body = body_of(&parts, body).await?;
        // A reader of JSON may ignore it, and some programs write it.
        let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&body);
        // Serde would also accept a list of an object's values in order.
        if body
            .trim_ascii_start()
            .first()
            .is_some_and(|first| *first != b'{')
        {
            return Err(Problem::invalid("the body has to be a JSON object"));
        }
        let text = str::from_utf8(body).map_err(|error| {
            let at = error.valid_up_to();
            Problem::invalid(format!("the body is no UTF-8 at its byte {at}"))
        })?;
        let body: B =
            read_json(text).map_err(|message| Problem::invalid(format!("the body: {message}")))?;
        in_background(move || {
            let made = pollster::block_on(answer(app.store().clone(), path, body))?;
            json(status, &made)
        })
        .await
    };
    Endpoint {
        method: Method::POST,
        path,
        about,
        rights: Rights::Write,
        path_schema: names::schema_of::<P>(),
        query_schema: Query::of::<NoQuery>().schema_over_http(),
        headers: &[],
        body_schema: Some(of_object(names::schema_of::<B>())),
        answer: AnswerSpec::json::<A>(status),
        example: Example::default(),
        route: on(MethodFilter::POST, handler),
        is_cached: Arc::default(),
    }
}

impl AnswerSpec {
    pub(super) fn json<A: JsonSchema>(status: StatusCode) -> Self {
        Self {
            status,
            content_type: "application/json",
            about: status.canonical_reason().unwrap_or_default(),
            schema: schema_of::<A>,
        }
    }
}

impl Endpoint {
    /// Keeps its answers in the [cache](App::answers). They have to be made of nothing but what is in the log: not of the time,
    /// nor of who is at work in this process.
    pub(super) fn cached(self) -> Self {
        self.is_cached.store(true, Ordering::Relaxed);
        self
    }

    /// Adds a valid query as an example.
    pub(super) fn example_query(mut self, query: &'static str) -> Self {
        self.example.query = query;
        self
    }

    /// Takes a parameter out of the description of its query, which its path says.
    pub(super) fn said_by_path(mut self, name: &str) -> Self {
        if let Some(Value::Object(fields)) = self.query_schema.get_mut("properties") {
            fields.remove(name);
        }
        self
    }

    /// Adds the headers that it uses, with their descriptions.
    pub(super) fn using_headers(
        mut self,
        headers: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.headers = headers;
        self
    }

    /// Adds a valid body as an example.
    pub(super) fn example_body(mut self, body: Value) -> Self {
        self.example.body = Some(body);
        self
    }
}

/// The schema of a body, which is an object, even if it is the user's own JSON.
fn of_object(mut schema: Value) -> Value {
    if let Value::Object(schema) = &mut schema {
        schema.entry("type").or_insert_with(|| "object".into());
    }
    schema
}

/// The path parameters.
pub(super) async fn path_of<P: DeserializeOwned + Send>(parts: &mut Parts, app: &App) -> Answer<P> {
    let path = Path::<P>::from_request_parts(parts, app).await;
    path.map(|Path(path)| path)
        .map_err(|refused| Problem::invalid(of_path(&refused)))
}

/// What is wrong with a parameter in a path, and what would be right.
fn of_path(refused: &PathRejection) -> String {
    let PathRejection::FailedToDeserializePathParams(refused) = refused else {
        return refused.body_text();
    };
    match refused.kind() {
        PathError::ParseErrorAtKey { key, value, .. }
        | PathError::DeserializeError { key, value, .. } => {
            let hint = match key.as_str() {
                "session_id" => "; a chat's own id is one of `/v1/chats/{chat_id}`",
                _ => "",
            };
            format!(
                "`{key}` in the path can't be {value:?}; give it whole, as the lists have it{hint}"
            )
        }
        _ => refused.body_text(),
    }
}

/// The parts of a request that reads.
struct Asked<P, Q> {
    headers: HeaderMap,
    path: P,
    asked: Q,
}

/// Parses a request, after checking that the caller may read.
async fn asked<P: DeserializeOwned + Send, Q: DeserializeOwned>(
    request: Request,
    app: &App,
    query: &Query,
) -> Answer<Asked<P, Q>> {
    let (mut parts, _) = request.into_parts();
    check_rights(app, &parts.headers, Rights::Read)?;
    Ok(Asked {
        path: path_of::<P>(&mut parts, app).await?,
        asked: query.read(parts.uri.query())?,
        headers: parts.headers,
    })
}

async fn body_of(parts: &Parts, body: Body) -> Answer<Bytes> {
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|own| own.to_str().ok()).unwrap_or("");
    let mut parameters = content_type.split(';').map(str::trim);
    let media_type = parameters.next().unwrap_or_default();
    // JSON is UTF-8 between systems, whatever is said (RFC 8259, 8.1); a client that says another charset encodes another one.
    let is_utf8 = parameters.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            let value = value.trim().trim_matches('"');
            value.eq_ignore_ascii_case("utf-8") || value.eq_ignore_ascii_case("utf8")
        }
        _ => true,
    });
    if !media_type.eq_ignore_ascii_case("application/json") || !is_utf8 {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "the body has to be JSON in UTF-8, and the header `Content-Type` to say `application/json`",
        ));
    }
    let encoding = parts.headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|own| !own.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "the body has to be JSON as it is, without `Content-Encoding`",
        ));
    }
    // Not to be dropped silently: what was sent again would be there twice.
    if parts.headers.contains_key("idempotency-key") {
        return Err(Problem::invalid(
            "the header `Idempotency-Key` is not read; messages and events have `options.idempotency_key` in the body, and sessions, \
             instances, chats and their messages ids of their own, which are there once",
        ));
    }
    let too_large = || {
        let detail = format!("the body has more than {BODY_BYTES_MAX} bytes; send less at a time");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let length = parts.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|own| own.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > BODY_BYTES_MAX as u64) {
        return Err(too_large());
    }
    let read = tokio::time::timeout(BODY_TIME_MAX, to_bytes(body, BODY_BYTES_MAX)).await;
    match read {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if is_too_large(&error) => Err(too_large()),
        Ok(Err(error)) => Err(Problem::invalid(format!("the body broke off: {error}"))),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout",
            format!("the body took more than {} s", BODY_TIME_MAX.as_secs()),
        )),
    }
}

fn is_too_large(error: &axum::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if error.to_string().contains("length limit exceeded") {
            return true;
        }
        source = error.source();
    }
    false
}

/// A JSON response.
pub(super) fn json(status: StatusCode, answer: &impl Serialize) -> Answer<Response> {
    Ok(json_response(status, json_of(answer)?))
}

fn json_of(answer: &impl Serialize) -> Answer<Bytes> {
    serde_json::to_vec(answer)
        .map(Bytes::from)
        .map_err(|error| Problem::internal(format!("the answer has no JSON form: {error}")))
}

fn json_response(status: StatusCode, json: Bytes) -> Response {
    let json_type = [(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    )];
    (status, json_type, json).into_response()
}

fn took_too_long() -> Problem {
    let seconds = ANSWER_TIME_MAX.as_secs();
    let detail = format!("it took more than {seconds} s; ask for less at a time");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "timeout", detail)
}

/// An endpoint that answers with more than JSON: `answer` gets the headers too, and returns the whole response.
pub(super) fn stream<P, Q, F, Fut>(
    path: &'static str,
    about: &'static str,
    spec: AnswerSpec,
    answer: F,
) -> Endpoint
where
    P: DeserializeOwned + JsonSchema + Send + 'static,
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(App, HeaderMap, P, Q) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer<Response>> + Send,
{
    let query = Query::of::<Q>();
    let query_schema = query.schema_over_http();
    let handler = move |State(app): State<App>, request: Request| async move {
        let Asked {
            headers,
            path,
            asked,
        } = asked::<P, Q>(request, &app, &query).await?;
        answer(app, headers, path, asked).await
    };
    let route = on(MethodFilter::GET, handler);
    reads::<P>(path, about, query_schema, spec, route)
}

//! The six addresses of the history, answered from tables of PostgreSQL: each by one prepared statement, over connections
//! that are kept and pipelined, with JSON passed on as the text that PostgreSQL gives.
//!
//! `history-over-postgres SOCKET_FOLDER DATABASE USER` prints its address.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    extract::{Path, Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_postgres::{Client, Config, NoTls, Row, Statement, types::ToSql};
use uuid::Uuid;

const CONNECTIONS: usize = 8;
const LISTED: &str = "id, agent_id, session_id, instance_id, parent_run_id, status, step_count, resumed_from, created_at, completed_at";
const RUN: &str = "id, agent_id, session_id, instance_id, parent_run_id, status, step_count, max_steps, resumed_from, summary, error_message, created_at, completed_at";
const MESSAGE: &str = "id, run_id, role, content::text, step_number, created_at";
const CALL: &str = "id, run_id, message_id, tool_call_id, tool_name, input::text, output::text, status, duration, step_number, created_at";

struct Connection {
    client: Client,
    runs: Statement,
    runs_of_status: Statement,
    run: Statement,
    messages: Statement,
    message: Statement,
    calls: Statement,
    calls_of_status: Statement,
    call: Statement,
}

impl Connection {
    /// The rows of a list, one more than its page has: `all` of them, or by `of_status` those of the status that is asked for.
    async fn of_status(
        &self,
        all: &Statement,
        of_status: &Statement,
        of: &(dyn ToSql + Sync),
        asked: &Asked,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let rows = asked.limit() + 1;
        match &asked.status {
            None => self.client.query(all, &[of, &rows]).await,
            Some(status) => self.client.query(of_status, &[of, status, &rows]).await,
        }
    }
}

struct Pool {
    connections: Vec<Connection>,
    next: AtomicUsize,
}

type App = Arc<Pool>;

impl Pool {
    fn one(&self) -> &Connection {
        &self.connections[self.next.fetch_add(1, Ordering::Relaxed) % self.connections.len()]
    }
}

#[derive(Deserialize)]
struct Asked {
    status: Option<String>,
    limit: Option<i64>,
}

impl Asked {
    fn limit(&self) -> i64 {
        self.limit.unwrap_or(50)
    }
}

#[derive(Serialize)]
struct Page<T> {
    items: Vec<T>,
    next: Option<String>,
}

#[derive(Serialize)]
struct Run {
    id: Uuid,
    agent_id: String,
    session_id: Uuid,
    instance_id: Uuid,
    parent_run_id: Option<Uuid>,
    status: String,
    step_count: i32,
    max_steps: Option<i32>,
    resumed_from: Option<Uuid>,
    summary: Option<String>,
    error_message: Option<String>,
    created_at: u64,
    completed_at: Option<u64>,
    duration: Option<u64>,
}

/// A run as lists have it.
#[derive(Serialize)]
struct Listed {
    id: Uuid,
    agent_id: String,
    session_id: Uuid,
    instance_id: Uuid,
    parent_run_id: Option<Uuid>,
    status: String,
    step_count: i32,
    resumed_from: Option<Uuid>,
    created_at: u64,
    completed_at: Option<u64>,
    duration: Option<u64>,
}

#[derive(Serialize)]
struct Message {
    id: i64,
    run_id: Uuid,
    role: String,
    content: Box<RawValue>,
    step_number: i32,
    created_at: u64,
}

#[derive(Serialize)]
struct Call {
    id: i64,
    run_id: Uuid,
    message_id: i64,
    tool_call_id: Option<String>,
    tool_name: String,
    input: Option<Box<RawValue>>,
    output: Option<Box<RawValue>>,
    status: String,
    duration: Option<i64>,
    step_number: i32,
    created_at: u64,
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn raw(text: Option<String>) -> Option<Box<RawValue>> {
    text.and_then(|text| RawValue::from_string(text).ok())
}

impl From<Row> for Run {
    fn from(row: Row) -> Self {
        let created_at = milliseconds(row.get(11));
        let completed_at = row.get::<_, Option<SystemTime>>(12).map(milliseconds);
        Self {
            id: row.get(0),
            agent_id: row.get(1),
            session_id: row.get(2),
            instance_id: row.get(3),
            parent_run_id: row.get(4),
            status: row.get(5),
            step_count: row.get(6),
            max_steps: row.get(7),
            resumed_from: row.get(8),
            summary: row.get(9),
            error_message: row.get(10),
            created_at,
            completed_at,
            duration: completed_at.map(|completed| completed.saturating_sub(created_at)),
        }
    }
}

impl From<Row> for Listed {
    fn from(row: Row) -> Self {
        let created_at = milliseconds(row.get(8));
        let completed_at = row.get::<_, Option<SystemTime>>(9).map(milliseconds);
        Self {
            id: row.get(0),
            agent_id: row.get(1),
            session_id: row.get(2),
            instance_id: row.get(3),
            parent_run_id: row.get(4),
            status: row.get(5),
            step_count: row.get(6),
            resumed_from: row.get(7),
            created_at,
            completed_at,
            duration: completed_at.map(|completed| completed.saturating_sub(created_at)),
        }
    }
}

impl From<Row> for Message {
    fn from(row: Row) -> Self {
        Self {
            id: row.get(0),
            run_id: row.get(1),
            role: row.get(2),
            content: raw(row.get(3)).unwrap_or_default(),
            step_number: row.get(4),
            created_at: milliseconds(row.get(5)),
        }
    }
}

impl From<Row> for Call {
    fn from(row: Row) -> Self {
        Self {
            id: row.get(0),
            run_id: row.get(1),
            message_id: row.get(2),
            tool_call_id: row.get(3),
            tool_name: row.get(4),
            input: raw(row.get(5)),
            output: raw(row.get(6)),
            status: row.get(7),
            duration: row.get(8),
            step_number: row.get(9),
            created_at: milliseconds(row.get(10)),
        }
    }
}

fn answer(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// A page of rows, of which one more was asked for, to know whether there is a next page.
fn page<T: From<Row> + Serialize>(
    rows: Result<Vec<Row>, tokio_postgres::Error>,
    limit: i64,
    place: impl Fn(&T) -> String,
) -> Response {
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => {
            return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
        }
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_more = rows.len() > limit;
    let items: Vec<T> = rows.into_iter().take(limit).map(T::from).collect();
    let next = items.last().filter(|_| is_more).map(place);
    answer(&Page { items, next })
}

fn one<T: From<Row> + Serialize>(row: Result<Option<Row>, tokio_postgres::Error>) -> Response {
    match row {
        Ok(Some(row)) => answer(&T::from(row)),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn runs(
    State(app): State<App>,
    Path(project): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let (one, limit) = (app.one(), asked.limit());
    let rows = one
        .of_status(&one.runs, &one.runs_of_status, &project, &asked)
        .await;
    page(rows, limit, |run: &Listed| {
        format!("{:x}-{}", run.created_at, run.id)
    })
}

async fn run(State(app): State<App>, Path((project, id)): Path<(String, Uuid)>) -> Response {
    let connection = app.one();
    one::<Run>(
        connection
            .client
            .query_opt(&connection.run, &[&project, &id])
            .await,
    )
}

async fn messages(
    State(app): State<App>,
    Path((_, id)): Path<(String, Uuid)>,
    Query(asked): Query<Asked>,
) -> Response {
    let (one, limit) = (app.one(), asked.limit());
    let rows = one.client.query(&one.messages, &[&id, &(limit + 1)]).await;
    page(rows, limit, |message: &Message| {
        format!("{}-{}", message.step_number, message.id)
    })
}

async fn message(
    State(app): State<App>,
    Path((_, run, id)): Path<(String, Uuid, i64)>,
) -> Response {
    let connection = app.one();
    one::<Message>(
        connection
            .client
            .query_opt(&connection.message, &[&run, &id])
            .await,
    )
}

async fn calls(
    State(app): State<App>,
    Path((_, id)): Path<(String, Uuid)>,
    Query(asked): Query<Asked>,
) -> Response {
    let (one, limit) = (app.one(), asked.limit());
    let rows = one
        .of_status(&one.calls, &one.calls_of_status, &id, &asked)
        .await;
    page(rows, limit, |call: &Call| {
        format!("{}-{}", call.step_number, call.id)
    })
}

async fn call(State(app): State<App>, Path((_, run, id)): Path<(String, Uuid, i64)>) -> Response {
    let connection = app.one();
    one::<Call>(
        connection
            .client
            .query_opt(&connection.call, &[&run, &id])
            .await,
    )
}

async fn connect(config: &Config) -> Result<Connection, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            eprintln!("{error}");
        }
    });
    let prepare = async |sql: String| client.prepare(&sql).await;
    let newest = "ORDER BY created_at DESC, id DESC LIMIT";
    let by_step = "ORDER BY step_number, id LIMIT";
    Ok(Connection {
        runs: prepare(format!("SELECT {LISTED} FROM kb.agent_runs WHERE project_id = $1 {newest} $2")).await?,
        runs_of_status: prepare(format!("SELECT {LISTED} FROM kb.agent_runs WHERE project_id = $1 AND status = $2 {newest} $3")).await?,
        run: prepare(format!("SELECT {RUN} FROM kb.agent_runs WHERE project_id = $1 AND id = $2")).await?,
        messages: prepare(format!("SELECT {MESSAGE} FROM kb.agent_run_messages WHERE run_id = $1 {by_step} $2")).await?,
        message: prepare(format!("SELECT {MESSAGE} FROM kb.agent_run_messages WHERE run_id = $1 AND id = $2")).await?,
        calls: prepare(format!("SELECT {CALL} FROM kb.agent_run_tool_calls WHERE run_id = $1 {by_step} $2")).await?,
        calls_of_status: prepare(format!("SELECT {CALL} FROM kb.agent_run_tool_calls WHERE run_id = $1 AND status = $2 {by_step} $3")).await?,
        call: prepare(format!("SELECT {CALL} FROM kb.agent_run_tool_calls WHERE run_id = $1 AND id = $2")).await?,
        client,
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, database, user] = arguments.as_slice() else {
        return Err("usage: history-over-postgres SOCKET_FOLDER DATABASE USER".into());
    };
    let mut config = Config::new();
    config.host_path(folder).dbname(database).user(user);
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(connect(&config).await?);
    }
    let app: App = Arc::new(Pool {
        connections,
        next: AtomicUsize::new(0),
    });
    let of_run = "/api/projects/{id}/agent-runs/{run}";
    let router = Router::new()
        .route("/api/projects/{id}/agent-runs", get(runs))
        .route(of_run, get(run))
        .route(&format!("{of_run}/messages"), get(messages))
        .route(&format!("{of_run}/messages/{{message}}"), get(message))
        .route(&format!("{of_run}/tool-calls"), get(calls))
        .route(&format!("{of_run}/tool-calls/{{call}}"), get(call))
        .with_state(app);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

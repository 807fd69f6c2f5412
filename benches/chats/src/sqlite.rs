//! The tables of the chat design in SQLite, with its indexes: one connection writes, as only one can.

use std::{
    fs, io,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use rusqlite::{Connection, Row, params};

use crate::{CHATS, Chats, LONG, MESSAGES, PAGE, Query, REQUEST, USERS, changed, message};

const TABLES: &str = "
    CREATE TABLE agent_chat (
        id INTEGER PRIMARY KEY, chat_id TEXT NOT NULL UNIQUE, title TEXT, assistant_id TEXT NOT NULL, mode TEXT NOT NULL,
        status TEXT NOT NULL, preset INTEGER NOT NULL, public INTEGER NOT NULL, share TEXT NOT NULL, sort INTEGER NOT NULL,
        last_message_at INTEGER, metadata TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
        deleted_at INTEGER, created_by TEXT, updated_by TEXT, team_id TEXT, tenant_id TEXT);
    CREATE INDEX idx_chat_assistant ON agent_chat (assistant_id);
    CREATE INDEX idx_chat_status ON agent_chat (status);
    CREATE INDEX idx_chat_share ON agent_chat (share);
    CREATE INDEX idx_chat_last_msg ON agent_chat (last_message_at);
    CREATE INDEX idx_chat_created_by ON agent_chat (created_by, last_message_at);
    CREATE TABLE agent_message (
        id INTEGER PRIMARY KEY, message_id TEXT NOT NULL UNIQUE, chat_id TEXT NOT NULL, request_id TEXT, role TEXT NOT NULL,
        type TEXT NOT NULL, props TEXT NOT NULL, block_id TEXT, thread_id TEXT, assistant_id TEXT, sequence INTEGER NOT NULL,
        metadata TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, deleted_at INTEGER);
    CREATE INDEX idx_msg_chat_seq ON agent_message (chat_id, sequence);
    CREATE INDEX idx_msg_request ON agent_message (request_id);
    CREATE INDEX idx_msg_block ON agent_message (block_id);
    CREATE INDEX idx_msg_assistant ON agent_message (assistant_id);
    CREATE TABLE agent_step (
        id INTEGER PRIMARY KEY, step_id TEXT NOT NULL UNIQUE, chat_id TEXT NOT NULL, request_id TEXT NOT NULL,
        assistant_id TEXT NOT NULL, stack_id TEXT NOT NULL, stack_parent_id TEXT, stack_depth INTEGER NOT NULL,
        type TEXT NOT NULL, status TEXT NOT NULL, input TEXT, output TEXT, space_snapshot TEXT, error TEXT,
        sequence INTEGER NOT NULL, metadata TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
    CREATE INDEX idx_step_chat ON agent_step (chat_id);
    CREATE INDEX idx_step_request ON agent_step (request_id, sequence);
    CREATE INDEX idx_step_status ON agent_step (status);
    CREATE INDEX idx_step_stack ON agent_step (stack_id);
    CREATE INDEX idx_step_parent ON agent_step (stack_parent_id);
    CREATE INDEX idx_step_assistant ON agent_step (assistant_id);";

const INSERT_CHAT: &str = "INSERT INTO agent_chat (chat_id, assistant_id, mode, status, preset, public, share, sort,
    last_message_at, created_at, updated_at, created_by) VALUES (?, 'weather', 'chat', 'active', 0, 0, 'private', 0, ?, ?, ?, ?)";
const INSERT_MESSAGE: &str =
    "INSERT INTO agent_message (message_id, chat_id, request_id, role, type, props, assistant_id,
    sequence, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,
    (SELECT coalesce(max(sequence), 0) + 1 FROM agent_message WHERE chat_id = ?2), ?8, ?8)";
const INSERT_STEP: &str = "INSERT INTO agent_step (step_id, chat_id, request_id, assistant_id, stack_id, stack_depth, type,
    status, input, output, space_snapshot, sequence, created_at, updated_at)
    VALUES (?1, ?2, ?3, 'weather', ?3, 0, ?4, ?5, ?6, ?7, '{}', ?8, ?9, ?9)";
const TOUCH_CHAT: &str =
    "UPDATE agent_chat SET last_message_at = ?2, updated_at = ?2 WHERE chat_id = ?1";
const MESSAGES_OF: &str = "SELECT * FROM agent_message WHERE chat_id = ?1 AND deleted_at IS NULL";

const INPUT: &str =
    r#"{"messages":[{"role":"user","content":"What will the weather be in Oslo tomorrow?"}]}"#;

pub struct Theirs {
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    clock: AtomicI64,
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

pub fn open(path: &Path) -> io::Result<Theirs> {
    let path = path.join("chats.db");
    Ok(Theirs {
        writer: Mutex::new(connect(&path).map_err(io::Error::other)?),
        reader: Mutex::new(connect(&path).map_err(io::Error::other)?),
        clock: AtomicI64::new(i64::from(std::process::id()) * 1_000_000_000),
    })
}

pub fn fill(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    let filled = || {
        let mut connection = connect(&path.join("chats.db"))?;
        connection.execute_batch(TABLES)?;
        let transaction = connection.transaction()?;
        transaction.execute(INSERT_CHAT, params![LONG, 0, 0, 0, "user_0"])?;
        for number in 0..MESSAGES {
            let at = integer(number);
            let (request, message_type, text) = message(number);
            let props = format!("{{\"content\":\"{text}\"}}");
            transaction
                .prepare_cached(INSERT_MESSAGE)?
                .execute(params![
                    format!("m{number}"),
                    LONG,
                    request,
                    "assistant",
                    message_type,
                    props,
                    "weather",
                    at
                ])?;
            if number % REQUEST == 0 {
                let status = if number % 1000 == 0 {
                    "failed"
                } else {
                    "completed"
                };
                transaction.prepare_cached(INSERT_STEP)?.execute(params![
                    format!("s{number}"),
                    LONG,
                    request,
                    "llm",
                    status,
                    None::<&str>,
                    None::<&str>,
                    1,
                    at
                ])?;
            }
        }
        for number in 0..CHATS {
            let at = integer(number);
            let (id, user) = (format!("chat_{number}"), format!("user_{}", number % USERS));
            transaction.execute(INSERT_CHAT, params![id, at, at, at, user])?;
            transaction
                .prepare_cached(INSERT_MESSAGE)?
                .execute(params![
                    format!("q{number}"),
                    id,
                    None::<&str>,
                    "user",
                    "text",
                    "{\"content\":\"Oslo?\"}",
                    None::<&str>,
                    at
                ])?;
        }
        transaction.commit()
    };
    filled().map_err(io::Error::other)
}

fn integer(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Every column of a row, as whoever lists rows takes them.
fn taken(row: &Row<'_>) -> rusqlite::Result<Vec<rusqlite::types::Value>> {
    (0..row.as_ref().column_count())
        .map(|column| row.get(column))
        .collect()
}

impl Theirs {
    fn list(&self, query: &str, parameters: impl rusqlite::Params) -> rusqlite::Result<usize> {
        let reader = self.reader.lock().expect("nobody panics");
        let mut statement = reader.prepare_cached(query)?;
        let rows = statement
            .query_map(parameters, taken)?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(rows.len())
    }

    fn fresh(&self) -> i64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn insert(
        &self,
        connection: &Connection,
        chat: &str,
        request: Option<&str>,
        role: &str,
        text: &str,
    ) -> rusqlite::Result<()> {
        let at = self.fresh();
        let props = format!("{{\"content\":\"{text}\"}}");
        connection.prepare_cached(INSERT_MESSAGE)?.execute(params![
            format!("{at:036}"),
            chat,
            request,
            role,
            "text",
            props,
            "weather",
            at
        ])?;
        Ok(())
    }

    fn save_in(&self, chat: &str, request: Option<&str>) -> rusqlite::Result<usize> {
        let mut writer = self.writer.lock().expect("nobody panics");
        let transaction = writer.transaction()?;
        self.insert(
            &transaction,
            chat,
            request,
            "user",
            "What will the weather be in Oslo tomorrow?",
        )?;
        transaction
            .prepare_cached(TOUCH_CHAT)?
            .execute(params![chat, self.fresh()])?;
        transaction.commit().map(|()| 1)
    }

    fn record_in(&self, chat: &str) -> rusqlite::Result<()> {
        let request = format!("{:036}", self.fresh());
        self.save_in(chat, Some(&request))?;
        let mut writer = self.writer.lock().expect("nobody panics");
        let transaction = writer.transaction()?;
        for (number, step_type) in ["hook_create", "llm", "tool", "llm", "hook_next"]
            .into_iter()
            .enumerate()
        {
            let at = self.fresh();
            transaction.prepare_cached(INSERT_STEP)?.execute(params![
                format!("{at:036}"),
                chat,
                request,
                step_type,
                "completed",
                INPUT,
                INPUT,
                integer(number + 1),
                at
            ])?;
            self.insert(
                &transaction,
                chat,
                Some(&request),
                "assistant",
                "Rain in the morning,",
            )?;
        }
        transaction
            .prepare_cached(TOUCH_CHAT)?
            .execute(params![chat, self.fresh()])?;
        transaction.commit()
    }
}

impl Chats for Theirs {
    fn ask(&self, query: Query) -> io::Result<usize> {
        let page = integer(PAGE);
        let asked = match query {
            Query::First => self.list(
                &format!("{MESSAGES_OF} ORDER BY sequence LIMIT ?2"),
                params![LONG, page],
            ),
            Query::Last => self.list(
                &format!("{MESSAGES_OF} ORDER BY sequence DESC LIMIT ?2"),
                params![LONG, page],
            ),
            Query::Offset => {
                let sql = format!("{MESSAGES_OF} ORDER BY sequence LIMIT ?2 OFFSET ?3");
                self.list(&sql, params![LONG, page, integer(MESSAGES / 2)])
            }
            Query::Request => {
                let sql = format!("{MESSAGES_OF} AND request_id = ?2 ORDER BY sequence LIMIT ?3");
                self.list(&sql, params![LONG, "req_5000", page])
            }
            Query::Type => {
                let sql = format!("{MESSAGES_OF} AND type = ?2 ORDER BY sequence LIMIT ?3");
                self.list(&sql, params![LONG, "image", page])
            }
            Query::Count => {
                let sql =
                    "SELECT count(*) FROM agent_message WHERE chat_id = ?1 AND deleted_at IS NULL";
                self.list(sql, params![LONG])
            }
            Query::Chats => {
                let sql = "SELECT * FROM agent_chat WHERE created_by = ?1 AND deleted_at IS NULL
                           ORDER BY last_message_at DESC LIMIT 20";
                self.list(sql, params!["user_7"])
            }
            Query::Steps => {
                let sql = "SELECT * FROM agent_step WHERE status = 'failed' ORDER BY id LIMIT ?1";
                self.list(sql, params![page])
            }
            Query::Save => self.save_in(LONG, None),
            Query::Update => {
                let sql = "UPDATE agent_message SET metadata = '{\"liked\":true}', updated_at = ?2 WHERE message_id = ?1";
                let writer = self.writer.lock().expect("nobody panics");
                let mut statement = writer.prepare_cached(sql).map_err(io::Error::other)?;
                statement.execute(params![changed(), self.fresh()])
            }
        };
        asked.map_err(io::Error::other)
    }

    fn record(&self, writer: usize) -> io::Result<()> {
        self.record_in(&format!("chat_{writer}"))
            .map_err(io::Error::other)
    }

    fn save(&self, writer: usize) -> io::Result<()> {
        let saved = self.save_in(&format!("chat_{writer}"), None);
        saved.map(drop).map_err(io::Error::other)
    }
}

//! Importing the tables of a product that keeps its chats in a database, as lines of JSON.

use std::collections::HashSet;

use runlog_model::{CatalogEvent, ChatMessage, Session, Step};

use super::Chats;
use crate::{
    Error, Result,
    kernel::{catalog::Change, lookup::check_free},
};
use serde::Serialize;

mod records;
mod rows;
mod table;

use rows::{chat_of, object_lines};
pub use table::Table;

/// How many chats, or messages of a chat, are written in one batch.
const BATCH_RECORDS: usize = 1_000;

/// What an import did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportReport {
    /// How many chats or messages were imported.
    pub imported: usize,
    /// How many chats were made for the messages or steps.
    pub chats: usize,
    /// How many were there already, and left as they are.
    pub skipped: usize,
    /// The lines that were left out.
    pub issues: Vec<ImportIssue>,
}

/// How to import.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImportOptions {
    /// Import neither the first line with an issue, nor any line after it.
    pub stop_at_issue: bool,
}

/// A line that was left out of an import, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportIssue {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl Chats {
    /// Imports a table.
    ///
    /// # Errors
    /// Those of the storage; rows that were imported before stay.
    pub async fn import_table(
        &self,
        table: Table,
        lines: &str,
        options: ImportOptions,
    ) -> Result<ImportReport> {
        match table {
            Table::Chat => self.import_chats(lines, options).await,
            Table::History | Table::Message => {
                self.import_records::<ChatMessage>(table, lines, options)
                    .await
            }
            Table::Step => self.import_records::<Step>(table, lines, options).await,
        }
    }

    async fn import_chats(&self, lines: &str, options: ImportOptions) -> Result<ImportReport> {
        let mut report = ImportReport::default();
        let mut seen = HashSet::new();
        let mut sessions = Vec::new();
        for (line, text) in object_lines(lines) {
            if report.is_over(options) {
                break;
            }
            let session = chat_of(text).and_then(|(chat, deleted_at_ms)| {
                let session = self.session_of(chat)?;
                Ok(Session {
                    deleted_at_ms,
                    ..session
                })
            });
            match session {
                Ok(session)
                    if seen.insert((
                        session.name.clone(),
                        session.name.is_none().then_some(session.id),
                    )) =>
                {
                    sessions.push(session);
                }
                Ok(_) => report.skipped += 1,
                Err(error) => report.leave_out(line, &error),
            }
        }
        for sessions in sessions.chunks(BATCH_RECORDS) {
            let imported = self.store.shared.catalog.change(|catalog| {
                // A chat that was deleted since an earlier import stays deleted.
                let deleted = catalog.deleted_names();
                let is_new = |session: &&Session| {
                    check_free(catalog, session).is_ok()
                        && !session
                            .name
                            .as_deref()
                            .is_some_and(|name| deleted.contains(name))
                };
                let (mut events, mut imported) = (Vec::new(), 0);
                for session in sessions.iter().filter(is_new) {
                    imported += 1;
                    let (id, at_ms) = (session.id, session.deleted_at_ms);
                    events.push(CatalogEvent::SessionCreated(Session {
                        deleted_at_ms: None,
                        ..session.clone()
                    }));
                    events.extend(at_ms.map(|at_ms| CatalogEvent::SessionDeleted { id, at_ms }));
                }
                Ok((Change::of(events), imported))
            });
            let imported = imported.await?;
            report.imported += imported;
            report.skipped += sessions.len() - imported;
        }
        Ok(report)
    }
}

impl ImportReport {
    fn is_over(&self, options: ImportOptions) -> bool {
        options.stop_at_issue && !self.issues.is_empty()
    }

    fn leave_out(&mut self, line: usize, error: &Error) {
        self.issues.push(ImportIssue {
            line,
            what: error.to_string(),
        });
    }
}

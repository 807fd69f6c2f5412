//! Tables for people: columns as wide as their content, the last one as wide as the rest of the screen.

use console::measure_text_width;

use runlog::pages::Page;
use serde::Serialize;

use crate::{
    failure::{Exit, Result},
    output::Out,
    text,
};

/// The minimum width of the last column, however narrow the screen is.
const LAST_LEAST: usize = 8;

/// A column.
pub(crate) struct Column {
    head: &'static str,
    most: usize,
    right: bool,
}

/// A column of text.
pub(crate) fn left(head: &'static str, most: usize) -> Column {
    Column {
        head,
        most,
        right: false,
    }
}

/// A column of numbers.
pub(crate) fn right(head: &'static str) -> Column {
    Column {
        head,
        most: 20,
        right: true,
    }
}

/// A column, with the function for the text of its cells.
pub(crate) type Cells<'a, T> = (Column, &'a dyn Fn(&T) -> String);

/// Prints one page of a list: as JSON, or as a table with the cursor of the next page, or as `empty`.
pub(crate) fn page<T: Serialize>(
    page: &Page<T>,
    empty: &str,
    columns: &[Cells<'_, T>],
    out: &mut Out,
) -> Result<Exit> {
    if out.is_json() {
        out.value(page)?;
    } else {
        items(&page.items, empty, columns, out)?;
        next(page.next.as_deref(), out)?;
    }
    Ok(Exit::Ok)
}

/// Prints items as a table, or `empty` where there is none.
pub(crate) fn items<T>(
    items: &[T],
    empty: &str,
    columns: &[Cells<'_, T>],
    out: &mut Out,
) -> Result<()> {
    if items.is_empty() {
        return out.line(empty);
    }
    let row = |item| columns.iter().map(|(_, cell)| cell(item)).collect();
    let rows: Vec<Vec<String>> = items.iter().map(row).collect();
    let columns: Vec<&Column> = columns.iter().map(|(column, _)| column).collect();
    print(&columns, &rows, out)
}

/// Prints one item: as JSON, or its fields, one per line.
pub(crate) fn one(
    value: &impl Serialize,
    named: &[(&str, Option<String>)],
    out: &mut Out,
) -> Result<Exit> {
    if out.is_json() {
        out.value(value)?;
    } else {
        fields(named, out)?;
    }
    Ok(Exit::Ok)
}

/// Prints a head and rows; recorded text is made safe to print.
fn print(columns: &[&Column], rows: &[Vec<String>], out: &mut Out) -> Result<()> {
    let cell = |row: &[String], index: usize, most: usize| {
        text::one_line(row.get(index).map(String::as_str).unwrap_or_default(), most)
    };
    let mut widths = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let used = rows
            .iter()
            .map(|row| measure_text_width(&cell(row, index, column.most)))
            .max()
            .unwrap_or_default();
        widths.push(used.max(column.head.len()));
    }
    let last = columns.len().saturating_sub(1);
    let others: usize = widths.iter().take(last).map(|width| width + 2).sum();
    let left_over = out.width().saturating_sub(others).max(LAST_LEAST);
    if let Some(width) = widths.last_mut() {
        *width = (*width).min(left_over);
    }
    let line = |cells: Vec<String>| {
        let padded = cells
            .iter()
            .zip(columns)
            .zip(&widths)
            .map(|((cell, column), width)| {
                let missing = " ".repeat(width.saturating_sub(measure_text_width(cell)));
                if column.right {
                    format!("{missing}{cell}")
                } else {
                    format!("{cell}{missing}")
                }
            });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(
        columns
            .iter()
            .map(|column| column.head.to_owned())
            .collect(),
    );
    out.line(console::style(head).bold().to_string())?;
    for row in rows {
        out.line(line(
            widths
                .iter()
                .enumerate()
                .map(|(index, width)| cell(row, index, *width))
                .collect(),
        ))?;
    }
    Ok(())
}

/// Prints names and values, one per line, wrapped; those without a value are left out.
pub(crate) fn fields(fields: &[(&str, Option<String>)], out: &mut Out) -> Result<()> {
    let width = fields
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or_default();
    for (name, value) in fields {
        let Some(value) = value else { continue };
        for (index, line) in text::wrap(value, out.width().saturating_sub(width + 2))
            .iter()
            .enumerate()
        {
            let name = text::pad(if index == 0 { name } else { "" }, width);
            out.line(format!("{}  {line}", console::style(name).bold()))?;
        }
    }
    Ok(())
}

/// Prints the cursor of the next page.
pub(crate) fn next(cursor: Option<impl std::fmt::Display>, out: &mut Out) -> Result<()> {
    match cursor {
        Some(cursor) => out.line(format!("… there are more: --cursor {cursor}")),
        None => Ok(()),
    }
}

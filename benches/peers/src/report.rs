//! The figures as a page of Markdown: stores down, rows across, with how they were set and what they can't do.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    chart,
    run::{Better, FLOOR, Row, Run},
    stores::PEERS,
};

/// What the page in the documentation has between.
const BEGIN: &str = "<!-- peers: begin -->";
const END: &str = "<!-- peers: end -->";

/// So many rows stand in one table.
const COLUMNS: usize = 5;

/// The page.
pub fn markdown(run: &Run) -> String {
    let mut page = String::new();
    let stores = stores(run);
    for rows in run.rows.chunks(COLUMNS) {
        table(&mut page, rows, &stores);
    }
    let _ = writeln!(page, "How each was set:\n");
    for peer in run.peers.iter().filter(|peer| stores.contains(&peer.name)) {
        let name = format!("{} {}", peer.name, peer.version());
        let _ = writeln!(page, "- {}: {}", name.trim_end(), peer.settings);
    }
    if !run.left_out.is_empty() {
        let _ = writeln!(page, "\nLeft out, with what the store said:\n");
        for (store, why) in &run.left_out {
            let _ = writeln!(
                page,
                "- {store}: {}",
                why.lines().next().unwrap_or_default()
            );
        }
    }
    page
}

/// Those that have a figure, Runlog and the plain file first.
fn stores(run: &Run) -> Vec<&'static str> {
    let names = [PEERS[0].name, FLOOR]
        .into_iter()
        .chain(PEERS.iter().skip(1).map(|peer| peer.name));
    names
        .filter(|name| run.rows.iter().any(|row| row.figures.contains_key(name)))
        .collect()
}

fn table(page: &mut String, rows: &[Row], stores: &[&'static str]) {
    let _ = write!(page, "|");
    for row in rows {
        let _ = write!(page, " | {}, {}", row.measured.name, row.measured.unit);
    }
    let _ = writeln!(page, " |\n| ---{} |", " | ---:".repeat(rows.len()));
    for store in stores {
        if !rows.iter().any(|row| row.figures.contains_key(store)) {
            continue;
        }
        let _ = write!(page, "| {store}");
        for row in rows {
            let Some(figure) = row.figure(store) else {
                let _ = write!(page, " |");
                continue;
            };
            let text = number(figure);
            let text = if best(row) == Some(*store) {
                format!("**{text}**")
            } else {
                text
            };
            let _ = write!(page, " | {text}");
        }
        let _ = writeln!(page, " |");
    }
    page.push('\n');
}

/// The best of the stores in a row; the plain file is none.
fn best(row: &Row) -> Option<&'static str> {
    let figures = row.figures.keys().filter(|store| **store != FLOOR);
    let figures = figures.filter_map(|store| Some((*store, row.figure(store)?)));
    let best = match row.measured.better {
        Better::Higher => figures.max_by(|one, other| one.1.total_cmp(&other.1)),
        Better::Lower => figures.min_by(|one, other| one.1.total_cmp(&other.1)),
    };
    best.map(|(store, _)| store)
}

/// Three digits that count.
pub fn number(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 => {
            let digits = format!("{figure:.0}");
            let mut text = String::new();
            for (place, digit) in digits.chars().enumerate() {
                if place > 0 && (digits.len() - place).is_multiple_of(3) {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

/// Puts the page and the chart into the documentation.
pub fn write(run: &Run, page: &str) -> io::Result<()> {
    let docs = docs()?;
    let path = docs.join("benchmarks.md");
    let text = fs::read_to_string(&path)?;
    let parts = text
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| {
        io::Error::other(format!("{} has no lines {BEGIN} and {END}", path.display()))
    })?;
    fs::write(&path, format!("{before}{BEGIN}\n\n{page}\n{END}{after}"))?;
    fs::write(docs.join("images/peers.svg"), chart::svg(&run.rows))
}

fn docs() -> io::Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .canonicalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let text = [0.123, 9.876, 12.34, 123.4, 1234.5, 1_234_567.0].map(number);
        assert_eq!(text, ["0.12", "9.88", "12.3", "123", "1,234", "1,234,567"]);
    }
}

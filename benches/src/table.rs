//! Rows of figures beside their floors and targets, as a table or as JSON.

use serde_json::{Value, json};

use crate::measure::{Paired, median};

/// The target of a row.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At least this share of the floor.
    Ratio(f64),
    /// At least so much, in the row's unit.
    AtLeast(f64),
    /// At most so much, in the row's unit.
    AtMost(f64),
    /// No target: for information.
    None,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was done.
    pub operation: &'static str,
    /// What the figures count.
    pub unit: &'static str,
    /// The figures of each round; no floor where there is none to name.
    pub rounds: Paired,
    /// Whether the highest round counts, where others take the middle one.
    pub worst: bool,
    /// What it should reach.
    pub target: Target,
}

impl Row {
    fn floor(&self) -> Option<f64> {
        (!self.rounds.floor.is_empty()).then(|| median(&self.rounds.floor))
    }

    fn store(&self) -> f64 {
        if self.worst {
            self.rounds.store.iter().copied().fold(f64::NAN, f64::max)
        } else {
            median(&self.rounds.store)
        }
    }

    fn ratio(&self) -> Option<f64> {
        (!self.rounds.floor.is_empty()).then(|| self.rounds.ratio())
    }

    fn is_met(&self) -> Option<bool> {
        match self.target {
            Target::Ratio(least) => self.ratio().map(|ratio| ratio >= least),
            Target::AtLeast(least) => Some(self.store() >= least),
            Target::AtMost(most) => Some(self.store() <= most),
            Target::None => None,
        }
    }

    fn cells(&self) -> [String; 7] {
        let number = |number: f64| match number {
            number if number.abs() >= 1000.0 => thousands(number),
            number if number.abs() >= 100.0 => format!("{number:.0}"),
            number => format!("{number:.2}"),
        };
        let target = match self.target {
            Target::Ratio(least) => format!("≥ {least:.2} ×"),
            Target::AtLeast(least) => format!("≥ {}", number(least)),
            Target::AtMost(most) => format!("≤ {}", number(most)),
            Target::None => String::new(),
        };
        let met = self
            .is_met()
            .map_or("", |met| if met { "met" } else { "MISSED" });
        [
            self.operation.to_owned(),
            self.floor().map_or_else(String::new, number),
            number(self.store()),
            self.unit.to_owned(),
            self.ratio()
                .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            target,
            met.to_owned(),
        ]
    }

    /// The row with the figures of all rounds.
    #[must_use]
    pub fn json(&self) -> Value {
        let (kind, value) = match self.target {
            Target::Ratio(least) => (Some("ratio_at_least"), Some(least)),
            Target::AtLeast(least) => (Some("at_least"), Some(least)),
            Target::AtMost(most) => (Some("at_most"), Some(most)),
            Target::None => (None, None),
        };
        json!({
            "operation": self.operation,
            "unit": self.unit,
            "floor": self.floor(),
            "runlog": self.store(),
            "ratio": self.ratio(),
            "target": { "kind": kind, "value": value },
            "met": self.is_met(),
            "rounds": { "floor": self.rounds.floor, "runlog": self.rounds.store },
        })
    }
}

/// Prints the rows in columns.
pub fn print(rows: &[Row]) {
    let head = [
        "operation",
        "floor",
        "runlog",
        "unit",
        "ratio",
        "target",
        "",
    ]
    .map(str::to_owned);
    let table: Vec<[String; 7]> = std::iter::once(head)
        .chain(rows.iter().map(Row::cells))
        .collect();
    let mut widths = [0; 7];
    for row in &table {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    println!();
    for row in &table {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            let is_number = matches!(column, 1 | 2 | 4 | 5);
            line.push_str(&if is_number {
                format!("{padding}{cell}  ")
            } else {
                format!("{cell}{padding}  ")
            });
        }
        println!("{}", line.trim_end());
    }
}

/// A whole number with commas.
fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(store: &[f64], floor: &[f64], worst: bool, target: Target) -> Row {
        let rounds = Paired {
            floor: floor.to_vec(),
            store: store.to_vec(),
        };
        Row {
            operation: "test",
            unit: "units",
            rounds,
            worst,
            target,
        }
    }

    #[test]
    fn a_target_is_met_or_missed() {
        let ratio = |least| {
            row(
                &[90.0, 9.0, 80.0],
                &[100.0, 10.0, 100.0],
                false,
                Target::Ratio(least),
            )
            .is_met()
        };
        assert_eq!((ratio(0.9), ratio(0.91)), (Some(true), Some(false)));
        assert_eq!(
            row(&[1.0, 60.0, 2.0], &[], true, Target::AtMost(50.0)).is_met(),
            Some(false)
        );
        assert_eq!(
            row(&[1.0, 60.0, 2.0], &[], false, Target::AtMost(50.0)).is_met(),
            Some(true)
        );
        assert_eq!(row(&[5.0], &[], false, Target::None).is_met(), None);
        assert_eq!(
            row(&[], &[], false, Target::AtMost(50.0)).is_met(),
            Some(false)
        );
    }

    #[test]
    fn thousands_have_commas() {
        assert_eq!(
            [0.4, 999.0, 1000.0, 1_234_567.0].map(thousands),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}

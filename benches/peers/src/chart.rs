//! The chart: for each row, how far each store is from Runlog, on a scale of powers of ten.

use std::fmt::Write as _;

use crate::{
    report::number,
    run::{FLOOR, Row},
    stores::PEERS,
};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 350.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 74.0;
const LINE: f64 = 26.0;
/// A store that is further away than this stands at the edge.
const FURTHEST: f64 = 100.0;

/// One colour for each store after Runlog, told apart by people who see few of them, too.
const COLOURS: [&str; 12] = [
    "#7f7f7f", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b",
    "#6a3d9a", "#b2a800", "#1b7837", "#a50026",
];

/// The chart, as text of SVG.
pub fn svg(rows: &[Row]) -> String {
    let stores: Vec<&str> = std::iter::once(FLOOR)
        .chain(PEERS.iter().skip(1).map(|peer| peer.name))
        .collect();
    let height = TOP + LINE * rows.len() as f64 + 46.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\" \
         role=\"img\"><title>Other stores beside Runlog</title><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    legend(&mut text, &stores);
    let bottom = TOP + LINE * rows.len() as f64;
    for (factor, label) in [
        (0.01, "100 × worse"),
        (0.1, "10 × worse"),
        (1.0, "Runlog"),
        (10.0, "10 × better"),
        (100.0, "100 × better"),
    ] {
        let x = place(factor);
        let (colour, width) = if factor == 1.0 {
            ("#000", 1.5)
        } else {
            ("#ccc", 1.0)
        };
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom + 18.0
        );
    }
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + LINE * (index as f64 + 0.5);
        let own = row.figure(PEERS[0].name).map(number).unwrap_or_default();
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}: {own} {}</text>",
            LEFT - 20.0,
            y + 4.0,
            row.measured
                .name
                .split(", synced")
                .next()
                .unwrap_or_default(),
            row.measured.unit
        );
        for (store, colour) in stores.iter().zip(COLOURS) {
            if let Some(ahead) = row.ahead_of(store) {
                let x = place(1.0 / ahead);
                let _ = writeln!(
                    text,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5.5\" fill=\"{colour}\" fill-opacity=\"0.85\"><title>{store}: {}</title></circle>",
                    row.figure(store).map(number).unwrap_or_default()
                );
            }
        }
    }
    text.push_str("</svg>\n");
    text
}

fn legend(text: &mut String, stores: &[&str]) {
    let _ = writeln!(
        text,
        "<text x=\"20\" y=\"22\" font-size=\"15\" font-weight=\"bold\">Other stores beside Runlog: right of the line is better than Runlog, left is worse</text>"
    );
    let step = (WIDTH - 40.0) / stores.len() as f64;
    for (index, (store, colour)) in stores.iter().zip(COLOURS).enumerate() {
        let x = 26.0 + step * index as f64;
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"46\" r=\"5.5\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"50\">{store}</text>",
            x + 9.0
        );
    }
}

/// Where a factor stands.
fn place(factor: f64) -> f64 {
    let share = (factor.clamp(1.0 / FURTHEST, FURTHEST).log10() / FURTHEST.log10() + 1.0) / 2.0;
    LEFT + share * (WIDTH - LEFT - RIGHT)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run::{Better, Measured};

    #[test]
    fn who_is_as_good_stands_on_the_line_and_who_is_better_right_of_it() {
        let middle = place(1.0);
        assert!(
            place(2.0) > middle && place(0.5) < middle && place(1e9) <= WIDTH && place(0.0) >= LEFT
        );
        let measured = Measured {
            name: "row",
            unit: "ms",
            better: Better::Lower,
        };
        let figures = BTreeMap::from([(PEERS[0].name, vec![2.0, 4.0]), ("sled", vec![1.0, 2.0])]);
        let row = Row { measured, figures };
        assert_eq!(row.ahead_of("sled"), Some(0.5));
        assert!(svg(&[row]).contains(&format!("cx=\"{:.1}\"", place(2.0))));
    }
}

//! As many conversations as are wanted, like those of a file of JSON lines: each line repeatedly, with other numbers
//! each time, and one word in ten replaced.

use std::io;

/// Conversations like those of a file, the same ones each time.
#[derive(Debug)]
pub struct Conversations<'t> {
    lines: Vec<&'t str>,
    words: Vec<&'t str>,
    made: usize,
    state: u64,
}

impl<'t> Conversations<'t> {
    /// Reads the lines that conversations are made of.
    ///
    /// # Errors
    /// The text has no line, or no word of more than three letters.
    pub fn new(text: &'t str) -> io::Result<Self> {
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let words: Vec<&str> = text
            .split(|letter: char| !letter.is_ascii_lowercase())
            .filter(|word| word.len() > 3)
            .collect();
        if lines.is_empty() || words.is_empty() {
            return Err(io::Error::other("there is nothing in the file"));
        }
        Ok(Self {
            lines,
            words,
            made: 0,
            state: 0x9e37_79b9_7f4a_7c15,
        })
    }
}

impl Iterator for Conversations<'_> {
    type Item = String;

    /// The next line of JSON. It has no end.
    fn next(&mut self) -> Option<String> {
        let line = self.lines[self.made % self.lines.len()];
        self.made += 1;
        let varied = vary(line, &self.words, &mut self.state);
        Some(numbered(varied, self.made))
    }
}

/// The next of a sequence of numbers that look random and are the same each time.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn below(state: &mut u64, end: usize) -> usize {
    usize::try_from(next(state) % end.max(1) as u64).unwrap_or(0)
}

/// A conversation's own number where its line begins with one of a task: sessions are named by it, and an import
/// would take those of one name for repetitions of each other.
fn numbered(line: String, number: usize) -> String {
    const TASK: &str = "{\"task_id\": ";
    match line.strip_prefix(TASK) {
        Some(rest) => {
            let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{TASK}{number}{rest}")
        }
        None => line,
    }
}

/// The values of a line of JSON with other numbers, and some other words. It stays JSON: only words between two spaces change, and
/// digits behind the first of a number.
fn vary(line: &str, words: &[&str], state: &mut u64) -> String {
    let mut varied = String::with_capacity(line.len());
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let of = |is: fn(&u8) -> bool| bytes[at..].iter().take_while(|byte| is(byte)).count();
        let (letters, digits) = (of(u8::is_ascii_lowercase), of(u8::is_ascii_digit));
        let before = at.checked_sub(1).map_or(b' ', |before| bytes[before]);
        if letters > 3
            && before == b' '
            && bytes.get(at + letters) == Some(&b' ')
            && below(state, 10) == 0
        {
            varied.push_str(words[below(state, words.len())]);
        } else if digits > 2 && before != b'\\' && before != b'u' {
            varied.push(char::from(bytes[at]));
            for _ in 1..digits {
                varied.push(char::from(b'0' + below(state, 10).to_le_bytes()[0]));
            }
        } else {
            let plain = letters.max(digits).max(1);
            let mut end = at + plain;
            while !line.is_char_boundary(end) {
                end += 1;
            }
            varied.push_str(&line[at..end]);
            at = end;
            continue;
        }
        at += letters.max(digits);
    }
    varied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_stay_json_and_have_numbers_of_their_own() {
        let text = r#"{"task_id": 7, "messages": [{"role": "user", "content": "please change order 48213 for the other person \u00e4 €1200"}]}"#;
        let made: Vec<String> = Conversations::new(text).unwrap().take(50).collect();
        for (number, line) in (1_u64..).zip(&made) {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(value["task_id"], number);
            let content = value["messages"][0]["content"].as_str().unwrap();
            assert!(content.contains('ä') && content.contains("€1"), "{content}");
        }
        assert!(made[0] != made[1].replace("\"task_id\": 2", "\"task_id\": 1"));
        assert!(Conversations::new("\n").is_err());
    }
}

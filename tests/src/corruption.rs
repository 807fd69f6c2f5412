//! Stores damaged at random, in every way that a device, a person or another program damages files.

pub mod laws;
pub mod truth;
pub mod victims;

use crate::{checker::Files, random::Random};

/// A store after some damages.
#[derive(Clone)]
pub struct Corrupted {
    /// What is left of its files.
    pub files: Files,
    /// What was done, a part for each damage.
    pub what: Vec<String>,
}

/// Damages files `count` times. Those that come from elsewhere are of `foreign`, another store.
pub fn corrupt(files: &Files, foreign: &Files, count: u64, random: &mut Random) -> Corrupted {
    let mut corrupted = Corrupted {
        files: files.clone(),
        what: Vec::new(),
    };
    for _ in 0..count {
        let what = corrupted.damage(foreign, random);
        corrupted.what.push(what);
    }
    corrupted
}

fn pick<'a>(names: &[&'a str], random: &mut Random) -> Option<&'a str> {
    (!names.is_empty()).then(|| names[random.place(names.len())])
}

/// A range of a file; short ones are as likely as long ones.
fn range(length: usize, random: &mut Random) -> (usize, usize) {
    if length == 0 {
        return (0, 0);
    }
    let from = random.place(length);
    let most = (length - from).min(1 << random.below(16));
    (from, from + 1 + random.place(most))
}

impl Corrupted {
    fn damage(&mut self, foreign: &Files, random: &mut Random) -> String {
        let files = self.files.clone();
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        let (segments, small): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| name.ends_with(".seg"));
        // There are few small files, and each is as likely to be hit as all segments together.
        let any = match random.below(3) {
            0 => pick(&small, random),
            _ => pick(&segments, random),
        };
        let Some(name) = any else {
            return "nothing was left to damage".to_owned();
        };
        match random.below(11) {
            0 => self.truncate(name, random),
            1 | 2 => self.zero(name, random),
            3 | 4 => self.flip(name, random),
            5 => self.copy_range(name, pick(&names, random).unwrap_or(name), random),
            6 => self.swap(name, pick(&names, random).unwrap_or(name)),
            7 => self.remove(name),
            8 => self.duplicate(
                pick(&segments, random).unwrap_or(name),
                segments.len(),
                random,
            ),
            9 => self.append_garbage(name, random),
            _ => self.replace(name, foreign),
        }
    }

    fn bytes(&mut self, name: &str) -> &mut Vec<u8> {
        self.files.entry(name.to_owned()).or_default()
    }

    fn truncate(&mut self, name: &str, random: &mut Random) -> String {
        let bytes = self.bytes(name);
        let length = random.place(bytes.len() + 1);
        bytes.truncate(length);
        format!("{name} cut to {length}")
    }

    fn zero(&mut self, name: &str, random: &mut Random) -> String {
        let bytes = self.bytes(name);
        let (from, to) = range(bytes.len(), random);
        bytes[from..to].fill(0);
        format!("{name} zero from {from} to {to}")
    }

    fn flip(&mut self, name: &str, random: &mut Random) -> String {
        let bytes = self.bytes(name);
        let mut places = Vec::new();
        for _ in 0..=random.below(6) {
            if !bytes.is_empty() {
                let place = random.place(bytes.len());
                bytes[place] ^= 1 << random.below(8);
                places.push(place);
            }
        }
        format!("{name} flipped at {places:?}")
    }

    fn copy_range(&mut self, name: &str, other: &str, random: &mut Random) -> String {
        let source = self.bytes(name).clone();
        let (from, to) = range(source.len(), random);
        let target = self.bytes(other);
        // As often to its own place in another file as anywhere.
        let at = if random.one_in(2) {
            from
        } else {
            random.place(target.len() + 1)
        };
        let count = (to - from).min(target.len().saturating_sub(at));
        if count > 0 {
            target[at..at + count].copy_from_slice(&source[from..from + count]);
        }
        format!("{count} bytes at {from} of {name} copied to {at} of {other}")
    }

    fn swap(&mut self, name: &str, other: &str) -> String {
        let first = self.bytes(name).clone();
        let second = std::mem::replace(self.bytes(other), first);
        *self.bytes(name) = second;
        format!("{name} and {other} exchanged")
    }

    fn remove(&mut self, name: &str) -> String {
        self.files.remove(name);
        format!("{name} removed")
    }

    fn duplicate(&mut self, name: &str, segments: usize, random: &mut Random) -> String {
        let bytes = self.bytes(name).clone();
        let copy = format!("{:08}.seg", 1 + random.place(segments + 2));
        self.files.insert(copy.clone(), bytes);
        format!("{name} copied as {copy}")
    }

    fn append_garbage(&mut self, name: &str, random: &mut Random) -> String {
        let mut garbage = vec![0; 1 + random.place(1000)];
        random.fill(&mut garbage);
        self.bytes(name).extend(&garbage);
        format!("{} bytes appended to {name}", garbage.len())
    }

    fn replace(&mut self, name: &str, foreign: &Files) -> String {
        match foreign.get(name) {
            Some(bytes) => self.bytes(name).clone_from(bytes),
            None => drop(self.files.remove(name)),
        }
        format!("{name} as another store has it")
    }
}

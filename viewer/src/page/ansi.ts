// Text as it was recorded: colours of terminals are rendered, nothing of it is obeyed, and what can't be seen is made visible.

export interface Span {
  text: string;
  /** Classes of the colour and weight. */
  style: string;
  /** A sign that stands for a character which would do something unseen. */
  isSign: boolean;
}

// Joiners belong to emoji, and to scripts whose letters join; between others they hide.
const JOINING = "\\p{Extended_Pictographic}\\p{Emoji_Modifier}\\p{Script=Arabic}\\p{Script=Syriac}\\p{Script=Mongolian}\\p{Script=Devanagari}\\p{Script=Bengali}\\p{Script=Gujarati}\\p{Script=Gurmukhi}\\p{Script=Kannada}\\p{Script=Malayalam}\\p{Script=Oriya}\\p{Script=Sinhala}\\p{Script=Tamil}\\p{Script=Telugu}\\p{Script=Khmer}";
const UNSEEN = [
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb]",
  `(?<![${JOINING}\\ufe0f])[\\u200c\\u200d]`,
  `[\\u200c\\u200d](?![${JOINING}])`,
  // Tags spell the regions of flags; anywhere else they spell what only a model reads.
  "(?<!\\u{1f3f4}[\\u{e0020}-\\u{e007e}]*)[\\u{e0000}-\\u{e007f}]",
  "[\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}]",
  // A letter has one variation, if any.
  "(?<=[\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}])[\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}]",
];
// What sets a title or a link isn't among them: it may be of any length, and what it says is shown.
const SEQUENCE = "\\u001b\\[([0-9;:]*)m|\\u001b(?:\\[[0-?]{0,64}[ -/]{0,8}[@-~]|[@-Z\\\\^_])";
const SPECIAL = new RegExp([SEQUENCE, ...UNSEEN].join("|"), "gu");
const SPANS_MAX = 4000;

interface Pen {
  colour: number;
  ground: number;
  inverse: boolean;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

const unstyled: Pen = { colour: -1, ground: -1, inverse: false, bold: false, dim: false, italic: false, underline: false };

/** Cuts a text into pieces of one style each. */
export function spansOf(whole: string): Span[] {
  const text = whole.toWellFormed();
  const spans: Span[] = [];
  let pen = unstyled;
  let from = 0;
  SPECIAL.lastIndex = 0;
  const add = (piece: string, isSign = false) => {
    if (piece !== "") spans.push({ text: piece, style: isSign ? "sign" : styleOf(pen), isSign });
  };
  for (let found = SPECIAL.exec(text); found !== null; found = SPECIAL.exec(text)) {
    add(text.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[1] !== undefined) pen = written(pen, found[1]);
    else add(signOf(found[0]), found[0] !== "\r");
    if (spans.length < SPANS_MAX) continue;
    // The rest in one style: so many pieces take long to show, but nothing of them hides.
    add(text.slice(from).replaceAll(SPECIAL, (special, codes?: string) => (codes === undefined ? signOf(special) : "")));
    return spans;
  }
  add(text.slice(from));
  return spans;
}

/** A name or a title as text of one style: what would do something unseen is named, colours are left out. */
export function plain(text: string): string {
  return spansOf(text)
    .map((span) => span.text)
    .join("");
}

/** What is shown for what can't be seen: a sequence that moves the cursor or the like is one sign, a character its name. */
function signOf(special: string): string {
  if (special === "\r") return "";
  const code = special.startsWith("\u001b") ? 27 : (special.codePointAt(0) as number);
  return code < 32 ? String.fromCharCode(0x2400 + code) : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

function written(before: Pen, codes: string): Pen {
  let pen = before;
  const numbers = codes === "" ? [0] : codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at] as number;
    if (code === 0) pen = unstyled;
    else if (code === 1) pen = { ...pen, bold: true };
    else if (code === 2) pen = { ...pen, dim: true };
    else if (code === 3) pen = { ...pen, italic: true };
    else if (code === 4) pen = { ...pen, underline: true };
    else if (code === 7) pen = { ...pen, inverse: true };
    else if (code === 27) pen = { ...pen, inverse: false };
    else if (code === 22) pen = { ...pen, bold: false, dim: false };
    else if (code === 23) pen = { ...pen, italic: false };
    else if (code === 24) pen = { ...pen, underline: false };
    else if (code === 38 || code === 48) {
      const [form, first = 0, green = 0, blue = 0] = numbers.slice(at + 1, at + 5);
      const colour = form === 2 ? nearest(first, green, blue) : ofPalette(first);
      pen = code === 38 ? { ...pen, colour } : { ...pen, ground: colour };
      at += form === 2 ? 4 : 2;
    } else if (code >= 30 && code <= 37) pen = { ...pen, colour: code - 30 };
    else if (code === 39) pen = { ...pen, colour: -1 };
    else if (code >= 40 && code <= 47) pen = { ...pen, ground: code - 40 };
    else if (code === 49) pen = { ...pen, ground: -1 };
    else if (code >= 100 && code <= 107) pen = { ...pen, ground: code - 92 };
    else if (code >= 90 && code <= 97) pen = { ...pen, colour: code - 82 };
  }
  return pen;
}

/** One of 256 colours, as the nearest of the theme's: the first sixteen are those, then comes a cube of colours, then greys. */
function ofPalette(number: number): number {
  if (number < 16) return number;
  if (number >= 232) return number < 244 ? 0 : 7;
  const cube = number - 16;
  return nearest(Math.floor(cube / 36) * 51, (Math.floor(cube / 6) % 6) * 51, (cube % 6) * 51);
}

/** The theme's colours differ by what of red, green and blue is in them. */
function nearest(red: number, green: number, blue: number): number {
  const half = Math.max(red, green, blue) / 2;
  if (half < 32) return 0;
  return (red > half ? 1 : 0) + (green > half ? 2 : 0) + (blue > half ? 4 : 0);
}

function styleOf(pen: Pen): string {
  const classes: string[] = [];
  // Turned about, a text has the ground's colour on its own: a ground of its own is all that has to be seen of it.
  const ground = pen.inverse ? (pen.colour >= 0 ? pen.colour : 7) : pen.ground;
  if (ground >= 0) classes.push(`ansi-on-${ground % 8}`);
  else if (pen.colour >= 0) classes.push(`ansi-${pen.colour % 8}`);
  if (pen.bold) classes.push("ansi-bold");
  if (pen.dim) classes.push("ansi-dim");
  if (pen.italic) classes.push("ansi-italic");
  if (pen.underline) classes.push("ansi-underline");
  return classes.join(" ");
}

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
const UNSEEN = ["[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff]", `(?<![${JOINING}\\ufe0f])[\\u200c\\u200d]`, `[\\u200c\\u200d](?![${JOINING}])`];
const SEQUENCE = "\\u001b\\[([0-9;:]*)m|\\u001b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\\u0007\\u001b]*(?:\\u0007|\\u001b\\\\)?|[@-Z\\\\-_])";
const SPECIAL = new RegExp([SEQUENCE, ...UNSEEN].join("|"), "gu");
const SPANS_MAX = 4000;

interface Pen {
  colour: number;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
}

const plain: Pen = { colour: -1, bold: false, dim: false, italic: false, underline: false };

/** Cuts a text into pieces of one style each. */
export function spansOf(whole: string): Span[] {
  const text = whole.toWellFormed();
  const spans: Span[] = [];
  let pen = plain;
  let from = 0;
  SPECIAL.lastIndex = 0;
  const add = (piece: string, isSign = false) => {
    if (piece !== "") spans.push({ text: piece, style: isSign ? "sign" : styleOf(pen), isSign });
  };
  for (let found = SPECIAL.exec(text); found !== null && spans.length < SPANS_MAX; found = SPECIAL.exec(text)) {
    add(text.slice(from, found.index));
    from = found.index + found[0].length;
    if (found[1] !== undefined) pen = written(pen, found[1]);
    // A sequence that moves the cursor, sets a title or the like is left out; a character by itself is named.
    else if (found[0].length === 1 && found[0] !== "\r") add(signOf(found[0]), true);
    else if (found[0].length > 1) add("␛", true);
  }
  add(text.slice(from));
  return spans;
}

function signOf(char: string): string {
  const code = char.charCodeAt(0);
  return code < 32 ? String.fromCharCode(0x2400 + code) : `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

function written(before: Pen, codes: string): Pen {
  let pen = before;
  const numbers = codes === "" ? [0] : codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at] as number;
    if (code === 0) pen = plain;
    else if (code === 1) pen = { ...pen, bold: true };
    else if (code === 2) pen = { ...pen, dim: true };
    else if (code === 3) pen = { ...pen, italic: true };
    else if (code === 4) pen = { ...pen, underline: true };
    else if (code === 22) pen = { ...pen, bold: false, dim: false };
    else if (code === 23) pen = { ...pen, italic: false };
    else if (code === 24) pen = { ...pen, underline: false };
    else if (code === 38 || code === 48) {
      // One of 256 colours, or three parts of one: the first sixteen are those of the theme.
      const value = numbers[at + 2];
      if (code === 38 && numbers[at + 1] === 5 && value !== undefined && value < 16) pen = { ...pen, colour: value };
      at += numbers[at + 1] === 2 ? 4 : 2;
    } else if (code >= 30 && code <= 37) pen = { ...pen, colour: code - 30 };
    else if (code === 39) pen = { ...pen, colour: -1 };
    else if (code >= 90 && code <= 97) pen = { ...pen, colour: code - 82 };
  }
  return pen;
}

function styleOf(pen: Pen): string {
  const classes: string[] = [];
  if (pen.colour >= 0) classes.push(`ansi-${pen.colour % 8}`);
  if (pen.bold) classes.push("ansi-bold");
  if (pen.dim) classes.push("ansi-dim");
  if (pen.italic) classes.push("ansi-italic");
  if (pen.underline) classes.push("ansi-underline");
  return classes.join(" ");
}

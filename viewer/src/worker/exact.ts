// JSON as it was recorded: numbers that JavaScript would change keep their digits.

/** A number that JavaScript would write in another way: with more digits than it keeps, an exponent, a zero at its end. */
class ExactNumber {
  constructor(readonly digits: string) {}

  toJSON(): string {
    return `${MARK}${this.digits}`;
  }
}

/** Begins a text that stands for a number while JSON is read or written. */
const MARK = "\u0000number ";
const MARKED = /"\\u0000number (-?[\d.eE+-]+)"/g;
/** What may be such a number. */
const CHANGED = /\d{16}|\d[eE]|\.\d*0(?!\d)|-0/;
const TEXT = String.raw`"[^"\\]*(?:\\.[^"\\]*)*"`;
const TOKEN = new RegExp(`${TEXT}|-?\\d[\\d.eE+-]*`, "gs");
const NAMED = new RegExp(`${TEXT}|:`, "gs");
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Reads JSON; the numbers in it that JavaScript would change are given by {@link exactDigits}. */
export function parseExact(text: string): unknown {
  if (!CHANGED.test(text)) return JSON.parse(text) as unknown;
  const isChanged = (token: string) => !token.startsWith('"') && NUMBER.test(token) && String(Number(token)) !== token;
  const marked = text.replaceAll(TOKEN, (token) => (isChanged(token) ? JSON.stringify(`${MARK}${token}`) : token));
  const root = { value: JSON.parse(marked) as unknown };
  const stack: Record<string, unknown>[] = [root];
  for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
    for (const [key, value] of Object.entries(at)) {
      if (typeof value === "object" && value !== null) stack.push(value as Record<string, unknown>);
      else if (typeof value === "string" && value.startsWith(MARK) && NUMBER.test(value.slice(MARK.length))) {
        Object.defineProperty(at, key, { value: new ExactNumber(value.slice(MARK.length)), configurable: true, enumerable: true, writable: true });
      }
    }
  }
  return root.value;
}

/** The same; undefined for what is no JSON. */
export function parseExactOrNone(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return undefined;
  }
}

/** Writes JSON, with such numbers as they were; undefined for what has none. */
export function writeExact(value: unknown, indent = 2): string | undefined {
  const text = JSON.stringify(value, undefined, indent) as string | undefined;
  return text?.includes('"\\u0000number ') === true ? text.replaceAll(MARKED, "$1") : text;
}

/** The digits of a number that JavaScript would change; undefined for any other value. */
export function exactDigits(value: unknown): string | undefined {
  return value instanceof ExactNumber ? value.digits : undefined;
}

/** Above so many characters names aren't counted. */
const COUNTED_MAX = 4 << 20;

/** Whether an object in a text has a name twice, of which a value that was read has the last alone. */
export function hasNameTwice(text: string, value: unknown): boolean {
  if (text.length > COUNTED_MAX) return false;
  let members = 0;
  for (const [token] of text.matchAll(NAMED)) members += token === ":" ? 1 : 0;
  const stack = [value];
  while (stack.length > 0) {
    const at = stack.pop();
    if (typeof at !== "object" || at === null || at instanceof ExactNumber) continue;
    const inner = Object.values(at);
    if (!Array.isArray(at)) members -= inner.length;
    for (const one of inner) stack.push(one);
  }
  return members !== 0;
}

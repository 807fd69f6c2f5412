import { bytesGiven, listOf, shown } from "./checks.js";
import { RunlogError, invalid, messageOf } from "./error.js";
import { newUuid } from "./uuid.js";

/**
 * JSON text that is kept byte for byte: white space, key order and the spelling of numbers included.
 *
 * Wherever this package takes a value that it keeps as JSON, it takes a `RawJson` too, and stores its text as it is.
 *
 * @example
 * ```ts
 * const message = RawJson.parse('{ "role": "user", "content": "hello", "score": 1.0 }');
 * await context.appendMessage(message);
 * const [kept] = await context.getRawMessages();
 * console.log(kept?.json === message.text); // true
 * ```
 */
export class RawJson {
  /** The text, exactly as given. */
  readonly text: string;

  private constructor(text: string) {
    this.text = text;
  }

  /**
   * JSON text as given, after a check that it is one whole JSON value.
   *
   * @throws {@link RunlogError} `invalid_input` when it isn't.
   */
  static parse(text: string): RawJson {
    if (typeof text !== "string") throw invalid(`raw JSON must be text, not ${shown(text)}`);
    if (!text.isWellFormed()) throw invalid("the text has half a surrogate pair, which UTF-8 has no form for");
    try {
      JSON.parse(text);
    } catch (cause) {
      throw invalid(`not valid JSON: ${messageOf(cause)}`, cause);
    }
    return new RawJson(text);
  }

  /** The JSON of a value. */
  static from(value: unknown): RawJson {
    return value instanceof RawJson && typeof value.text === "string" ? value : new RawJson(stringify(value));
  }

  /** The value of the text. */
  value<T = unknown>(): T {
    return JSON.parse(this.text) as T;
  }

  /** The text. */
  toString(): string {
    return this.text;
  }

  /** The value, for `JSON.stringify`; its spelling is lost there. */
  toJSON(): unknown {
    return JSON.parse(this.text);
  }
}

const encoder = new TextEncoder();
// A byte order mark at the beginning is a character like any other: it is kept.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The UTF-8 of a text. @internal */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The text of UTF-8. @internal */
export function textOf(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw invalid("the bytes aren't text in UTF-8; they can be had as they are", cause);
  }
}

/** The value of JSON in UTF-8. @internal */
export function parseBytes<T>(bytes: Uint8Array): T {
  const text = textOf(bytes);
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    throw invalid(`the text isn't JSON: ${(cause as Error).message}`, cause);
  }
}

/** The JSON of a value, or an error that says that it has none. @internal */
export function stringify(value: unknown): string {
  if (value instanceof RawJson) return textGiven(value);
  if (isPromise(value)) throw invalid("a promise was given; await it");
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw invalid(`the value has no JSON form: ${messageOf(cause)}`, cause);
  }
  if (text === undefined) throw invalid(`the value has no JSON form: it is ${typeof value}`);
  return text;
}

/** The UTF-8 JSON of a value; bytes are taken for JSON in UTF-8 already. @internal */
export function jsonBytes(value: unknown): Uint8Array {
  // Their JSON would be `{}`, or an object of numbers.
  if (ArrayBuffer.isView(value) || isBuffer(value) || value instanceof Uint8Array) return bytesGiven(value, "JSON in UTF-8");
  const text = stringify(value);
  // Told at once, not after a copy or two of it.
  if (text.length <= JSON_BYTES_MAX) return utf8(text);
  throw new RunlogError("too_large", `a value has ${text.length} characters of JSON, at most ${JSON_BYTES_MAX} bytes are allowed`);
}

/** The UTF-8 JSON of a message, whose fields are looked at: JSON has no form for what would be lost. @internal */
export function messageBytes(message: unknown): Uint8Array {
  if (typeof message !== "object" || message === null || message instanceof RawJson || message instanceof Uint8Array) {
    return jsonBytes(message);
  }
  for (const [name, field] of Object.entries(message)) checkField(name, field);
  return jsonBytes(message);
}

/** The messages, one after the other, with the length of each. @internal */
export function messageList(messages: readonly unknown[]): { lengths: number[]; data: Uint8Array } {
  return joined(listOf(messages, "the messages").map(messageBytes));
}

/** Refuses a field whose JSON would say something else. @internal */
export function checkField(name: string, field: unknown): void {
  if (isPromise(field)) throw invalid(`\`${name}\`: a promise was given; await it`);
  if (typeof field === "number" && !Number.isFinite(field)) throw invalid(`\`${name}\` is ${field}, which JSON has no form for`);
  if (field === undefined && name === "output") throw invalid("`output` is undefined; give null where a tool gives nothing");
  if (field === undefined && name === "content") throw invalid("`content` is undefined; give it, or leave it out of a message of tool calls");
}

/** What one record can hold: 64 MiB. */
const JSON_BYTES_MAX = 64 << 20;

function isBuffer(value: unknown): boolean {
  return value instanceof ArrayBuffer || (typeof SharedArrayBuffer === "function" && value instanceof SharedArrayBuffer);
}

/** The text of raw JSON, which somebody may have made without {@link RawJson.parse}. */
function textGiven({ text }: RawJson): string {
  if (typeof text !== "string") throw invalid("raw JSON is made by RawJson.parse or RawJson.from");
  return text;
}

/** Marks where raw JSON goes, in a way that nobody can guess. Made when it is needed: workerd has nothing random before a request. */
let mark: string | undefined;

/** The JSON of arguments, with every {@link RawJson} in them as it is. @internal */
export function encodeArguments(args: object): string {
  let raw: string[] | undefined;
  const replacer = function (this: unknown, key: string, value: unknown): unknown {
    const own = (this as Record<string, unknown>)[key];
    if (!(own instanceof RawJson)) return value;
    raw ??= [];
    raw.push(textGiven(own));
    mark ??= `runlog:${newUuid()}:`;
    return mark + (raw.length - 1);
  };
  let text: string | undefined;
  try {
    // Most arguments have no raw JSON, and are written faster without.
    text = checkArgument(args, "") ? JSON.stringify(args, replacer) : JSON.stringify(args);
  } catch (cause) {
    if (cause instanceof RunlogError) throw cause;
    throw invalid(`an argument has no JSON form: ${messageOf(cause)}`, cause);
  }
  if (text === undefined) throw invalid(`an argument has no JSON form: it is ${shown(args)}`);
  if (raw === undefined) return text;
  const texts: string[] = raw;
  return text.replaceAll(new RegExp(`"${mark}(\\d+)"`, "g"), (_, index: string) => texts[Number(index)] ?? "null");
}

/**
 * Refuses what JSON has no form for, and would write as `null` or `{}`: numbers that aren't finite, and promises. Says whether
 * there is raw JSON.
 */
function checkArgument(value: unknown, path: string, seen = new Set<object>()): boolean {
  if (typeof value === "number" && !Number.isFinite(value)) throw invalid(`\`${path}\` is ${value}, which JSON has no form for`);
  if (typeof value !== "object" || value === null) return false;
  if (value instanceof RawJson) return true;
  if (isPromise(value)) throw invalid(`\`${path}\`: a promise was given; await it`);
  // What contains itself is refused where it is written.
  if (seen.has(value)) return false;
  seen.add(value);
  let hasRaw = false;
  for (const [name, item] of Object.entries(value)) hasRaw = checkArgument(item, path === "" ? name : `${path}.${name}`, seen) || hasRaw;
  return hasRaw;
}

function isPromise(value: unknown): boolean {
  return value instanceof Promise;
}

/** Several JSON values, one after the other, with the length of each. @internal */
export function jsonList(values: readonly unknown[]): { lengths: number[]; data: Uint8Array } {
  return joined(listOf(values, "the values").map(jsonBytes));
}

function joined(parts: readonly Uint8Array[]): { lengths: number[]; data: Uint8Array } {
  const lengths = parts.map((part) => part.length);
  return { lengths, data: concat(parts) };
}

/** Bytes, one after the other. @internal */
export function concat(parts: readonly Uint8Array[]): Uint8Array {
  const data = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    data.set(part, at);
    at += part.length;
  }
  return data;
}

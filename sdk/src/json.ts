import { bytesGiven, classOf, listOf, readable, refuseGetters, shown } from "./checks.js";
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
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
    // Looked at after it was written, which ends at what contains itself.
    if (losesSomething(value)) {
      refuseLostIn(value);
      text = JSON.stringify(value, withErrors);
    }
  } catch (cause) {
    if (cause instanceof RunlogError) throw cause;
    throw unwritten(value, "the value", cause);
  }
  if (text === undefined) throw invalid(`the value has no JSON form: it is ${typeof value}`);
  if (typeof value === "number" && !Number.isFinite(value)) throw invalid(`the value has no JSON form: it is ${value}`);
  return text;
}

/** Text that is only repeated, without half a surrogate pair: {@link wellFormedBytes}. Anything else as it is. @internal */
export function wellFormed<T>(text: T): T {
  return typeof text === "string" ? (text.toWellFormed() as T) : text;
}

/**
 * The JSON of a value whose texts are only repeated, not kept byte for byte: half a surrogate pair in them, as where a model's
 * text was cut, becomes U+FFFD, so that what else it says isn't lost. `JSON.stringify` spells such a half as an escape.
 *
 * @internal
 */
export function wellFormedJson(value: unknown): string {
  const text = stringify(value);
  if (!text.includes("\\u")) return text;
  // Raw JSON may have whole pairs as escapes.
  return text.replace(ESCAPES, (found) => (found.length === HALF ? "\ufffd" : found));
}

/** A backslash, a whole pair, or half of one, as JSON escapes them. */
const ESCAPES = /\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}/g;
/** The length of half a pair: `\ud83d`. */
const HALF = 6;

/** The UTF-8 of the same. @internal */
export function wellFormedBytes(value: unknown): Uint8Array {
  if (ArrayBuffer.isView(value)) return jsonBytes(value);
  return utf8(wellFormedJson(value));
}

/** The UTF-8 JSON of a value; bytes are taken for JSON in UTF-8 already. @internal */
export function jsonBytes(value: unknown): Uint8Array {
  // Their JSON would be `{}`, or an object of numbers.
  if (ArrayBuffer.isView(value) || isBuffer(value) || value instanceof Uint8Array) return bytesGiven(value, "JSON in UTF-8");
  const text = stringify(value);
  // Refused at once, not after a copy or two of it.
  if (text.length <= JSON_BYTES_MAX) return utf8(text);
  throw new RunlogError("too_large", `a value has ${text.length} characters of JSON, at most ${JSON_BYTES_MAX} bytes are allowed`);
}

/** The UTF-8 JSON of a message, whose fields are looked at: JSON has no form for what would be lost. @internal */
export function messageBytes(message: unknown): Uint8Array {
  if (message === undefined) throw invalid("a message must be an object, not undefined");
  if (typeof message !== "object" || message === null || message instanceof RawJson || message instanceof Uint8Array) {
    return jsonBytes(message);
  }
  readable("the message", () => {
    for (const [name, field] of Object.entries(message)) checkField(name, field);
  });
  return jsonBytes(message);
}

/** The messages, one after the other, with the length of each. @internal */
export function messageList(messages: readonly unknown[]): { lengths: number[]; data: Uint8Array } {
  // Not `map`, which leaves out what an array has no element for.
  return joined(Array.from(listOf(messages, "the messages"), (message) => messageBytes(message)));
}

/** Refuses a field whose JSON would say something else. @internal */
export function checkField(name: string, field: unknown): void {
  if (typeof field === "object" && field !== null) refuseLost(name, field);
  if (typeof field === "number" && !Number.isFinite(field)) throw invalid(`\`${name}\` is ${field}, which JSON has no form for`);
  if (field === undefined && name === "output") throw invalid("`output` is undefined; give null where a tool gives nothing, and its error, with `status: \"error\"`, where it failed");
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
    if (!(own instanceof RawJson)) return withErrors(key, value);
    raw ??= [];
    raw.push(textGiven(own));
    mark ??= `runlog:${newUuid()}:`;
    return mark + (raw.length - 1);
  };
  let text: string | undefined;
  try {
    refuseGetters(args, "what is given");
    // Most arguments have neither raw JSON nor errors, and are written faster without.
    text = checkArgument(args, "") ? JSON.stringify(args, replacer) : JSON.stringify(args);
  } catch (cause) {
    if (cause instanceof RunlogError) throw cause;
    throw unwritten(args, "an argument", cause);
  }
  if (text === undefined) throw invalid(`an argument has no JSON form: it is ${shown(args)}`);
  if (raw === undefined) return text;
  const texts: string[] = raw;
  return text.replaceAll(new RegExp(`"${mark}(\\d+)"`, "g"), (_, index: string) => texts[Number(index)] ?? "null");
}

/**
 * Refuses what JSON has no form for, and would write as `null` or `{}`: numbers that aren't finite, promises, maps. Says whether
 * there is raw JSON, or an error.
 */
function checkArgument(value: unknown, path: string, seen = new Set<object>()): boolean {
  if (typeof value === "number" && !Number.isFinite(value)) throw invalid(`\`${path}\` is ${value}, which JSON has no form for`);
  // Left out, it would pass for something that wasn't given: a rule, a guard, a dry run.
  if (typeof value === "function" || typeof value === "symbol") {
    throw invalid(`\`${path}\` is a ${typeof value}, which JSON has no form for${typeof value === "function" ? "; call it" : ""}`);
  }
  if (typeof value !== "object" || value === null) return false;
  // What has a form of its own is looked at as that form.
  if (value instanceof RawJson || hasOwnForm(value)) return true;
  refuseLost(path, value);
  if (path === "options" || path === "filter") refuseGetters(value, "the options");
  // What contains itself is refused where it is written.
  if (seen.has(value)) return false;
  seen.add(value);
  let isWritten = isPlainError(value);
  for (const [name, item] of Object.entries(value)) isWritten = checkArgument(item, below(path, value, name), seen) || isWritten;
  return isWritten;
}

/** What `JSON.stringify` writes as `{}`, whatever is in it, with what to do about it. */
const LOST = new Map([
  ["Promise", "a promise was given; await it"],
  ["AbortSignal", "an AbortSignal was given where none is taken; leave it out"],
  ["Map", "a Map was given, which JSON has no form for; give Object.fromEntries(map), or [...map]"],
  ["Set", "a Set was given, which JSON has no form for; give [...set]"],
  ["WeakMap", "a WeakMap was given, which JSON has no form for"],
  ["WeakSet", "a WeakSet was given, which JSON has no form for"],
  ["ArrayBuffer", "an ArrayBuffer was given, which JSON has no form for; give its bytes in base64"],
  ["SharedArrayBuffer", "a SharedArrayBuffer was given, which JSON has no form for; give its bytes in base64"],
  ["DataView", "a DataView was given, which JSON has no form for; give its bytes in base64"],
  ["Response", "a Response was given, which JSON has no form for; give what its text() or json() resolves to"],
  ["Blob", "a Blob was given, which JSON has no form for; give what its text() resolves to, or its bytes in base64"],
  ["Headers", "Headers were given, which JSON has no form for; give Object.fromEntries(headers)"],
  ["URLSearchParams", "URLSearchParams were given, which JSON has no form for; give their text, or Object.fromEntries(params)"],
  ["FormData", "FormData was given, which JSON has no form for; give Object.fromEntries(data)"],
  ["RegExp", "a RegExp was given, which JSON has no form for; give its text"],
  ["Generator", "a generator was given, which JSON has no form for; give [...generator]"],
  ["AsyncGenerator", "an async generator was given, which JSON has no form for; give what it yields, as an array"],
  ["ReadableStream", "a ReadableStream was given, which JSON has no form for; give what it yields, as text or an array"],
]);

/** Classes of the language whose objects JSON writes as what they stand for. */
const WRITTEN = new Set(["Object", "Error", "Array", "Arguments", "Boolean", "Number", "String", "BigInt"]);

function hasOwnForm(value: object): boolean {
  return typeof (value as { toJSON?: unknown }).toJSON === "function";
}

/** The error of a value that `JSON.stringify` refused, with the place of a BigInt in it, which that doesn't tell. */
function unwritten(value: unknown, what: string, cause: unknown): RunlogError {
  const path = pathOf(value, (item) => typeof item === "bigint");
  if (path === undefined) return invalid(`${what} has no JSON form: ${messageOf(cause)}`, cause);
  return invalid(`${path === "" ? what : `\`${path}\``} is a BigInt, which JSON has no form for; give a number, or its text`, cause);
}

/** The place of what has a name in an object, or in an array, that is at a place itself. */
function below(path: string, object: object, name: string): string {
  if (Array.isArray(object)) return `${path}[${name}]`;
  return path === "" ? name : `${path}.${name}`;
}

/** Where in a value something is that is looked for. */
function pathOf(value: unknown, isIt: (item: unknown) => boolean): string | undefined {
  const seen = new Set<object>();
  const look = (value: unknown, path: string): string | undefined => {
    if (isIt(value)) return path;
    if (typeof value !== "object" || value === null || hasOwnForm(value) || seen.has(value)) return undefined;
    seen.add(value);
    for (const [name, item] of Object.entries(value)) {
      const found = look(item, below(path, value, name));
      if (found !== undefined) return found;
    }
    return undefined;
  };
  try {
    return look(value, "");
  } catch {
    // Getters that fail, and what is nested too deeply, are told of where the value is written.
    return undefined;
  }
}

/** Whether an object is an error that has no JSON form of its own: `JSON.stringify` leaves out its name and its message. */
function isPlainError(value: object): boolean {
  return (value instanceof Error || classOf(value) === "Error") && !hasOwnForm(value);
}

/**
 * Why an object can't be kept: what `JSON.stringify` writes as `{}` though there is something in it, or as another thing. Of classes
 * that hide what they have, as those of the web do, only those that nobody gave a field.
 */
function lost(value: object): string | undefined {
  if (hasOwnForm(value)) return undefined;
  const name = classOf(value);
  const advice = LOST.get(name);
  if (advice !== undefined || WRITTEN.has(name)) return advice;
  // A typed array: its elements are fields of their own, each under its number.
  if (ArrayBuffer.isView(value)) return `a ${name} was given, which JSON writes as an object of numbers; give its bytes in base64, or [...array]`;
  if (Object.keys(value).length > 0) return undefined;
  return `a value of the class ${name} was given, of which JSON keeps nothing; give what is in it`;
}

function refuseLost(path: string, value: object): void {
  const why = lost(value);
  if (why !== undefined) throw invalid(path === "" ? why : `\`${path}\`: ${why}`);
}

/** Refuses what would be lost in a value, by its place there. */
function refuseLostIn(value: unknown): void {
  let found: object | undefined;
  const isLost = (item: unknown): boolean => {
    if (typeof item !== "object" || item === null || lost(item) === undefined) return false;
    found = item;
    return true;
  };
  const path = pathOf(value, isLost);
  if (path === undefined || found === undefined) return;
  refuseLost(path.length <= PATH_CHARS_MAX ? path : `…${path.slice(-PATH_CHARS_MAX)}`, found);
}

/** How much is shown of the place of something. */
const PATH_CHARS_MAX = 200;

/**
 * Whether there is anything in a value of which `JSON.stringify` would leave out what it is about. Every event goes through this:
 * objects as literals make them, and arrays, are looked at no further than their fields. What is nested deeper than anybody writes
 * is looked at while it is written, instead of running out of stack here.
 */
function losesSomething(value: unknown, depth = 0): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (depth > NESTED_MAX) return true;
  if (Array.isArray(value)) return value.some((item) => losesSomething(item, depth + 1));
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    if (hasOwnForm(value)) return false;
    if (isPlainError(value) || lost(value) !== undefined) return true;
  }
  for (const name in value) {
    const item = (value as Record<string, unknown>)[name];
    if (typeof item === "object" && item !== null && losesSomething(item, depth + 1)) return true;
  }
  return false;
}

/** How deep values are looked into before they are written. */
const NESTED_MAX = 500;

/** Of `JSON.stringify`: an error with its name and its message, which it hides; refuses what would be lost. */
function withErrors(key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  refuseLost(key, value);
  return isPlainError(value) ? errorFields(value as Error) : value;
}

/** What is kept of an error: its own fields, its name and its message. */
function errorFields(error: Error): object {
  return { ...error, name: error.name, message: error.message };
}

/** Several JSON values, one after the other, with the length of each. @internal */
export function jsonList(values: readonly unknown[], bytesOf = jsonBytes): { lengths: number[]; data: Uint8Array } {
  return joined(Array.from(listOf(values, "the values"), (value) => bytesOf(value)));
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

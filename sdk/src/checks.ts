import { RunlogError, invalid, messageOf } from "./error.js";

// Arguments are checked before they are used, so that errors name what is wrong.

/** A value as messages show it: any value, also one that refuses to be text. @internal */
export function shown(value: unknown): string {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value.length > 100 ? `${value.slice(0, 100)}…` : value);
    case "bigint":
      return `${value}n`;
    case "object":
      if (value === null) return "null";
      if (classOf(value) === "Promise") return "a promise; await it";
      return Array.isArray(value) ? "a list" : "an object";
    case "function":
      return "a function";
    default:
      return String(value);
  }
}

/** A list, or an error that says what isn't one. @internal */
export function listOf<T>(value: readonly T[], what: string): readonly T[] {
  if (!Array.isArray(value)) throw invalid(`${what} must be an array, not ${shown(value)}`);
  return value as readonly T[];
}

/** What is an object without the fields that anybody gave it. */
const OF_THE_LANGUAGE = new Set(["Map", "Set", "WeakMap", "WeakSet", "Promise", "Error", "Date", "RegExp", "Generator", "AsyncGenerator"]);

/** The name of the language's own class that an object is of, also where another realm made it. @internal */
export function classOf(value: object): string {
  return Object.prototype.toString.call(value).slice("[object ".length, -1);
}

/** The class of what passes for an object with fields and has none; `undefined` of all others. @internal */
export function classWithoutFields(value: object): string | undefined {
  const name = value instanceof Error ? "Error" : classOf(value);
  return OF_THE_LANGUAGE.has(name) ? name : undefined;
}

/** An object, or an error that says what isn't one. @internal */
export function objectOf<T extends object>(value: T, what: string): T {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid(`${what} must be an object, not ${shown(value)}`);
  }
  const name = classWithoutFields(value);
  if (name === "Promise") throw invalid(`${what} is a promise; await it`);
  if (name !== undefined) throw invalid(`${what} must be an object with fields, and ${/^[AE]/.test(name) ? "an" : "a"} ${name} was given`);
  return value;
}

/**
 * The fields of an object, read once: getters, which may fail, are called here. Those of a class would be left out wherever its fields
 * are taken one by one, and pass for what wasn't given: they are refused.
 *
 * @internal
 */
export function fieldsOf<T extends object>(value: T, what: string): T {
  return readable(what, () => {
    refuseGetters(objectOf(value, what), what);
    return { ...value };
  });
}

/** What is read of something that was given; getters of it may fail. @internal */
export function readable<T>(what: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof RunlogError) throw cause;
    throw invalid(`${what} can't be read: ${messageOf(cause)}`, cause);
  }
}

/** Refuses an object that has getters from its class, or fields from its prototype, which JSON leaves out. @internal */
export function refuseGetters(value: object, what: string): void {
  for (let of = Object.getPrototypeOf(value) as object | null; of !== null; ) {
    const above = Object.getPrototypeOf(of) as object | null;
    // What every object has, also those of another realm.
    if (above === null) return;
    const isField = ({ get, enumerable, value }: PropertyDescriptor) => get !== undefined || (enumerable === true && typeof value !== "function");
    const found = Object.entries(Object.getOwnPropertyDescriptors(of)).find(([, descriptor]) => isField(descriptor));
    if (found !== undefined) {
      throw invalid(`${what} has \`${found[0]}\` from its ${found[1].get === undefined ? "prototype" : "class"}, where it isn't looked for; give an object with the fields themselves`);
    }
    of = above;
  }
}

/** Text, or an error that says what isn't. @internal */
export function checkText(value: unknown, what: string): void {
  if (typeof value !== "string") throw invalid(`${what} must be text, not ${shown(value)}`);
}

/** A function, or an error that says what isn't. @internal */
export function checkFunction(value: unknown, what: string): void {
  if (typeof value !== "function") throw invalid(`${what} must be a function, not ${shown(value)}`);
}

/** How many there may be at most, where that is said. @internal */
export function checkLimit(value: number | undefined): void {
  if (value === undefined || value === Infinity || (Number.isSafeInteger(value) && value >= 0)) return;
  throw invalid(`a limit must be a whole number from 0, or Infinity, not ${shown(value)}`);
}

/** Options that have no names but these, where they are looked at here and not in the core. @internal */
export function optionsOf<T extends object>(options: T, names: readonly (keyof T & string)[]): T {
  const given = fieldsOf(options, "the options");
  for (const name of Object.keys(given)) {
    if ((names as readonly string[]).includes(name)) continue;
    throw invalid(`\`${name}\` is not a field that is known here; known are ${names.map((known) => `\`${known}\``).join(", ")}`);
  }
  return given;
}

/** The arguments of a call with the options beside them, of which none may take an argument's place. @internal */
export function withOptions<A extends object, O extends object>(args: A, options: O, what: string): A & O {
  const given = fieldsOf(options, what);
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(args, name)) throw invalid(`\`${name}\` is not a field that is known here: it is given before ${what}`);
  }
  return { ...given, ...args };
}

/**
 * Bytes, or an error that says what isn't: something else than a `Uint8Array`, or one whose memory was given away, which
 * would pass for an empty one.
 *
 * @internal
 */
export function bytesGiven(value: unknown, what: string): Uint8Array {
  // One that only looks so, such as a proxy, has no memory.
  if (!ArrayBuffer.isView(value) || !(value instanceof Uint8Array)) {
    throw invalid(`${what} must be a Uint8Array, not ${shown(value)}`);
  }
  if (isSound(value)) return value;
  throw invalid(`${what} has no memory any more: its buffer was transferred or made smaller`);
}

function isSound(bytes: Uint8Array): boolean {
  if (bytes.length > 0) return true;
  try {
    new Uint8Array(bytes.buffer, bytes.byteOffset, 0);
    return true;
  } catch {
    return false;
  }
}

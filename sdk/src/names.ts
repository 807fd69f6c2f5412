import { objectOf } from "./checks.js";

// Names of the core's JSON, and the names they have here.

/** Gives fields other names; those that aren't named keep theirs, and undefined ones are left out. @internal */
export function renamed(value: object, names: Readonly<Record<string, string>>): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(objectOf(value, "what is given"))) {
    if (field === undefined) continue;
    // A field may have any name: `constructor` and `__proto__` too.
    const renamed = Object.hasOwn(names, name) ? (names[name] as string) : name;
    if (renamed !== "__proto__") result[renamed] = field;
    else Object.defineProperty(result, renamed, { value: field, writable: true, enumerable: true, configurable: true });
  }
  return result;
}

/** Leaves out what the core says isn't there. @internal */
export function withoutNulls(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== null));
}

/** `created_at` to `createdAt`. @internal */
export function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Both directions of the names of a type. @internal */
export interface Names {
  /** From the core's names to those here. */
  readonly here: Readonly<Record<string, string>>;
  /** From the names here to the core's. */
  readonly there: Readonly<Record<string, string>>;
}

/** The names of a type whose fields are in snake_case there; `others` are those that differ in more than that. @internal */
export function namesOf(fields: readonly string[], others: Readonly<Record<string, string>> = {}): Names {
  const here: Record<string, string> = { ...others };
  for (const field of fields) here[field] ??= camelCase(field);
  const there = Object.fromEntries(Object.entries(here).map(([name, own]) => [own, name]));
  return { here, there };
}

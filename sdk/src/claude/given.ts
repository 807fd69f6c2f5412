import { checkText, objectOf, optionsOf, shown } from "../checks.js";
import { invalid } from "../error.js";

// What calls of this folder and of `testing` are given is looked at before anything is done: an agent that is called by
// mistake costs money.

/** Looks at one field, and throws where it isn't as it should be. @internal */
export type Check = (field: unknown, what: string) => void;

/** How each field is looked at, by name. @internal */
export type Checks<T> = { readonly [Name in keyof T]-?: Check };

/** A value, or an error where it is a promise that nobody awaited. @internal */
export function awaited<T>(value: T, what: string): T {
  if (isPromise(value)) throw invalid(`${what} is a promise: await it`);
  return value;
}

/** Whether a value is a promise, also one of another library's. @internal */
export function isPromise(value: unknown): boolean {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

/** An object with no fields but those of `checks`, each as it should be. @internal */
export function fieldsOf<T extends object>(value: T, what: string, checks: Checks<T>): T {
  const names = Object.keys(checks) as (keyof T & string)[];
  const fields = optionsOf(objectOf(awaited(value, what), what), names);
  for (const name of names) checks[name](awaited(fields[name], `\`${name}\``), `\`${name}\``);
  return fields;
}

/** A field that may be left out. @internal */
export const optional = (check: Check): Check => (field, what) => {
  if (field !== undefined) check(field, what);
};

/** A field that is an object. @internal */
export const anObject: Check = (field, what) => void objectOf(field as object, what);

/** A field that is `true` or `false`. @internal */
export const yesOrNo: Check = (field, what) => {
  if (typeof field !== "boolean") throw invalid(`${what} must be true or false, not ${shown(field)}`);
};

/** A field that is text, or a list of messages. @internal */
export const aPrompt: Check = (field, what) => {
  if (!Array.isArray(field)) {
    if (typeof field !== "string") throw invalid(`${what} must be text or a list of messages, not ${shown(field)}`);
    return;
  }
  for (const [index, message] of field.entries()) anObject(message, `${what.slice(0, -1)}[${index}]\``);
};

/** A field that is text. @internal */
export const text: Check = checkText;

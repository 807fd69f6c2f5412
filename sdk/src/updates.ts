/**
 * New values for some fields; `null` takes a value away, and what is left out stays. A field that isn't known is kept as it
 * is given.
 *
 * @typeParam T - What is updated.
 * @typeParam Fixed - Its fields that never change.
 */
export type Updates<T, Fixed extends PropertyKey = never> = { [Field in Exclude<keyof T, Fixed>]?: T[Field] | null | undefined };

/**
 * Options of which some, where they are there, say something: left out, something else would be done, which `undefined` doesn't ask for.
 *
 * @typeParam T - The options.
 * @typeParam Names - Those that aren't `undefined`.
 */
export type Sure<T, Names extends keyof T> = Omit<T, Names> & { [Name in keyof Pick<T, Names>]: Exclude<T[Name], undefined> };

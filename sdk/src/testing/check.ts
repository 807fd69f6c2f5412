import { isObject } from "../claude/query.js";
import type { Schema } from "./schema.js";

/** Where a value isn't as its schema says. @internal */
export interface Misfit {
  /** The path in the value, such as `calls[0].output.text`; empty for the value itself. */
  place: string;
  /** What was found there, and what to do. */
  message: string;
}

/** The first place where a value isn't as a schema says; `undefined` when it is. @internal */
export function check(value: unknown, schema: Schema): Misfit | undefined {
  return walk(value, schema, "", schema);
}

function walk(value: unknown, schema: Schema, place: string, root: Schema): Misfit | undefined {
  if (schema.$ref !== undefined) return walk(value, resolved(schema.$ref, root), place, root);
  const misfit = (found: string): Misfit => {
    return { place, message: `${found}; make it ${schema.description ?? "as the schema says"}` };
  };
  if (schema.type !== undefined && !isOfType(value, schema.type)) return misfit(`is ${shown(value)}`);
  if (schema.const !== undefined && value !== schema.const) return misfit(`is ${shown(value)}`);
  if (schema.enum !== undefined && !schema.enum.includes(value as string)) return misfit(`is ${shown(value)}`);
  if (schema.minimum !== undefined && typeof value === "number" && value < schema.minimum) {
    return misfit(`is ${value}, under ${schema.minimum}`);
  }
  if (Array.isArray(value) && schema.items !== undefined) {
    for (const [index, item] of value.entries()) {
      const found = walk(item, schema.items, `${place}[${index}]`, root);
      if (found !== undefined) return found;
    }
  }
  if (isObject(value)) {
    const found = walkFields(value, schema, place, root);
    if (found !== undefined) return found;
  }
  for (const part of schema.allOf ?? []) {
    const applies = part.if === undefined || walk(value, part.if, place, root) === undefined;
    const found = applies ? walk(value, part.then ?? part, place, root) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

function walkFields(value: object, schema: Schema, place: string, root: Schema): Misfit | undefined {
  const { properties = {}, required = [], additionalProperties } = schema;
  for (const name of required) {
    if (Object.hasOwn(value, name)) continue;
    const what = properties[name]?.description;
    return { place, message: `has no ${JSON.stringify(name)}; add it${what === undefined ? "" : `: ${what}`}` };
  }
  for (const [name, field] of Object.entries(value)) {
    const of = Object.hasOwn(properties, name) ? properties[name] : additionalProperties;
    const found = of && walk(field, of, place === "" ? name : `${place}.${name}`, root);
    if (found !== undefined) return found;
  }
  return undefined;
}

function resolved(reference: string, root: Schema): Schema {
  const found = root.$defs?.[reference.replace("#/$defs/", "")];
  if (found === undefined) throw new Error(`the schema has no ${reference}`);
  return found;
}

function isOfType(value: unknown, type: NonNullable<Schema["type"]>): boolean {
  if (typeof type !== "string") return type.some((one) => isOfType(value, one));
  switch (type) {
    case "object":
      return isObject(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

/** A value as an error tells it. */
function shown(value: unknown): string {
  const json = JSON.stringify(value) ?? String(value);
  return json.length > 60 ? `${json.slice(0, 59)}…` : json;
}

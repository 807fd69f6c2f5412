import type { RawJson } from "./json.js";

/** JSON, or a value that is kept as JSON. */
export type JsonInput = RawJson | object | string | number | boolean | null;

import { shown } from "./checks.js";
import { invalid } from "./error.js";

/** Appends go to the same few streams again and again, and reading an id takes longer than the rest of an append. */
const known = new Map<string, Uint8Array>();
const KNOWN_MAX = 4096;

/** The 16 bytes of a UUID; not to be changed. @internal */
export function uuidBytes(uuid: string): Uint8Array {
  const found = known.get(uuid);
  if (found !== undefined) return found;
  const digits = typeof uuid === "string" ? uuid.replaceAll("-", "") : "";
  if (!/^[0-9a-f]{32}$/i.test(digits)) throw invalid(`not the id of a stream (a UUID): ${shown(uuid)}`);
  const bytes = new Uint8Array(16);
  for (let at = 0; at < 16; at++) bytes[at] = Number.parseInt(digits.slice(2 * at, 2 * at + 2), 16);
  if (known.size >= KNOWN_MAX) known.clear();
  known.set(uuid, bytes);
  return bytes;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** The UUID of 16 bytes. @internal */
export function uuidAt(bytes: Uint8Array, at: number): string {
  let text = "";
  for (let index = 0; index < 16; index++) {
    if (index === 4 || index === 6 || index === 8 || index === 10) text += "-";
    text += HEX[bytes[at + index] as number];
  }
  return text;
}

/** A fresh UUID of version 7: it begins with the time. @internal */
export function newUuid(): string {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  const view = new DataView(bytes.buffer);
  const now = Date.now();
  view.setUint32(0, Math.floor(now / 0x1_0000));
  view.setUint16(4, now % 0x1_0000);
  view.setUint8(6, 0x70 | (view.getUint8(6) & 0x0f));
  view.setUint8(8, 0x80 | (view.getUint8(8) & 0x3f));
  return uuidAt(bytes, 0);
}

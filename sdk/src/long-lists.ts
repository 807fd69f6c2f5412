import { invalid, messageOf } from "./error.js";
import { parseBytes, textOf } from "./json.js";
import { turnOfOthers } from "./turns.js";

/** How many bytes of JSON are read at once: some 3 ms of work. */
const PIECE_BYTES = 512 << 10;
/** Making an object of something takes as long as reading so many bytes. */
const OBJECT_BYTES = 128;

/**
 * The elements of a JSON array in UTF-8. A long one is read in pieces, between which the event loop goes on.
 *
 * @internal
 */
export async function parseList<T>(bytes: Uint8Array): Promise<T[]> {
  const isWhole = bytes[0] === 0x5b && bytes.at(-1) === 0x5d;
  if (bytes.length <= PIECE_BYTES || !isWhole) return parseBytes<T[]>(bytes);
  const list: T[] = [];
  for (let at = 1; at < bytes.length; await turnOfOthers()) {
    const { items, end } = firstElements<T>(bytes, at);
    for (const item of items) list.push(item);
    at = end + 1;
  }
  return list;
}

/**
 * The elements of an array from where one begins, and where they end: as many as have the size of a piece.
 *
 * Where elements end is tried, instead of looking at each character: the text before a comma between two objects or two arrays is
 * parsed as an array.
 * If that comma is one of text, or of something nested, the array isn't whole there, and a place twice as far away is tried.
 */
function firstElements<T>(bytes: Uint8Array, from: number): { items: T[]; end: number } {
  for (let size = PIECE_BYTES; ; size *= 2) {
    const end = commaAfter(bytes, from + size);
    try {
      return { items: JSON.parse(`[${textOf(bytes.subarray(from, end))}]`) as T[], end };
    } catch (cause) {
      if (end === bytes.length - 1) throw invalid(`the text isn't JSON: ${messageOf(cause)}`, cause);
    }
  }
}

/** The next comma between two objects or two arrays, or the bracket at the end. */
function commaAfter(bytes: Uint8Array, from: number): number {
  const comma = 0x2c;
  for (let at = bytes.indexOf(comma, from); at > 0; at = bytes.indexOf(comma, at + 1)) {
    const [before, after] = [bytes[at - 1], bytes[at + 1]];
    const isBetween = (before === 0x7d && after === 0x7b) || (before === 0x5d && after === 0x5b);
    if (isBetween) return at;
  }
  return bytes.length - 1;
}

/**
 * What is made of each of many things of so many bytes, in pieces, between which the event loop goes on.
 *
 * @internal
 */
export async function inPieces<T, R>(things: readonly T[], bytesOf: (thing: T) => number, make: (thing: T) => R): Promise<R[]> {
  const made: R[] = [];
  let bytes = 0;
  for (const thing of things) {
    if (bytes >= PIECE_BYTES) {
      bytes = 0;
      await turnOfOthers();
    }
    bytes += bytesOf(thing) + OBJECT_BYTES;
    made.push(make(thing));
  }
  return made;
}

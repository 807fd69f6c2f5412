// What is appended and read: events of 1 KiB, as objects, as text and as bytes.

import { EVENT_BYTES, EVENTS, objects, texts } from "./events.mjs";

export { EVENTS, objects, texts };

export const bytes = texts.map((text) => Buffer.from(text));

if (bytes.some((it) => it.length !== EVENT_BYTES)) throw new Error("an event of the workload isn't 1 KiB");

/** The streams that are appended to in turns. */
export const STREAMS = 100;

const ids = Array.from({ length: STREAMS + 1 }, (_, index) => `00000000-0000-7000-8000-${String(index).padStart(12, "0")}`);

/** The id of a stream, 1 to STREAMS, as a caller has it at hand. */
export const streamId = (index) => ids[index];

/** How many events a stream that is read has, and how many such streams there are. */
export const READ_EVENTS = 1000;
export const READ_STREAMS = 100;

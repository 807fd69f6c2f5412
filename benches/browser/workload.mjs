// How much is recorded and read.

/** The streams that are appended to in turns, and how many events each has where they are read. */
export const STREAMS = 100;
export const STREAM_EVENTS = 1000;

export const streamId = (index) => `00000000-0000-7000-8000-${String(index).padStart(12, "0")}`;

/** What a fold looks for. */
export const FILTERED_PATH = "src/module-5/file.ts";

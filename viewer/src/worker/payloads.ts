import { parseExactOrNone } from "./exact.js";
import type { Source, SourceRecord } from "./source.js";
import { isDifference, wholeState } from "./states.js";

const utf8 = new TextDecoder();

export interface Loaded {
  /** A state of a flow has the whole text, also where it is saved as a difference. */
  record: SourceRecord;
  /** The payload as JSON; undefined when it is none. */
  json: unknown;
}

/** A state that can't be read any more. */
const NOTHING = new Uint8Array();

/** So many bytes of payloads are kept. */
const KEPT_BYTES = 32 << 20;
/** So many values are kept that were read of payloads: the input of a call, as JSON and as people read it, and its output. */
const VALUES_MAX = 3;

/** Payloads that were looked at, those of late kept. */
export class Payloads {
  readonly #kept = new Map<number, Loaded>();
  readonly #values = new Map<string, Promise<unknown>>();
  #bytes = 0;

  /** @param snapshotAt - The position of the newest snapshot at a sequence of a stream, or of one in its lane, before a position. */
  constructor(
    private readonly source: Source,
    private readonly snapshotAt: (stream: string, sequence: number, before: number) => number | undefined = () => undefined,
  ) {}

  /** When a record was written, which isn't when it happened; undefined where only the time of its import is known. */
  writtenAt(record: SourceRecord): number | undefined {
    return this.source.isImported ? undefined : record.timeMs;
  }

  async at(position: number): Promise<Loaded | undefined> {
    const kept = this.#kept.get(position);
    if (kept !== undefined) {
      this.#kept.delete(position);
      this.#kept.set(position, kept);
      return kept;
    }
    const saved = await this.source.record(position);
    if (saved === undefined) return undefined;
    const record = isDifference(saved.meta) && !saved.redacted ? await this.#whole(saved) : saved;
    const loaded = { record, json: record.redacted ? undefined : parseExactOrNone(utf8.decode(record.payload)) };
    this.#keep(position, loaded);
    return loaded;
  }

  async #whole(saved: SourceRecord): Promise<SourceRecord> {
    let before: number | undefined = saved.position;
    const text = await wholeState(saved, async (sequence) => {
      // The runs of an agent are in one lane, and each has sequences of its own.
      while ((before = this.snapshotAt(saved.stream, sequence, before as number)) !== undefined) {
        const earlier = await this.source.record(before);
        if (earlier?.stream === saved.stream) return earlier.redacted ? undefined : earlier;
      }
      return undefined;
    });
    const { position, sequence, timeMs, kind, redacted, meta, stream } = saved;
    return { position, sequence, timeMs, kind, redacted, meta, stream, payload: text ?? NOTHING };
  }

  /** A value that is read of payloads. A large one is asked for piece by piece, and takes long to be read anew for each. */
  value(name: string, read: () => Promise<unknown>): Promise<unknown> {
    const kept = this.#values.get(name) ?? read();
    this.#values.delete(name);
    this.#values.set(name, kept);
    for (const oldest of this.#values.keys()) {
      if (this.#values.size <= VALUES_MAX) break;
      this.#values.delete(oldest);
    }
    // What can't be read may be read later.
    kept.catch(() => this.#values.delete(name));
    return kept;
  }

  #keep(position: number, loaded: Loaded): void {
    this.#kept.set(position, loaded);
    this.#bytes += loaded.record.payload.length;
    for (const [oldest, { record }] of this.#kept) {
      if (this.#bytes <= KEPT_BYTES || oldest === position) break;
      this.#kept.delete(oldest);
      this.#bytes -= record.payload.length;
    }
  }
}

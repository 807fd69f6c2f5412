import { RunlogError } from "../error.js";
import { answered } from "./answered.js";
import { crc32 } from "./crc32.js";
import { NO_FILES_HERE, fileError } from "./files.js";

/**
 * One file of the pool: its head, which says what file of the store it is, and its contents behind it.
 *
 * A head has two slots, written in turns: a crash in the middle of writing one leaves the other. Of the slots of a file the
 * valid one with the higher generation counts, and so does, of two files with one name, the one with the higher generation:
 * a rename onto an existing name is one write.
 *
 * @internal
 */

const MAGIC = 0x52_4c_46_31; // "RLF1"
export const SLOT_BYTES = 512;
/** Where the contents begin: behind two slots, at the beginning of a block of the device. */
export const HEAD_BYTES = 4096;
/** Magic, CRC of what follows, generation, length of the name. */
const FIXED_BYTES = 4 + 4 + 8 + 2;

export interface Pooled {
  readonly handle: FileSystemSyncAccessHandle;
  /** Empty for a spare one. */
  name: string;
  generation: number;
  /** Which slot is written next. */
  slot: 0 | 1;
  /** How many times it is open in the core. */
  users: number;
  isHeadDirty: boolean;
}

/** Gives a spare file's room back. It may fail on a full disk, and then is tried again when the file is taken. */
export function cut(file: Pooled): void {
  try {
    file.handle.truncate(HEAD_BYTES);
  } catch {
    // As above.
  }
}

export function noRoom(): DOMException {
  return fileError("QuotaExceededError", "the browser gives no more room");
}

export function writeAll(handle: FileSystemSyncAccessHandle, offset: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) {
    const written = handle.write(bytes.subarray(done), { at: offset + done });
    // A private window of Chromium's has no error where the quota is full: it says that 2³² − 8 bytes were written.
    if (written <= 0 || written > bytes.length - done) throw noRoom();
    done += written;
  }
}

export function slotOf(name: string, generation: number): Uint8Array {
  const bytes = new Uint8Array(SLOT_BYTES);
  const encoded = new TextEncoder().encode(name);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC);
  view.setBigUint64(8, BigInt(generation));
  view.setUint16(16, encoded.length);
  bytes.set(encoded, FIXED_BYTES);
  view.setUint32(4, crc32(bytes.subarray(8)));
  return bytes;
}

/** What a slot says; `undefined` when it was never written, or not to its end. */
function readSlot(bytes: Uint8Array): { name: string; generation: number } | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < SLOT_BYTES || view.getUint32(0) !== MAGIC || view.getUint32(4) !== crc32(bytes.subarray(8))) return undefined;
  const name = new TextDecoder().decode(bytes.subarray(FIXED_BYTES, FIXED_BYTES + view.getUint16(16)));
  return { name, generation: Number(view.getBigUint64(8)) };
}

/** Opens a file of the pool; `undefined` when it isn't there and isn't to be made. */
async function openPooled(folder: FileSystemDirectoryHandle, name: string, create: boolean): Promise<Pooled | undefined> {
  const open = async () => {
    const file = await folder.getFileHandle(name, { create });
    if (file.createSyncAccessHandle === undefined) throw new RunlogError("io", NO_FILES_HERE);
    // Readers have it open too; that there is one writer is the lock's business.
    return file.createSyncAccessHandle({ mode: "readwrite-unsafe" });
  };
  try {
    const handle = await answered(`to open file ${name} of the store`, open, (late) => late.close());
    return { handle, users: 0, isHeadDirty: false, ...headOf(handle) };
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotFoundError" && !create) return undefined;
    throw error;
  }
}

/**
 * How a pool stands, between the slots and the contents of its first file: for readers, who see by one short read whether to look
 * again. It is never flushed; the next writer says it anew.
 */
const STATE_AT = 2 * SLOT_BYTES;
const STATE_BYTES = 12;

export interface PoolState {
  /** Of the last rename. */
  generation: number;
  /** Files with higher numbers are spare ones, if they are there. */
  files: number;
}

export function writeState(first: Pooled, { generation, files }: PoolState): void {
  const view = new DataView(new ArrayBuffer(STATE_BYTES));
  view.setBigUint64(0, BigInt(generation));
  view.setUint32(8, files);
  writeAll(first.handle, STATE_AT, new Uint8Array(view.buffer));
}

export function stateOf(first: Pooled): PoolState {
  const view = new DataView(new ArrayBuffer(STATE_BYTES));
  first.handle.read(new Uint8Array(view.buffer), { at: STATE_AT });
  return { generation: Number(view.getBigUint64(0)), files: view.getUint32(8) };
}

/** Opening one takes the browser's processes a few rounds, whatever the others do. */
const FILES_AT_ONCE = 16;

/** Opens the files of a pool that aren't open yet. */
export async function addTo(pool: Pooled[], folder: FileSystemDirectoryHandle, isOpen: () => boolean): Promise<void> {
  // Mostly there is none.
  if ((await addSome(pool, folder, isOpen, 1, false)) === 0) return;
  while ((await addSome(pool, folder, isOpen, FILES_AT_ONCE, false)) === FILES_AT_ONCE);
}

/** Opens the next so many files of a pool, at the same time; how many there were, or were made. */
export async function addSome(pool: Pooled[], folder: FileSystemDirectoryHandle, isOpen: () => boolean, count: number, create: boolean): Promise<number> {
  const first = pool.length;
  const opening = Array.from({ length: count }, (_, at) => openPooled(folder, String(first + at), create));
  const opened = await Promise.allSettled(opening);
  // A file has its place in the pool by its number: what comes after one that couldn't be opened stays closed.
  const end = opened.findIndex((one) => one.status === "rejected" || one.value === undefined || !isOpen());
  const added = end === -1 ? count : end;
  opened.forEach((one, at) => {
    if (one.status === "rejected" || one.value === undefined) return;
    if (at < added) pool.push(one.value);
    else one.value.handle.close();
  });
  const refused = opened[added];
  if (refused?.status === "rejected") throw refused.reason;
  return added;
}

export function closeAll(pool: Pooled[]): void {
  for (const file of pool.splice(0)) file.handle.close();
}

type Head = Pick<Pooled, "name" | "generation" | "slot">;

export function contentsOf({ handle }: Pooled): Uint8Array {
  const bytes = new Uint8Array(Math.max(handle.getSize() - HEAD_BYTES, 0));
  return bytes.subarray(0, handle.read(bytes, { at: HEAD_BYTES }));
}

export function headOf(handle: FileSystemSyncAccessHandle): Head {
  const head = new Uint8Array(2 * SLOT_BYTES);
  handle.read(head, { at: 0 });
  return headIn(head);
}

/** What the slots at the beginning of a file say. */
export function headIn(head: Uint8Array): Head {
  const slots = [readSlot(head.subarray(0, SLOT_BYTES)), readSlot(head.subarray(SLOT_BYTES))] as const;
  const newest = (slots[0]?.generation ?? -1) >= (slots[1]?.generation ?? -1) ? 0 : 1;
  const { name, generation } = slots[newest] ?? { name: "", generation: 0 };
  return { name, generation, slot: newest === 0 ? 1 : 0 };
}

import type { GivenFile } from "../worker/source.js";

/** Files that were picked, with their paths where a folder was. */
export function picked(files: FileList): GivenFile[] {
  return Array.from(files, (file) => ({ name: file.webkitRelativePath || file.name, blob: file }));
}

/** Files that were dropped, those inside of folders too. */
export async function dropped(transfer: DataTransfer): Promise<GivenFile[]> {
  const entries = Array.from(transfer.items, (item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (entries.length === 0) return picked(transfer.files);
  const files: GivenFile[] = [];
  for (const entry of entries) await gather(entry, files);
  return files;
}

async function gather(entry: FileSystemEntry, files: GivenFile[]): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    files.push({ name: entry.fullPath.replace(/^\//, ""), blob: file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // It gives at most a hundred at a time.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const inner of some) await gather(inner, files);
  }
}

/** What a choice of files is called. */
export function nameOf(files: GivenFile[]): string {
  const first = files[0]?.name ?? "";
  if (first.includes("/")) return first.slice(0, first.indexOf("/"));
  return files.length === 1 ? first : `${first} and ${files.length - 1} more`;
}

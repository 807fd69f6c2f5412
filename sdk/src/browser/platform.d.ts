// What browsers have of their own file system in workers, which TypeScript's `dom` leaves out.

interface FileSystemSyncAccessHandle {
  read(bytes: ArrayBufferView, options?: { at?: number }): number;
  write(bytes: ArrayBufferView, options?: { at?: number }): number;
  flush(): void;
  truncate(bytes: number): void;
  getSize(): number;
  close(): void;
}

interface FileSystemFileHandle {
  createSyncAccessHandle?(options?: { mode?: "readwrite" | "read-only" | "readwrite-unsafe" }): Promise<FileSystemSyncAccessHandle>;
}

interface FileSystemDirectoryHandle {
  keys(): AsyncIterableIterator<string>;
  values(): AsyncIterableIterator<FileSystemFileHandle | FileSystemDirectoryHandle>;
}

declare class FileReaderSync {
  readAsArrayBuffer(blob: Blob): ArrayBuffer;
}

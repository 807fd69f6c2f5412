declare module "vitest/browser" {
  interface BrowserCommands {
    storeOfNode(events: number): Promise<{ files: Record<string, string>; answers: unknown }>;
    /** Has the browser give this origin no more than that; as much as ever when left out. */
    setQuota(bytes?: number): Promise<void>;
    answersOfNode(files: Record<string, string>): Promise<{ sound: boolean; answers: unknown }>;
    folderOfNode(events: number, segmentBytesMax?: number): Promise<{ folder: string; answers: unknown; bytes: number }>;
    /** A store with a log of so many bytes, in messages of eight kibibytes. */
    largeFolderOfNode(bytes: number): Promise<{ folder: string; records: number }>;
    removeFolder(folder: string): Promise<void>;
    changeFolder(folder: string, change: { longer?: string; touch?: string; cut?: string; bytes?: number; copyTo?: string }): Promise<void>;
    chooseFolder(selector: string, folder: string): Promise<void>;
    dropFolders(selector: string, folders: string[]): Promise<void>;
    serveFolder(folder: string): Promise<string>;
    endServer(url: string): Promise<{ requests: number; bytes: number }>;
    breakServer(url: string, isBroken: boolean): Promise<void>;
    countsOf(url: string): Promise<{ requests: number; bytes: number }>;
    openPage(url: string): Promise<void>;
    closePage(url: string): Promise<void>;
    exportOfNode(folder: string): Promise<{ text: string; answers: unknown }>;
  }
}

export {};

declare module "vitest/browser" {
  interface BrowserCommands {
    storeOfNode(events: number): Promise<{ files: Record<string, string>; answers: unknown }>;
    /** Has the browser give this origin no more than that; as much as ever when left out. */
    setQuota(bytes?: number): Promise<void>;
    answersOfNode(files: Record<string, string>): Promise<{ sound: boolean; answers: unknown }>;
  }
}

export {};

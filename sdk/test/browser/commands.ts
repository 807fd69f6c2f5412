declare module "vitest/browser" {
  interface BrowserCommands {
    storeOfNode(events: number): Promise<{ files: Record<string, string>; answers: unknown }>;
    answersOfNode(files: Record<string, string>): Promise<{ sound: boolean; answers: unknown }>;
  }
}

export {};

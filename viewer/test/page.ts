import type { Browser, BrowserContextOptions, Page } from "playwright";
import type { Store } from "runlog";
import { afterAll, beforeAll } from "vitest";

import { launch, serveApp } from "./serve.mjs";

/** What went wrong in a page, beside what the test looks at: errors, and what the policy refused. */
export interface Watched {
  page: Page;
  told: string[];
  close(): Promise<void>;
}

/**
 * How many times slower than this machine the pages run, and what they ask of their worker is asked later, by up to as
 * many times 20 ms: what a test reads once, before it is all there, is found with `RUNLOG_SLOW=20`, and otherwise once in
 * hundreds, on a machine that has other work. A test that reads a page waits for what it expects, with `expect.poll`.
 */
const slowed = Number(process.env["RUNLOG_SLOW"] ?? 1);

/** The built app, served, and a browser for the tests of a file. */
export function viewer() {
  let browser: Browser | undefined;
  let served: Awaited<ReturnType<typeof serveApp>> | undefined;
  beforeAll(async () => {
    served = await serveApp();
    browser = await launch();
  });
  afterAll(async () => {
    await browser?.close();
    served?.close();
  });
  return {
    get url(): string {
      return served?.url ?? "";
    },
    /** A page at an address, by default that of the app with its example. */
    async open(path = "?example", options: BrowserContextOptions = {}): Promise<Watched> {
      const context = await (browser as Browser).newContext({ viewport: { width: 1440, height: 900 }, ...options });
      const page = await context.newPage();
      if (slowed > 1) await slow(page);
      const told: string[] = [];
      page.on("pageerror", (error) => told.push(`error: ${error.message}`));
      page.on("console", (message) => {
        if (message.type() === "error" || message.type() === "warning") told.push(message.text());
      });
      page.on("dialog", (dialog) => {
        told.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
      await page.addInitScript(() => {
        addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
      });
      await page.goto(path.includes(":") ? path : `${served?.url}${path}`);
      return { page, told, close: () => context.close() };
    },
  };
}

async function slow(page: Page): Promise<void> {
  await (await page.context().newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: slowed });
  await page.addInitScript((most) => {
    globalThis.Worker = class extends Worker {
      /** When the message before is sent: none overtakes another. */
      private sent = 0;
      override postMessage(message: unknown, given?: Transferable[] | StructuredSerializeOptions): void {
        const now = performance.now();
        this.sent = Math.max(this.sent, now + Math.random() * most);
        setTimeout(() => super.postMessage(message, given as Transferable[]), this.sent - now);
      }
    };
  }, slowed * 20);
}

/** The conversation's lines, as text. */
export const lines = (page: Page) => page.locator('.conversation [role="listitem"]').allInnerTexts();

/** What a store has, as a file that can be picked. */
export async function exportOf(store: Store) {
  const pieces: Uint8Array[] = [];
  for await (const piece of store.export()) pieces.push(piece);
  await store.close();
  return { name: "export.jsonl", text: Buffer.concat(pieces) };
}

/** Puts files into the field for files, as a person who picks them does. */
export async function pick(page: Page, files: { name: string; text: string | Buffer }[]): Promise<void> {
  const input = page.getByLabel("Files of a store, a bundle or a transcript");
  await page.getByRole("button", { name: "or choose files" }).isEnabled();
  await page.waitForFunction(() => !document.querySelector<HTMLButtonElement>(".way.drop button")?.disabled);
  await input.setInputFiles(files.map(({ name, text }) => ({ name, mimeType: "application/octet-stream", buffer: Buffer.from(text) })));
}

/** Drops a file on the page. */
export const dropOn = (page: Page, name: string, text: string) =>
  page.evaluate(
    ([name, text]) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([text as string], name as string));
      dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    },
    [name, text],
  );

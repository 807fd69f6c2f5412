import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import type { Page } from "playwright";

const source = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** What axe finds wrong in a page: rule and place. It is put into the page by the browser's own console, past its policy. */
export default async function violations(page: Page): Promise<string[]> {
  await page.evaluate(await readFile(source, "utf8"));
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<{ violations: { id: string; nodes: { html: string; failureSummary?: string }[] }[] }> } };
    const { violations } = await axe.run();
    return violations.flatMap((rule) => rule.nodes.slice(0, 3).map((node) => `${rule.id}: ${node.html.slice(0, 160)} ${node.failureSummary ?? ""}`));
  });
}

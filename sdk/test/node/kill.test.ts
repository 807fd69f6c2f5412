import { open } from "#runlog";
import { expect, test } from "vitest";

import { freshFolder } from "../places.node.js";
import { start } from "./child.js";

/** How often a process is killed; 100 times in a long run, or `RUNLOG_KILLS` times. */
const KILLS = Number(process.env["RUNLOG_KILLS"] ?? (process.env["RUNLOG_TORTURE"] === undefined ? 6 : 100));

test(`every event whose append was acknowledged is there after a kill, ${KILLS} times out of ${KILLS}`, async () => {
  const path = await freshFolder();
  const store = await open(path);
  const { instance } = await store.startSession({}, "agent");
  await store.close();

  let most = 0;
  for (let round = 0; round < KILLS; round++) {
    const child = start("appender.mjs", [path, instance.id]);
    while (!child.said().includes("ready\n")) await soon(2);
    // At another moment each time, early ones among them.
    await soon(Math.random() * (round % 2 ? 30 : 250));
    // At least one of them in the middle of its work, however slow the machine is.
    if (round === KILLS - 1) while (!/ready\n\d+\n/.test(child.said())) await soon(2);
    child.process.kill("SIGKILL");
    const { signal, stdout, stderr } = await child.ended;
    expect({ signal, stderr }).toEqual({ signal: "SIGKILL", stderr: "" });
    // The last line may be cut off in the middle of a number.
    const lines = stdout.slice(0, stdout.lastIndexOf("\n")).split("\n").slice(1).map(Number);
    const acknowledged = lines.reduce((last, sequence) => Math.max(last, sequence), 0);
    most = Math.max(most, acknowledged);

    const again = await open(path);
    const context = await again.context(instance.id);
    const last = await context.getLastSequence();
    expect(last).toBeGreaterThanOrEqual(most);
    // Whole, in order, and nothing that was never appended.
    let sequence = Math.max(1, last - 5000);
    for await (const event of context.events({ from: sequence })) {
      expect(event.json).toBe(`{"role":"user","content":"event ${sequence}"}`);
      sequence += 1;
    }
    expect(sequence).toBe(last + 1);
    expect((await again.verify()).sound).toBe(true);
    await again.close();
  }
  expect(most).toBeGreaterThan(0);
}, 600_000);

function soon(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

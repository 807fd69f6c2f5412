import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { expect, test } from "vitest";

const folder = fileURLToPath(new URL("../../../examples/", import.meta.url));

/** What each example says, in short. */
const SAYS: Record<string, RegExp[]> = {
  "agent.mjs": [/^completed after 4 steps: The loop ends/, /step 2: read_file\(.*\) error/],
  "chat-server.mjs": [/^hello! there! $/m, /^4 messages; the last request was interrupted$/m],
  "crash-and-resume.mjs": [/^the run is paused at step \d+: orphaned$/m, /in order: true$/m, /^went on with step \d+$/m],
  "follow-live.mjs": [/^saw 1: user: Count to three\.\n(saw .*\n)*saw 5: assistant: Done\.$/m],
  "fork-and-compare.mjs": [/^the first 3 messages are the same$/m, /^\+ user: Nice!$/m],
  "sub-agents.mjs": [/^98 read, 1 paused, 1 failed$/m, /^100 runs below the lead$/m, /^resumed: read after all$/m],
};

test.each(Object.entries(SAYS))("the example %s runs, and says what it should", async (file, says) => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [`${folder}${file}`], { timeout: 60_000 });
  expect(stderr).toBe("");
  for (const line of says) expect(stdout).toMatch(line);
});

test("every example is told of and tried", () => {
  const files = readdirSync(folder).filter((file) => file.endsWith(".mjs"));
  expect(files.sort()).toEqual(Object.keys(SAYS).sort());
  const index = readFileSync(`${folder}README.md`, "utf8");
  for (const file of files) expect(index).toContain(`(${file})`);
});

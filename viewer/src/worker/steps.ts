// The steps of an agent: what each began with, how long it took, and what was called in it.

import type { StepRow } from "../protocol.js";
import type { Family } from "./family.js";
import type { LogIndex } from "./index.js";
import { Kind } from "./kinds.js";
import type { Lane } from "./model.js";

/** Of the names of tools that a step called, about so much is shown. */
const TEXT_LENGTH = 120;

/** The steps of a lane as it is now. */
export function stepsOf(index: LogIndex, family: Family, lane: Lane): StepRow[] {
  const { rows } = index;
  const steps: StepRow[] = [];
  let last: StepRow | undefined;
  for (const entry of lane.alive) {
    const row = lane.entries.at(entry);
    const step = rows.step.at(row);
    if (step < 0) continue;
    if (last === undefined || last.step !== step) {
      last = { step, row, rank: family.rank[row] as number, position: rows.position.at(row), time: rows.time.at(row), durationMs: 0, messages: 0, calls: 0, errors: 0, text: "" };
      steps.push(last);
    }
    last.durationMs = rows.time.at(row) - last.time;
    if (rows.kind.at(row) === Kind.ToolCall) {
      last.calls += 1;
      const tool = index.tools[rows.tool.at(row)] ?? "";
      if (last.text.length < TEXT_LENGTH) last.text += (last.text === "" ? "" : ", ") + tool;
      if (index.answerOf(row, lane)?.isError === true) last.errors += 1;
    } else last.messages += 1;
  }
  return steps;
}

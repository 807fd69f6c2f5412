/// <reference types="svelte" />
import { expect, test, vi } from "vitest";

test("a notice that is said again, and one that was said between, stay for their whole time", async () => {
  vi.stubGlobal("$state", (value: unknown) => value);
  vi.useFakeTimers();
  const { messages } = await import("../src/page/messages.svelte.js");
  messages.say("before");
  vi.advanceTimersByTime(1500);
  messages.say("after");
  vi.advanceTimersByTime(500);
  messages.say("before");
  vi.advanceTimersByTime(2000);
  expect(messages.notice).toBe("before");
  vi.advanceTimersByTime(1000);
  expect(messages.notice).toBeUndefined();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

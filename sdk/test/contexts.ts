// What providers take as a conversation: a validator for OpenAI's chat completions, and one for Anthropic's messages.

type Message = Record<string, unknown>;
type Part = Record<string, unknown>;

/** Which calls may still be open at the end: those of a run that is at work, or was stopped. */
export interface Tail {
  open?: boolean;
}

/** What is wrong with messages as OpenAI's chat completions take them; `undefined` when nothing is. */
export function wrongForOpenAi(messages: readonly Message[], { open = false }: Tail = {}): string | undefined {
  let waiting = new Set<unknown>();
  for (const [index, message] of messages.entries()) {
    if (message["role"] === "tool") {
      if (!waiting.delete(message["tool_call_id"])) return `message ${index} is a result of no call that is open`;
      continue;
    }
    if (waiting.size > 0) return `message ${index} stands between calls and their results`;
    const calls = (message["tool_calls"] ?? []) as Part[];
    if (calls.length > 0 && message["role"] !== "assistant") return `message ${index} is no assistant's, and has calls`;
    if (message["content"] == null && calls.length === 0) return `message ${index} says nothing`;
    waiting = new Set(calls.map((call) => call["id"]));
    if (waiting.size < calls.length) return `message ${index} has two calls of one id`;
  }
  return waiting.size > 0 && !open ? `${waiting.size} calls have no result` : undefined;
}

/** What is wrong with messages as Anthropic takes them, which puts messages of one role behind one another together. */
export function wrongForAnthropic(messages: readonly Message[], { open = false }: Tail = {}): string | undefined {
  const turns: { role: unknown; parts: Part[] }[] = [];
  for (const { role, content } of messages) {
    const parts: Part[] = typeof content === "string" ? [{ type: "text", text: content }] : ((content ?? []) as Part[]);
    if (role !== "user" && role !== "assistant") return `a message of role ${String(role)}`;
    const last = turns.at(-1);
    if (last?.role === role) last.parts.push(...parts);
    else turns.push({ role, parts: [...parts] });
  }
  let waiting = new Set<unknown>();
  for (const [index, { role, parts }] of turns.entries()) {
    if (parts.length === 0) return `turn ${index} says nothing`;
    let isBehind = false;
    for (const part of parts) {
      if (part["type"] !== "tool_result") {
        isBehind = true;
        if (waiting.size > 0) return `turn ${index} says something before the results of calls`;
        continue;
      }
      if (role !== "user") return `turn ${index} is no user's, and has results`;
      if (isBehind) return `turn ${index} has a result behind something else`;
      if (!waiting.delete(part["tool_use_id"])) return `turn ${index} has a result of no call that is open`;
    }
    if (waiting.size > 0 && !(open && index === turns.length - 1)) return `turn ${index} leaves ${waiting.size} calls without a result`;
    if (role === "assistant") {
      const calls = parts.filter((part) => part["type"] === "tool_use");
      waiting = new Set(calls.map((call) => call["id"]));
      if (waiting.size < calls.length) return `turn ${index} has two calls of one id`;
    }
  }
  return waiting.size > 0 && !open ? `${waiting.size} calls have no result` : undefined;
}

/** Numbers from 0 to below 1 that a seed makes again. */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

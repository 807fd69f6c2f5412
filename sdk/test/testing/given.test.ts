import { openInMemory } from "#runlog";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type QueryFn, RunlogError, createClaudeNode, createMockQuery, loadFixtures, recordFixtures } from "../../src/testing/index.js";
import { failure } from "../code.js";
import { success, telling } from "./claude.js";

// What is given wrong must not call an agent, which costs money, where a test meant to replace it.

type Wrong = [given: unknown, said: string];

/** What a call says that refuses what it is given, at once. */
function refusal(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    expect(error).toBeInstanceOf(RunlogError);
    expect((error as RunlogError).code).toBe("invalid_input");
    return (error as RunlogError).message;
  }
  throw new Error("it was taken");
}

const NODE_OPTIONS = "`queryFn`, `options`, `resumeWith`, `now`";

test.each<Wrong>([
  [{ queryFunction: telling() }, `\`queryFunction\` is not a field that is known here; known are ${NODE_OPTIONS}`],
  [{ queryFn: telling(), resumWith: "resume" }, `\`resumWith\` is not a field that is known here; known are ${NODE_OPTIONS}`],
  [{ maxTurns: 3 }, `\`maxTurns\` is not a field that is known here; known are ${NODE_OPTIONS}`],
  [{ queryFn: 5 }, "`queryFn` must be a function, not 5"],
  [{ queryFn: null }, "`queryFn` must be a function, not null"],
  [{ queryFn: Promise.resolve(telling()) }, "`queryFn` is a promise: await it"],
  [{ options: "fast" }, '`options` must be an object, not "fast"'],
  [{ options: [] }, "`options` must be an object, not a list"],
  [{ resumeWith: "session" }, '`resumeWith` must be "sessionId" or "resume", not "session"'],
  [{ now: 7 }, "`now` must be a function, not 7"],
  [telling(), "what createClaudeNode is given must be an object, not a function"],
  [null, "what createClaudeNode is given must be an object, not null"],
  [Promise.resolve({}), "what createClaudeNode is given is a promise: await it"],
])("createClaudeNode(%o) is refused when it is called", (given, said) => {
  expect(refusal(() => createClaudeNode(given as never))).toBe(said);
});

test("what may be left out may be undefined too", () => {
  createClaudeNode();
  createClaudeNode({ queryFn: undefined, options: undefined, resumeWith: undefined, now: undefined });
});

const one = { input: { prompt: "x" }, output: { text: "y" }, events: [] };

test.each<Wrong>([
  [undefined, "what createMockQuery is given must be an object, not undefined"],
  [{}, "`fixtures` must be an object, not undefined: what loadFixtures gives"],
  [{ fixtures: "a/path" }, '`fixtures` must be an object, not "a/path": what loadFixtures gives'],
  [{ fixtures: 5 }, "`fixtures` must be an object, not 5: what loadFixtures gives"],
  [{ fixtures: [] }, "`fixtures` must be an object, not a list: what loadFixtures gives"],
  [{ fixtures: Promise.resolve({}) }, "`fixtures` is a promise: await it"],
  [{ fixture: {} }, '`fixture` is not a field that is known here; known are `fixtures`, `callsMade`, `strict`'],
  [{ fixtures: { calls: [one] } }, '`fixtures` isn\'t right: calls is [{"input":'],
  [{ fixtures: { n: {} } }, '`fixtures` isn\'t right: n has no "calls"; add it'],
  [{ fixtures: { n: { calls: [{ ...one, output: {} }] } } }, '`fixtures` isn\'t right: n.calls[0].output has no "text"; add it'],
  [{ fixtures: {}, strict: "yes" }, '`strict` must be true or false, not "yes"'],
  [{ fixtures: {}, callsMade: 1 }, "`callsMade` must be an object, not 1"],
  [{ fixtures: {}, callsMade: { n: -1 } }, "`callsMade.n` must be a whole number from 0, not -1"],
  [{ fixtures: {}, callsMade: { n: "1" } }, '`callsMade.n` must be a whole number from 0, not "1"'],
])("createMockQuery(%o) is refused when it is called", (given, said) => {
  expect(refusal(() => createMockQuery(given as never))).toContain(said);
});

test.each<Wrong>([
  [undefined, "what a query is called with must be an object, not undefined"],
  ["Plan.", 'what a query is called with must be an object, not "Plan."'],
])("a mock query that is called with %o says so", async (given, said) => {
  const query = createMockQuery({ fixtures: { n: { calls: [one] } } });
  expect((await failure(query(given as never).next(), "invalid_input")).message).toBe(said);
});

test("fixtures that are recorded, and have more than is looked at, are taken", () => {
  createMockQuery({ fixtures: { n: { calls: [{ ...one, note: 1 } as never] } }, callsMade: { n: 1, another: 0 }, strict: undefined });
});

test.each<Wrong>([
  [[5, { output: "x" }], "what recordFixtures wraps must be a function, not 5"],
  [[undefined, { output: "x" }], "what recordFixtures wraps must be a function, not undefined"],
  [[Promise.resolve(telling()), { output: "x" }], "what recordFixtures wraps is a promise: await it"],
  [[telling(), "x"], 'what recordFixtures is given beside it must be an object, not "x"'],
  [[telling(), { outptu: "x" }], '`outptu` is not a field that is known here; known are `output`, `nodeId`, `append`, `redact`'],
  [[telling(), { output: 5 }], "`output` must be text, not 5"],
  [[telling(), { output: "x", nodeId: 5 }], "`nodeId` must be text or a function, not 5"],
  [[telling(), { output: "x", append: 1 }], "`append` must be true or false, not 1"],
  [[telling(), { output: "x", redact: "secret" }], '`redact` must be a function, not "secret"'],
])("recordFixtures(...%o) is refused when it is called", (given, said) => {
  expect(refusal(() => recordFixtures(...(given as [QueryFn])))).toBe(said);
});

test.each<Wrong>([
  [undefined, "what loadFixtures is given must be text, not undefined"],
  [Promise.resolve("x"), "what loadFixtures is given is a promise: await it"],
  [["x"], "what loadFixtures is given must be text, not a list"],
])("loadFixtures(%o) is refused", (given, said) => {
  expect(refusal(() => loadFixtures(given as never))).toBe(said);
});

describe("a node's run", () => {
  let store: Awaited<ReturnType<typeof openInMemory>>;
  beforeAll(async () => void (store = await openInMemory()));
  afterAll(() => store.close());

  const INPUT = "`nodeId`, `prompt`, `sessionId`, `runId`, `options`, `inject`, `signal`";
  const right = { nodeId: "n", prompt: "x" };

  test.each<Wrong>([
    [{ nodeId: "n", promt: "x" }, `\`promt\` is not a field that is known here; known are ${INPUT}`],
    [{ ...right, sesionId: "s" }, `\`sesionId\` is not a field that is known here; known are ${INPUT}`],
    [{ nodeId: "n" }, "`prompt` must be text or a list of messages, not undefined"],
    [{ nodeId: "n", prompt: 5 }, "`prompt` must be text or a list of messages, not 5"],
    [{ nodeId: "n", prompt: ["x"] }, '`prompt[0]` must be an object, not "x"'],
    [{ nodeId: "n", prompt: Promise.resolve("x") }, "`prompt` is a promise: await it"],
    [{ prompt: "x" }, "`nodeId` must be text, not undefined"],
    [{ ...right, nodeId: 5 }, "`nodeId` must be text, not 5"],
    [{ ...right, sessionId: 5 }, "`sessionId` must be text, not 5"],
    [{ ...right, runId: {} }, "`runId` must be text, not an object"],
    [{ ...right, options: 5 }, "`options` must be an object, not 5"],
    [{ ...right, inject: "yes" }, '`inject` must be true or false, not "yes"'],
    [{ ...right, signal: new AbortController() }, "a signal must be an AbortSignal, not object"],
    [undefined, "what a node is to do must be an object, not undefined"],
    ["n", 'what a node is to do must be an object, not "n"'],
    [Promise.resolve(right), "what a node is to do is a promise: await it"],
  ])("with %o calls nobody, and leaves the flow as it was", async (given, said) => {
    const queryFn = telling([success("fine")]);
    const flow = await store.flows.create();
    const error = await failure(createClaudeNode({ queryFn }).run(flow, given as never), "invalid_input");
    expect(error.message).toBe(said);
    expect([queryFn.called, flow.state.nodeStatus]).toEqual([[], {}]);
  });

  test("of what is no flow calls nobody", async () => {
    const queryFn = telling([success("fine")]);
    const claudeNode = createClaudeNode({ queryFn });
    const creating = store.flows.create();
    const flow = await creating;
    const said = async (given: unknown) => (await failure(claudeNode.run(given as never, right), "invalid_input")).message;
    expect(await said(creating)).toBe("the flow is a promise: await it");
    const what = "the flow is what store.flows.create() gives, or `flow` of what store.flows.resume() gives, not";
    expect(await said({ flow, resumed: {} })).toBe(`${what} an object`);
    expect(await said(store)).toBe(`${what} an object`);
    expect(await said(flow.runId)).toBe(`${what} "${flow.runId}"`);
    expect(await said(undefined)).toBe(`${what} undefined`);
    expect(queryFn.called).toEqual([]);
  });

  test("with a query that gives no messages says what it gave", async () => {
    const flow = await store.flows.create();
    const run = (queryFn: unknown) => createClaudeNode({ queryFn: queryFn as QueryFn }).run(flow, right);
    await expect(run(async () => [])).rejects.toThrow("what `queryFn` gives is a promise; make it an async function*, or give what it resolves to");
    await expect(run(() => 5)).rejects.toThrow("what `queryFn` gives are messages as they come (an async iterable), not 5");
  });
});

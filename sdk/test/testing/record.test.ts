import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { places } from "#places";
import { describe, expect, onTestFinished, test, vi } from "vitest";

import { type QueryFn, createClaudeNode, createMockQuery, loadFixtures, recordFixtures } from "../../src/testing/index.js";
import { failure } from "../code.js";
import { freshFolder } from "../places.node.js";
import { all, assistant, init, streamed, success, telling, toolResult } from "./claude.js";

const session = [
  init("sess-1"),
  ...streamed({ type: "text", text: "I'll start" }),
  assistant({ type: "tool_use", id: "t1", name: "read_file", input: { path: "a" } }),
  toolResult("t1", "A"),
  success("Done."),
];

describe("recordFixtures", () => {
  test("writes a file for each node, as fixtures are laid out", async () => {
    const output = await freshFolder();
    const recorded = recordFixtures(telling(session, [success("fine")]), { output });
    const options = { maxTurns: 10, env: { KEY: "secret" }, canUseTool: () => true, mcpServers: { a: { headers: { b: "secret" }, url: "u" } } };
    const seen = await all(recorded({ prompt: "Analyze it.", options, nodeId: "task-agent" }));
    expect(seen).toEqual(session);
    await all(recorded({ prompt: "Verify it.", nodeId: "a/b: verifier?" }));
    expect((await readdir(output)).sort()).toEqual(["a%2Fb%3A%20verifier%3F.json", "task-agent.json"]);
    const text = await readFile(join(output, "task-agent.json"), "utf8");
    expect(text).not.toContain("secret");
    const fixture = JSON.parse(text);
    expect(fixture.calls).toMatchObject([
      {
        input: { prompt: "Analyze it.", options: { maxTurns: 10, mcpServers: { a: { url: "u" } } } },
        output: { text: "Done.", usage: { inputTokens: 10, outputTokens: 20 }, durationMs: 4523, sessionId: "sess-1" },
        events: [
          { type: "agent:start", sessionId: "sess-1", model: "claude-x" },
          { type: "agent:text:delta", content: "I'll " },
          { type: "agent:text:delta", content: "start" },
          { type: "agent:tool", toolName: "read_file", toolInput: { path: "a" }, toolOutput: "A" },
          { type: "agent:complete", result: "Done." },
        ],
      },
    ]);
    expect(loadFixtures(output)).toEqual(recorded.fixtures);
    expect(Object.keys(recorded.fixtures)).toEqual(["task-agent", "a/b: verifier?"]);
  });

  test("what was recorded plays the same in a flow as what was recorded from", async () => {
    const output = await freshFolder();
    const store = await (places[0] as (typeof places)[0]).fresh();
    const eventsOf = async (queryFn: QueryFn) => {
      const flow = await store.flows.create();
      const done = await createClaudeNode({ queryFn, now: () => 1 }).run(flow, { nodeId: "n", prompt: "x", runId: "r" });
      const playback = await store.flows.playback(flow.runId, { speed: Infinity });
      return [done, ...(await playback.events().toArray()).map(({ event }) => ({ ...event, durationMs: 0 }))];
    };
    const live = await eventsOf(recordFixtures(telling(session), { output }));
    expect(await eventsOf(createMockQuery({ fixtures: loadFixtures(output) }))).toEqual(live);
  });

  test("what can't be kept is told, also by a node, whose work is done all the same", async () => {
    const output = await freshFolder();
    await mkdir(output);
    await writeFile(join(output, "file"), "");
    const store = await (places[0] as (typeof places)[0]).fresh();
    const inTheWay = { output: join(output, "file", "fixtures") };
    const throws = () => {
      throw new Error("a secret");
    };
    const refused = [
      [inTheWay, "io", "can't write the fixture"],
      [{ output, redact: throws }, "invalid_input", "`redact` threw a secret"],
      [{ output, redact: () => undefined as never }, "invalid_input", "`redact` gave nothing; it must return the call"],
      [{ output, redact: async (call: never) => call }, "invalid_input", "`redact` gave a promise"],
      [{ output, redact: () => ({ input: { prompt: 5 } }) as never }, "invalid_input", "`redact` gave what is no call: it has no \"output\""],
    ] as const;
    for (const [options, code, words] of refused) {
      const flow = await store.flows.create();
      const queryFn = recordFixtures(telling(session), options as never);
      const error = await failure(createClaudeNode({ queryFn }).run(flow, { nodeId: "plan", prompt: "x" }), code);
      expect(error.message).toContain(words);
      expect(flow.state.nodeStatus["plan"]).toBe("done");
      expect(await failure(all(recordFixtures(telling(session), options as never)({ prompt: "x", nodeId: "plan" })), code)).toMatchObject({
        message: error.message,
      });
    }
    expect(await readdir(output)).toEqual(["file"]);
  });

  test("a call of several turns plays the end of each, in its place", async () => {
    const output = await freshFolder();
    const turns = [init("s"), assistant({ type: "text", text: "a" }), success("one"), assistant({ type: "text", text: "b" }), success("two")];
    const store = await (places[0] as (typeof places)[0]).fresh();
    const told = async (queryFn: QueryFn) => {
      const flow = await store.flows.create();
      const { text } = await createClaudeNode({ queryFn }).run(flow, { nodeId: "n", prompt: "x" });
      const playback = await store.flows.playback(flow.runId, { speed: Infinity });
      const events = (await playback.events().toArray()).map(({ event }) => event as unknown as Record<string, unknown>);
      return [text, ...events.map(({ type, content, result }) => [type, content ?? result])];
    };
    const live = await told(recordFixtures(telling(turns), { output }));
    expect(live.filter((event) => event[0] === "agent:complete")).toHaveLength(2);
    expect(await told(createMockQuery({ fixtures: loadFixtures(output) }))).toEqual(live);

    // One that was written by hand has something behind its end.
    const events = [{ type: "agent:complete", result: "Done." }, { type: "agent:text", content: "c" }, { type: "agent:text", content: "d" }];
    const call = { input: { prompt: "x" }, output: { text: "Done.", usage: { inputTokens: 1, outputTokens: 1 }, durationMs: 1, sessionId: "s" }, events };
    const byHand = await told(createMockQuery({ fixtures: { n: { calls: [call as never] } } }));
    expect(byHand.map((event) => event[0])).toEqual(["D", "agent:start", "agent:complete", "agent:text", "agent:text"]);
  });

  test("nodes may be called as what every object has", async () => {
    const output = await freshFolder();
    const recorded = recordFixtures(telling(session, session, session), { output });
    const names = ["constructor", "__proto__", "toString"];
    for (const nodeId of names) await all(recorded({ prompt: "x", nodeId }));
    const fixtures = loadFixtures(output);
    expect(Object.keys(fixtures).sort()).toEqual([...names].sort());
    const played = await all(createMockQuery({ fixtures })({ prompt: "x", nodeId: "__proto__" }));
    expect(played.at(-1)).toMatchObject({ type: "result", text: "Done." });
  });

  test("calls that fail are recorded, and fail again", async () => {
    const output = await freshFolder();
    const throwing: QueryFn = async function* () {
      yield init("s");
      throw new Error("socket hang up");
    };
    const recorded = recordFixtures(throwing, { output, nodeId: "n" });
    await expect(all(recorded({ prompt: "x" }))).rejects.toThrow("socket hang up");
    const ended = recordFixtures(telling([{ type: "result", subtype: "error_max_turns" } as never]), { output, nodeId: () => "m" });
    await all(ended({ prompt: "x" }));
    const mock = createMockQuery({ fixtures: loadFixtures(output) });
    await expect(all(mock({ prompt: "x", nodeId: "n" }))).rejects.toThrow("socket hang up");
    expect((await all(mock({ prompt: "x", nodeId: "m" }))).at(-1)).toMatchObject({ subtype: "error_max_turns" });
  });

  test("a recording begins anew, or adds to what is there", async () => {
    const output = await freshFolder();
    const call = async (text: string, append: boolean) => {
      const recorded = recordFixtures(telling([success(text)], [success(`${text}!`)]), { output, nodeId: "n", append });
      for (let i = 0; i < 2; i++) await all(recorded({ prompt: text }));
      return loadFixtures(output)["n"]?.calls.map(({ output: { text } }) => text);
    };
    expect(await call("a", false)).toEqual(["a", "a!"]);
    expect(await call("b", true)).toEqual(["a", "a!", "b", "b!"]);
    expect(await call("c", false)).toEqual(["c", "c!"]);
  });

  test("two recorders that add to one file keep the calls of both", async () => {
    const output = await freshFolder();
    const recorder = (text: string) => recordFixtures(telling([success(text)], [success(`${text}!`)]), { output, nodeId: "n", append: true });
    const [one, other] = [recorder("a"), recorder("b")];
    for (const recorded of [one, other, one, other]) await all(recorded({ prompt: "x" }));
    expect(loadFixtures(output)["n"]?.calls.map(({ output: { text } }) => text).sort()).toEqual(["a", "a!", "b", "b!"]);
  });

  test("calls that overlap are kept in the order in which they began", async () => {
    const output = await freshFolder();
    const recorded = recordFixtures(telling([success("first")], [success("second")]), { output, nodeId: "n" });
    const [one, two] = [recorded({ prompt: "1" }), recorded({ prompt: "2" })].map((it) => it[Symbol.asyncIterator]());
    await one?.next();
    await two?.next();
    await two?.next();
    await one?.next();
    expect(recorded.fixtures["n"]?.calls.map(({ output: { text } }) => text)).toEqual(["first", "second"]);
  });

  test("messages of a prompt are kept, secrets are taken out, and the query keeps its methods", async () => {
    const output = await freshFolder();
    const query = ({ prompt }: { prompt: string | AsyncIterable<unknown> }) => {
      const stream = (async function* () {
        for await (const _ of prompt as AsyncIterable<unknown>);
        yield success("secret");
      })();
      return Object.assign(stream, { interrupt: async () => "interrupted" });
    };
    const recorded = recordFixtures(query, {
      output,
      nodeId: "n",
      redact: (call) => ({ ...call, output: { ...call.output, text: "…" }, events: [] }),
    });
    const stream = recorded({
      prompt: (async function* () {
        yield { role: "user", content: "Hi" };
      })(),
    });
    expect(await stream.interrupt()).toBe("interrupted");
    await all(stream);
    expect(recorded.fixtures["n"]?.calls[0]).toMatchObject({ input: { prompt: [{ role: "user", content: "Hi" }] }, output: { text: "…" } });
    expect(await readFile(join(output, "n.json"), "utf8")).not.toContain("secret");
  });

  test("is done by a node of a program that `runlog record-fixtures` runs", async () => {
    const output = await freshFolder();
    vi.stubEnv("RUNLOG_RECORD_FIXTURES", output);
    onTestFinished(() => void vi.unstubAllEnvs());
    const store = await (places[0] as (typeof places)[0]).fresh();
    const claudeNode = createClaudeNode({ queryFn: telling([success("one")], [success("two")]) });
    for (const prompt of ["1", "2"]) await claudeNode.run(await store.flows.create(), { nodeId: "n", prompt });
    expect(loadFixtures(output)["n"]?.calls.map(({ output: { text } }) => text)).toEqual(["one", "two"]);
  });

  test("a recording without a folder is refused", () => {
    expect(() => recordFixtures(telling(session))).toThrow("needs an output");
  });

  test("a call that doesn't say its node is refused", async () => {
    const recorded = recordFixtures(telling(session), { output: await freshFolder() });
    await failure((async () => recorded({ prompt: "x" }))(), "invalid_input");
  });
});

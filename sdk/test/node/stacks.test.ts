import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { openInMemory } from "#runlog";
import ts from "typescript";
import { expect, test } from "vitest";

const SDK = fileURLToPath(new URL("../../", import.meta.url));

test("an error names the line of the program that called", async () => {
  await using store = await openInMemory();
  const run = await store.runs.start({ session: { title: "one" }, agentName: "coder" });
  const calls: Record<string, () => Promise<unknown>> = {
    "a list": async () => await store.runs.list({ limit: 0 }),
    "a chat that is not there": async () => await store.chats.update("nobody", { title: "x" }),
    "a chat": async () => await store.chats.create({ assistantId: "a", share: "nobody" as never }),
    "a retention": async () => await store.retain({ olderThanMs: 0 }),
    "a message": async () => await run.recordMessage({ role: "nobody" } as never),
    "an orchestrator": async () => await store.orchestrator({ limit: 0 } as never),
    "a flow": async () => await store.flows.resume(run.id),
  };
  for (const [what, call] of Object.entries(calls)) {
    const error = await call().then(
      () => undefined,
      (thrown: Error) => thrown,
    );
    expect(error, what).toBeInstanceOf(Error);
    expect(error?.stack, what).toContain("stacks.test.ts");
  }
});

test("no async function returns a promise that it doesn't await, which would cut its caller from the stack", () => {
  const path = `${SDK}tsconfig.json`;
  const read = ts.readConfigFile(path, (file) => readFileSync(file, "utf8"));
  const config = ts.parseJsonConfigFileContent(read.config, ts.sys, SDK);
  const program = ts.createProgram(config.fileNames, config.options);
  const checker = program.getTypeChecker();
  const isAsync = (node: ts.Node) =>
    ts.canHaveModifiers(node) &&
    (ts.getModifiers(node) ?? []).some((it) => it.kind === ts.SyntaxKind.AsyncKeyword) &&
    !("asteriskToken" in node && node.asteriskToken !== undefined);
  const isPromise = (node: ts.Expression) => {
    const type = checker.getTypeAtLocation(node);
    return (type.isUnion() ? type.types : [type]).some((it) => it.symbol?.name === "Promise");
  };
  const found: string[] = [];
  let seen = 0;
  const visit = (file: ts.SourceFile, node: ts.Node, inAsync: boolean): void => {
    const inside = ts.isFunctionLike(node) ? isAsync(node) : inAsync;
    const returned =
      inside && ts.isReturnStatement(node)
        ? node.expression
        : ts.isArrowFunction(node) && inside && !ts.isBlock(node.body)
          ? node.body
          : undefined;
    if (returned !== undefined) {
      seen += 1;
      if (isPromise(returned)) {
        const { line } = file.getLineAndCharacterOfPosition(returned.getStart(file));
        found.push(`${file.fileName.slice(SDK.length)}:${line + 1}`);
      }
    }
    ts.forEachChild(node, (child) => visit(file, child, inside));
  };
  for (const file of program.getSourceFiles()) {
    if (file.fileName.startsWith(`${SDK}src/`) && !file.isDeclarationFile) visit(file, file, false);
  }
  expect(seen).toBeGreaterThan(100);
  expect(found).toEqual([]);
});

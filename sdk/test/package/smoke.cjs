// The packed package, as CommonJS has it.
const runlog = require("runlog");
const { createClaudeNode } = require("runlog/claude");
const { createMockQuery } = require("runlog/testing");

module.exports = async function smoke(path) {
  const store = await runlog.open(path);
  const { instance } = await store.startSession({}, "agent");
  const context = await store.context(instance.id);
  await Promise.all(Array.from({ length: 100 }, (_, index) => context.appendMessage({ role: "user", content: `${index}` })));
  const messages = await context.getMessages();
  let events = 0;
  for await (const event of context.events()) events += event.sequenceNumber === events + 1 ? 1 : Number.NaN;
  const error = await store.findSession("nobody").catch((error) => error);
  if (!(error instanceof runlog.RunlogError) || error.code !== "not_found") throw error;
  const calls = [{ input: { prompt: "" }, output: { text: "played" }, events: [] }];
  const node = createClaudeNode({ queryFn: createMockQuery({ fixtures: { agent: { calls } } }) });
  const { text } = await node.run(await store.flows.create(), { nodeId: "agent", prompt: "" });
  if (text !== "played") throw new Error("runlog/testing doesn't play");
  await store.close();
  return `${messages.length} ${events}`;
};

if (require.main === module) module.exports(process.argv[2]).then((said) => console.log(said));

// Records the example that ships with the viewer: a store written through the package for Node, its files in one bundle.
//
//   node scripts/example.mjs        takes about two minutes, since what it records takes its time

import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { deflateSync, gzipSync } from "node:zlib";
import { open } from "runlog";

import { buildLog, chart, files } from "./example-texts.mjs";

const pace = Number(process.env.RUNLOG_PACE ?? 1);
/** @param {number} ms */
const pause = (ms) => sleep(ms * pace);
const folder = await mkdtemp(join(tmpdir(), "runlog-example-"));
const store = await open(join(folder, "store"), { preallocation: "none", segmentBytesMax: 1 << 20 });

/** @param {string} value */
const text = (value) => ({ type: "text", text: value });
/** @param {string} value */
const thinking = (value) => ({ type: "thinking", thinking: value, signature: "" });
let calls = 0;
/**
 * @param {string} name
 * @param {object} input
 */
const use = (name, input) => ({ type: "tool_use", id: `toolu_${String((calls += 1)).padStart(4, "0")}`, name, input });
/**
 * @param {number} input_tokens
 * @param {number} output_tokens
 */
const tokens = (input_tokens, output_tokens) => ({ input_tokens, output_tokens, cost_usd: Number(((input_tokens * 3 + output_tokens * 15) / 1e6).toFixed(5)) });

/** @typedef {Awaited<ReturnType<typeof store.runs.start>>} Run */
/** @typedef {ReturnType<typeof text> | ReturnType<typeof thinking> | ReturnType<typeof use>} Said */
/** @typedef {Parameters<Run["recordToolResult"]>[0]} Result */

/**
 * A step of an agent: it thinks for a while, says something, and its tools give what they give.
 *
 * @param {Run} run
 * @param {number} thinkMs
 * @param {Said[]} content
 * @param {[number, number]} usage
 * @param {[output: Result["output"], ms: number, status?: Result["status"]][]} outcomes
 */
async function step(run, thinkMs, content, usage, outcomes = []) {
  await run.nextStep();
  await pause(thinkMs);
  await run.recordMessage({ role: "assistant", content, usage: tokens(...usage) });
  const asked = content.flatMap((part) => ("id" in part ? [part.id] : []));
  for (const [index, [output, ms, status]] of outcomes.entries()) {
    await pause(ms);
    await run.recordToolResult({ toolCallId: asked[index] ?? "", output, durationMs: ms, ...(status && { status }) });
  }
}

/**
 * @param {Awaited<ReturnType<typeof store.context>>} context
 * @param {object} value
 */
const state = async (context, value) => {
  await store.streams.snapshot(context.instanceId, await context.getLastSequence(), JSON.stringify(value));
};

// 1. The build whose log is long, with colours, and a chart.
{
  const run = await store.runs.start({
    session: { title: "Why does the nightly build fail?", project: "billing" },
    agentName: "ci-helper",
    messages: [{ role: "user", content: "The nightly build has been red since Tuesday. Find out why." }],
  });
  await step(run, 900, [text("I'll read the log of the last build."), use("run", { command: "ci log --job nightly --last" })], [1240, 86], [[buildLog(), 640]]);
  await step(run, 1400, [thinking("Only one of 402 tests fails, and only at night.\nThe nightly job runs in UTC, the daily one in local time."), text("One test of 402 fails, and only where the clock is in UTC. The durations of the last builds may tell since when."), use("plot", { query: "duration by build, last 14 days" })], [6310, 142], [
    [[text("14 builds"), { type: "image", source: { type: "base64", media_type: "image/png", data: png(chart()).toString("base64") } }], 380],
  ]);
  await step(run, 1100, [text("The nightly build fails since the time zone of the runners was set to UTC. `InvoiceDateTest` compares with a local date. I'd fix the test's clock, or better the code: see “Invoices are dated a day early”.")], [6720, 96]);
  await run.complete("The runners' time zone changed; InvoiceDateTest depends on it.");
}

// 2. A report whose agent was stopped, and one that nobody wanted any more.
{
  const run = await store.runs.start({
    session: { title: "Weekly report", project: "billing" },
    agentName: "reporter",
    maxSteps: 2,
    messages: [{ role: "system", content: "You write the weekly report of the billing team. Be brief." }, { role: "user", content: "Write this week's report." }],
  });
  await step(run, 700, [text("I'll look at what was merged."), use("run", { command: "git log --since=1.week --oneline" })], [620, 41], [["b1f0c2d Round at the end, not in between\n9ae77c1 Export credit notes as PDF\n44d0e0b Update the tax table of 2027", 210]]);
  await step(run, 800, [text("Three changes. I'll ask for the numbers, too."), use("query", { query: "select count(*) from invoices where created_at > now() - interval '7 days'" })], [980, 57], [["1284", 330]]);
  await run.nextStep().catch(() => {});
  const other = await store.runs.start({ newInstance: { sessionId: run.run.sessionId, agentName: "proof-reader", parentInstanceId: run.run.instanceId }, parentRunId: run.id, messages: [{ role: "user", content: "Read the report once it is there." }] });
  await other.cancel("nobody waits for it any more");
}

// 3. The one that is looked at first: a bug, sub-agents, a tool that fails, a wrong way taken back, and a fork.
const run = await store.runs.start({
  session: { title: "Invoices are dated a day early", project: "billing" },
  agentName: "coder",
  maxSteps: 40,
  messages: [
    { role: "system", content: "You are a careful software engineer. You work in a checkout of the repository `billing`. Make the smallest change that is right, test it, and say what you did." },
    { role: "user", content: "Customers in Auckland complain: an invoice made on 1 April in the morning is dated 31 March. Please fix it, with a test." },
  ],
});
const { sessionId, instanceId } = run.run;
const context = await store.context(instanceId);
await step(run, 1200, [text("I'll look at the project first."), use("list_files", { path: "src" })], [840, 48], [["src/invoice.py\nsrc/dates.py\nsrc/customers.py\nsrc/pdf.py\ntests/test_invoice.py", 120]]);
await step(run, 900, [use("read_file", { path: "src/invoice.py" }), use("read_file", { path: "src/dates.py" })], [1180, 72], [[files.invoice, 90], [files.dates, 80]]);
await state(context, { goal: "date invoices in the customer's time zone", plan: [], files: { read: ["src/invoice.py", "src/dates.py"], changed: [] }, tests: { passed: 0, failed: 0 } });

/**
 * @param {string} agentName
 * @param {string} task
 */
const sub = (agentName, task) => store.runs.start({ newInstance: { sessionId, agentName, parentInstanceId: instanceId }, parentRunId: run.id, messages: [{ role: "user", content: task }] });
const spawned = use("spawn_agents", { agents: [{ agent_name: "planner", task: "Plan the smallest fix." }, { agent_name: "researcher", task: "How do other modules find the customer's time zone?" }] });
await run.nextStep();
await pause(1300);
await run.recordMessage({ role: "assistant", content: [text("`date.today()` is the server's date, which is in UTC. Two helpers can look further while I write the test."), spawned], usage: tokens(2950, 133) });
const planner = await sub("planner", "Plan the smallest fix for invoices that are dated in UTC.");
const researcher = await sub("researcher", "How do other modules of this repository find the customer's time zone?");
await Promise.all([
  (async () => {
    await step(planner, 1500, [thinking("The date is made in one place only. A parameter would have to go through four functions; a helper is smaller."), text("1. Add `today_for(customer)` to dates.py.\n2. Use it in `Invoice.create`.\n3. Test both sides of midnight.")], [610, 118]);
    await planner.complete("A helper in dates.py, used in one place");
  })(),
  (async () => {
    await step(researcher, 700, [use("search", { pattern: "ZoneInfo|timezone" })], [540, 39], [["src/customers.py:41: zone: str = \"UTC\"\nsrc/pdf.py:88: stamp = now.astimezone(ZoneInfo(customer.zone))", 460]]);
    await step(researcher, 800, [use("read_file", { path: "src/customers.py" })], [760, 28], [[files.customers, 70]]);
    await step(researcher, 900, [text("`Customer.zone` is an IANA name, `UTC` unless set. pdf.py already uses `ZoneInfo(customer.zone)`.")], [1190, 54]);
    await researcher.complete("Customer.zone, as in pdf.py");
  })(),
]);
await run.recordToolResult({ toolCallId: spawned.id, output: "planner: a helper in dates.py, used in one place\nresearcher: Customer.zone is an IANA name; pdf.py uses ZoneInfo(customer.zone)", durationMs: 4300 });
await step(run, 1600, [text("I'll write the test first; it must fail."), use("edit_file", { path: "tests/test_invoice.py", old: "", new: files.test })], [3820, 246], [["No such place: the text to be replaced is empty, and the file isn't. Give the line after which to insert.\n  at edit_file (tools/edit.py:57)\n  while editing tests/test_invoice.py (118 lines)", 2100, "error"]]);
await state(context, { goal: "date invoices in the customer's time zone", plan: ["today_for(customer) in dates.py", "use it in Invoice.create", "test both sides of midnight"], files: { read: ["src/invoice.py", "src/dates.py"], changed: [] }, tests: { passed: 0, failed: 0 } });

// A wrong way, taken back.
await pause(2600);
const beforeWrongWay = await context.getLastSequence();
await step(run, 1300, [text("Then I'll set the time zone of the whole process to the customer's, around the call."), use("edit_file", { path: "src/invoice.py", old: "date.today()", new: "os.environ['TZ'] = customer.zone; time.tzset(); date.today()" })], [4210, 121], [["src/invoice.py: 1 place changed", 130]]);
await step(run, 900, [text("It works for one customer at a time."), use("run", { command: "pytest -q tests/test_invoice.py" })], [4480, 64], [["..F.\n1 failed, 3 passed in 0.61s\nFAILED test_two_threads - two customers at the same time have one zone", 810, "error"]]);
await pause(700);
await context.truncateAfterSequence(beforeWrongWay);

await step(run, 1500, [text("Setting the process's time zone would hit other threads. I'll insert the test at the end, then add the helper."), use("edit_file", { path: "tests/test_invoice.py", after_line: 118, new: files.test })], [4260, 262], [["tests/test_invoice.py: 21 lines inserted after line 118", 110]]);
await step(run, 800, [use("run", { command: "pytest -q tests/test_invoice.py" })], [4600, 31], [["\u001b[32m....\u001b[0m\u001b[31mF\u001b[0m\n\u001b[1m\u001b[31m1 failed\u001b[0m, \u001b[32m4 passed\u001b[0m in 0.58s\nFAILED test_dated_where_the_customer_is - \u001b[33mAssertionError: 2027-03-31 != 2027-04-01\u001b[0m", 800]]);
const forkPoint = await context.getLastSequence();
await step(run, 1200, [text("It fails for the right reason. Now the helper."), use("edit_file", { path: "src/dates.py", after_line: 9, new: files.helper }), use("edit_file", { path: "src/invoice.py", old: "date.today()", new: "today_for(customer)" })], [4890, 187], [["src/dates.py: 7 lines inserted after line 9", 95], ["src/invoice.py: 1 place changed", 90]]);
await state(context, { goal: "date invoices in the customer's time zone", plan: ["test both sides of midnight"], files: { read: ["src/invoice.py", "src/dates.py", "src/customers.py"], changed: ["src/dates.py", "src/invoice.py", "tests/test_invoice.py"] }, tests: { passed: 4, failed: 1 } });

const tester = await sub("tester", "Run every test, in UTC and in Pacific/Auckland, and say what fails.");
const asked = use("spawn_agents", { agents: [{ agent_name: "tester", task: "Run every test, in UTC and in Pacific/Auckland." }] });
await run.nextStep();
await run.recordMessage({ role: "assistant", content: [asked], usage: tokens(5120, 44) });
await step(tester, 600, [use("run", { command: "TZ=UTC pytest -q" })], [430, 28], [["402 passed in 31.2s", 2600]]);
await step(tester, 500, [use("run", { command: "TZ=Pacific/Auckland pytest -q" })], [520, 30], [["401 passed, 1 failed in 30.9s\nFAILED tests/test_pdf.py::test_stamp - the stamp has the runner's zone", 2400, "error"]]);
await step(tester, 700, [text("All 402 pass in UTC. In Auckland `test_stamp` fails, also without the change: it was broken before.")], [690, 47]);
await tester.fail("1 test fails in Pacific/Auckland: tests/test_pdf.py::test_stamp");
await run.recordToolResult({ toolCallId: asked.id, output: "tester: failed: 1 test fails in Pacific/Auckland: tests/test_pdf.py::test_stamp", status: "error", durationMs: 6800 });
await step(run, 1300, [text("`test_stamp` is broken without my change as well; I leave it alone and say so."), use("run", { command: "git diff --stat" })], [5480, 78], [[" src/dates.py          |  7 +++++++\n src/invoice.py        |  2 +-\n tests/test_invoice.py | 21 +++++++++++++++++++++\n 3 files changed, 29 insertions(+), 1 deletion(-)", 140]]);
await step(run, 1400, [text("Invoices are now dated where the customer is.\n\n- `today_for(customer)` in src/dates.py takes the date in `Customer.zone`\n- `Invoice.create` uses it, in one place\n- a test on both sides of midnight, in Auckland and in Honolulu\n\nNot mine, but found: tests/test_pdf.py::test_stamp fails where the runner isn't in UTC.")], [5700, 151]);
await state(context, { goal: "date invoices in the customer's time zone", plan: [], files: { read: ["src/invoice.py", "src/dates.py", "src/customers.py"], changed: ["src/dates.py", "src/invoice.py", "tests/test_invoice.py"] }, tests: { passed: 402, failed: 0 }, left: ["tests/test_pdf.py::test_stamp"] });
await run.complete("Invoices are dated in the customer's time zone; 3 files changed, 1 test added.");

// 4. The same from the failing test on, with another idea, after a while in which nothing happens.
await pause(7400);
const copy = await store.copySession(sessionId, { upToSequence: forkPoint, title: "With the date made by the database" });
const forked = await store.runs.start({ instanceId: String(copy.instances[0]?.instance.id), messages: [{ role: "user", content: "Try it without a helper: let the database make the date." }] });
await step(forked, 1300, [text("It fails for the right reason. Now in the query itself."), use("edit_file", { path: "src/invoice.py", old: "date.today()", new: "db.scalar(\"select (now() at time zone :zone)::date\", zone=customer.zone)" })], [4930, 142], [["src/invoice.py: 1 place changed", 90]]);
await step(forked, 900, [use("run", { command: "pytest -q tests/test_invoice.py" })], [5080, 31], [["5 passed in 4.92s", 1900]]);
await step(forked, 1200, [text("It works, and costs a query for each invoice: the tests take eight times as long. I'd rather take the helper.")], [5210, 58]);
await forked.complete("Works, but a query more for each invoice");
await store.close();

/** @type {[name: string, bytes: Buffer][]} */
const parts = [];
for (const name of (await readdir(join(folder, "store"))).sort()) {
  if (/^(RUNLOG|END|CHECKPOINT|\d+\.seg)$/.test(name)) parts.push([name, await readFile(join(folder, "store", name))]);
}
const head = `RUNLOGIMAGE1\n${JSON.stringify(parts.map(([name, bytes]) => [name, bytes.length]))}\n`;
const bundle = gzipSync(Buffer.concat([Buffer.from(head), ...parts.map(([, bytes]) => bytes)]), { level: 9 });
await writeFile(fileURLToPath(new URL("../example/example.runlog", import.meta.url)), bundle);
await rm(folder, { recursive: true });
console.log(`example/example.runlog: ${bundle.length} bytes`);

/**
 * A picture of grey and coloured columns, as PNG.
 *
 * @param {ReturnType<typeof chart>} picture
 */
function png({ width, height, pixel }) {
  const rows = Buffer.alloc(height * (1 + width * 3));
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) rows.set(pixel(x, y), y * (1 + width * 3) + 1 + x * 3);
  /**
   * @param {string} name
   * @param {Buffer} data
   */
  const chunk = (name, data) => {
    const body = Buffer.concat([Buffer.from(name), data]);
    const framed = Buffer.alloc(body.length + 8);
    framed.writeUInt32BE(data.length);
    body.copy(framed, 4);
    framed.writeUInt32BE(crc(body), body.length + 4);
    return framed;
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]), chunk("IHDR", header), chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]);
}

/** @param {Buffer} bytes */
function crc(bytes) {
  let value = 0xffffffff;
  for (const byte of bytes) {
    value ^= byte;
    for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0xedb88320 : 0);
  }
  return (value ^ 0xffffffff) >>> 0;
}

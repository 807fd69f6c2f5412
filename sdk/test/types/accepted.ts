// Programs that must compile, with `exactOptionalPropertyTypes` among others: `npm run check` fails where one of them
// doesn't. None is ever run.

import type {
  AgentDefinition,
  Agents,
  Chat,
  ChatMessage,
  Chats,
  Context,
  Contexts,
  FlowRun,
  Flows,
  MessageRole,
  NewChat,
  Orchestrator,
  RawJson,
  RequestBuffer,
  Resumption,
  RunContext,
  RunHandle,
  RunRecorder,
  Runs,
  RuntimeCommand,
  Step,
  Store,
  Streams,
  open,
  openInMemory,
} from "#runlog";
import type { ClaudeNode, createClaudeNode, createMockQuery, recordFixtures } from "#testing";

/** A field that isn't known is kept where the store keeps it, and is of any type. Who gives one says so on purpose. */
export async function otherFields({ agents, chats }: Store): Promise<unknown[]> {
  const chat: Chat = await chats.create({ assistantId: "a", title: "Travel", share: "team", ...{ colour: "blue", stars: 5 } });
  const [message] = await chats.saveMessages("c", [{ role: "user", type: "rating", props: { stars: 5 }, ...{ device: "phone" } }]);
  const node = { chatId: "c", requestId: "r", assistantId: "a", stackId: "s" };
  const [step] = await chats.saveSteps([{ ...node, type: "llm", status: "running", stackDepth: 0, ...{ model: "m" } }]);
  const agent: AgentDefinition = await agents.put({ name: "a", maxSteps: 5, ...{ team: ["b"] } });
  await chats.update("c", { title: null, ...{ colour: null } });
  const wider = { assistantId: "a", colour: "red" };
  await chats.create(wider);
  const said = { role: "user" as const, type: "rating", props: {}, device: "phone" };
  await chats.saveMessages("c", [said]);
  await chats.beginRequest("c", { assistantId: "a", message: { type: "rating", props: {}, ...{ device: "phone" } } });
  await chats.beginRequest("c", { assistantId: "a", message: said });
  const own: object = { colour: "blue" };
  await chats.update("c", own);
  await chats.updateMessage("m", own);
  await chats.updateStep("s", { status: "completed", ...own });
  const metadata = { colour: "blue" };
  await chats.create({ assistantId: "a", metadata });
  await chats.update("c", { metadata });
  await chats.saveMessages("c", [{ role: "user", type: "text", props: {}, metadata }]);
  await chats.saveSteps([{ ...node, type: "llm", status: "running", metadata }]);
  await agents.put({ name: "a", metadata });
  // Read, they are what the caller says they are.
  const { colour } = chat as Chat & { colour?: string };
  const { device } = message as ChatMessage & { device?: string };
  const { model } = step as Step & { model?: string };
  return [colour, device, model, (agent as AgentDefinition & { team?: string[] }).team];
}

/** What was made can be made again elsewhere. */
export async function again({ chats }: Store, chat: Chat): Promise<Chat> {
  const { chatId: _, ...rest } = chat;
  const copy: NewChat = rest;
  return chats.create(copy);
}

/** Commands of the three types known here, and of the caller's own. */
export async function commands(flow: FlowRun, run: RunHandle, given: RuntimeCommand, type: string): Promise<void> {
  await flow.command({ type: "send", runId: "r1", message: "Hurry!", urgent: true });
  await flow.command({ type: "resume" });
  await flow.command({ type: "rate", stars: 5 });
  await flow.command({ type: type, stars: 5 });
  await flow.command(given);
  const own: RuntimeCommand<"rate"> = { type: "rate", stars: 5 };
  await flow.command(own);
  // The run is named already.
  await run.send({ type: "send", message: "Hurry!" });
  for (const command of await flow.takeInbox("r1")) if (command.type === "rate") await flow.command(command);
}

/** A message as a provider's library types it: no place for other fields. */
interface LibraryMessage {
  role: "user" | "assistant";
  content: string | object[];
}

/** Messages from libraries, from variables and from parsers. */
export async function messages(context: Context, library: LibraryMessage, role: MessageRole, raw: RawJson): Promise<void> {
  await context.appendMessages([library, { role, content: "Hi." }, raw, JSON.parse("{}"), new Uint8Array()]);
  await context.appendMessage({ role: "developer", content: "Be brief.", name: "ops" });
  await context.appendMessage({ role: "model", parts: [{ functionCall: { name: "ls", args: {} } }] });
  await context.appendMessage({ type: "function_call", call_id: "c", name: "ls", arguments: "{}" });
}

// What may be left out may be `undefined`: an argument that a caller has perhaps, as in `list({ status: query.status })`.

/** The fields that a type lists, without its index signature. */
type Listed<T> = keyof { [Field in keyof T as string extends Field ? never : Field]: unknown };

/** What has no fields of its own to look at. */
type Leaf = string | number | boolean | bigint | symbol | null | undefined | Uint8Array | AbortSignal | RawJson | ((...args: never[]) => unknown);

/** The optional fields of an argument, and of what is in it, that can't be `undefined`. */
type Missed<T, Depth extends unknown[] = []> = Depth["length"] extends 4
  ? never
  : T extends Leaf
    ? never
    : T extends readonly (infer Item)[]
      ? Missed<Item, [...Depth, 0]>
      : {
          [Field in Listed<T>]-?:
            | ({} extends Pick<T, Field> ? (undefined extends Required<T>[Field] ? never : Field) : never)
            | Missed<Required<T>[Field], [...Depth, 0]>;
        }[Listed<T>];

/** The same for what a function takes. */
type MissedBy<F> = F extends (...args: infer Arguments) => unknown ? Missed<Arguments[number]> : never;

/** The same for the methods of a class. */
type MissedIn<Class> = { [Method in keyof Class]-?: MissedBy<Class[Method]> }[keyof Class];

type Nothing<Found extends never> = Found;

/** Every class and function of the package that takes options. */
export type NoneMissed = [
  // Without these something else would be read or written: as `undefined` they are refused, where the compiler looks at it and at run time.
  Nothing<Exclude<MissedIn<Store>, "upToMessage" | "createdBy">>,
  Nothing<MissedIn<Runs>>,
  Nothing<MissedIn<RunRecorder>>,
  Nothing<MissedIn<Context>>,
  Nothing<MissedIn<Contexts>>,
  Nothing<Exclude<MissedIn<Chats>, "after" | "replaces" | "createdBy" | "visibleTo" | "userId" | "teamId" | "tenantId">>,
  Nothing<MissedIn<Resumption>>,
  Nothing<MissedIn<RequestBuffer>>,
  Nothing<MissedIn<Flows>>,
  Nothing<MissedIn<FlowRun>>,
  Nothing<MissedIn<Agents>>,
  Nothing<MissedIn<Orchestrator>>,
  Nothing<MissedIn<RunHandle>>,
  Nothing<MissedIn<RunContext>>,
  Nothing<MissedIn<Streams>>,
  Nothing<MissedIn<ClaudeNode>>,
  Nothing<MissedBy<typeof open>>,
  Nothing<MissedBy<typeof openInMemory>>,
  Nothing<MissedBy<typeof createClaudeNode>>,
  Nothing<MissedBy<typeof createMockQuery>>,
  Nothing<MissedBy<typeof recordFixtures>>,
];

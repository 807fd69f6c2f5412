// What a payload says to a person: its text, its images, the argument of a tool call that matters.

import { exactDigits, hasNameTwice, parseExact, writeExact } from "./exact.js";
import { Kind } from "./kinds.js";

type Json = Record<string, unknown>;

/** What a row shows of a text, at most. */
const PREVIEW_CHARS = 4000;
const PREVIEW_LINES = 12;

export interface Said {
  text: string;
  thinking: string;
  /** Sources of images: `data:` URLs or base64 with a type. */
  images: { type: string; data: string }[];
}

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) && exactDigits(value) === undefined;
}

/** The fields of what a text of JSON says; none where it is no object. */
export function jsonOf(text: string): Json {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** What a message says. */
export function saidBy(message: unknown): Said {
  const said: Said = { text: "", thinking: "", images: [] };
  if (!isObject(message)) return { ...said, text: shown(message) };
  const texts: string[] = [];
  const thoughts: string[] = [];
  if (typeof message["reasoning_content"] === "string") thoughts.push(message["reasoning_content"]);
  if (message["type"] === "reasoning") {
    gather([message["summary"] ?? [], message["content"] ?? []].flat(), thoughts, thoughts, said.images);
    if (thoughts.length === 0 && typeof message["encrypted_content"] === "string") thoughts.push(REDACTED_THINKING);
  } else if (isOfProvidersTool(message)) texts.push(`${text(message["type"])}\n${readable(withoutHead(message))}`.trimEnd());
  else gather(contentOf(message), texts, thoughts, said.images);
  // What a model says in other fields instead.
  if (typeof message["refusal"] === "string") texts.push(message["refusal"]);
  if (isObject(message["audio"]) && typeof message["audio"]["transcript"] === "string") texts.push(message["audio"]["transcript"]);
  if (thoughts.length === 0 && typeof message["reasoning"] === "string") thoughts.push(message["reasoning"]);
  return { ...said, text: texts.join("\n"), thinking: thoughts.join("\n") };
}

/** An item of OpenAI's Responses that says what a tool of the provider's own did, or is asked for. */
function isOfProvidersTool(message: Json): boolean {
  const { role, content, type } = message;
  return role === undefined && content === undefined && /^(?!function_call|custom_tool_call).*(_call|_list_tools|_approval_re.*)$/.test(text(type));
}

function withoutHead(message: Json): Json {
  const { type: _type, id: _id, status: _status, ...rest } = message;
  return rest;
}

/** A message of a chat, as those of contexts are: who says it, and what it shows. */
export function chatMessage(message: Json): Json {
  const { role, type, props } = message;
  if (!isObject(props)) return { role, type, content: props };
  return { ...props, role, type, content: props["content"] ?? props["parts"] ?? props["text"] ?? readable(props) };
}

/** Where a message says what it says. Gemini's has `parts`; an item of OpenAI's Responses that is a result has what the tool gave. */
function contentOf(message: Json): unknown {
  return message["type"] === "function_call_output" || message["type"] === "custom_tool_call_output" ? message["output"] : (message["content"] ?? message["parts"]);
}

/** A message with results, without these: what is said beside them. */
export function besideResults(message: unknown): unknown {
  if (!isObject(message)) return message;
  const name = Array.isArray(message["content"]) ? "content" : "parts";
  const parts = message[name];
  if (!Array.isArray(parts)) return message;
  return { ...message, [name]: (parts as unknown[]).filter((part) => !isObject(part) || resultIn(part) === undefined) };
}

/** A message with results, without what else it says: with all of them, or with that of a call, by its place among them, else by its id. */
export function resultsOf(message: unknown, call?: { id: unknown; place: number | undefined }): unknown {
  const parts = isObject(message) ? (message["content"] ?? message["parts"]) : undefined;
  const results = Array.isArray(parts) ? (parts as unknown[]).filter((part) => isObject(part) && resultIn(part) !== undefined) : [];
  // The whole message is a result.
  if (results.length === 0) return message;
  const mine = results.length === 1 ? 0 : (call?.place ?? results.findIndex((part) => resultIn(part as Json)?.id === call?.id));
  return { content: call === undefined ? results : results.slice(mine, mine + 1) };
}

function gather(content: unknown, texts: string[], thoughts: string[], images: Said["images"]): void {
  if (typeof content === "string") texts.push(content);
  else if (Array.isArray(content)) for (const part of content as unknown[]) gatherPart(part, texts, thoughts, images);
  else if (content !== null && content !== undefined) texts.push(shown(content));
}

function gatherPart(part: unknown, texts: string[], thoughts: string[], images: Said["images"]): void {
  if (!isObject(part)) {
    texts.push(shown(part));
    return;
  }
  const data = dataIn(part);
  const thought = thoughtIn(part);
  if (data?.isImage === true) images.push({ type: data.type, data: data.data });
  else if (data !== undefined) texts.push(`[${[data.name, data.type].filter((part) => part !== "").join(", ") || "data"}, ${bytesOf(data.data)} bytes]`);
  else if (thought !== undefined) thoughts.push(thought);
  else if (typeof part["text"] === "string") texts.push(part["text"]);
  else if (part["type"] === "refusal" && typeof part["refusal"] === "string") texts.push(part["refusal"]);
  else if (resultIn(part) !== undefined) gather(resultIn(part)?.output, texts, thoughts, images);
  else if (isCallOfProvider(part)) texts.push(`calls ${text(part["name"] ?? part["toolName"])}\n${readable(argumentsOf(part))}`.trimEnd());
  else if (text(part["type"]).endsWith("_tool_result")) gather(part["content"], texts, thoughts, images);
  else if (part["type"] === "web_search_result") texts.push(`${text(part["title"])} ${text(part["url"])}`);
  // Calls have rows of their own.
  else if (!isCall(part)) texts.push(shown(part));
}

/** Stands for thoughts that only their provider can read. */
const REDACTED_THINKING = "[redacted thinking]";

/** What a part says that is thought, not answered, in the form of any provider; some give it encrypted alone. */
function thoughtIn(part: Json): string | undefined {
  const isThought = part["type"] === "reasoning" || part["thought"] === true;
  const converse = part["reasoningContent"];
  const block = isObject(converse) ? converse["reasoningText"] : undefined;
  // Mistral's has a list of parts.
  const given = Array.isArray(part["thinking"]) ? saidBy({ content: part["thinking"] }).text : part["thinking"];
  const found = [given, isThought ? part["text"] : undefined, isObject(block) ? block["text"] : block].find((text) => typeof text === "string");
  if (found !== undefined) return found;
  const isHidden = part["type"] === "redacted_thinking" || part["type"] === "redacted-reasoning" || isObject(converse);
  return isHidden ? REDACTED_THINKING : undefined;
}

/** The names of the tools that a message calls, on one line; empty where it calls none. */
export function callsIn(message: unknown): string {
  if (!isObject(message)) return "";
  const listed = (name: string) => (Array.isArray(message[name]) ? (message[name] as unknown[]) : []);
  const parts = [...listed("content"), ...listed("parts")].filter((part) => isObject(part) && isCall(part));
  const calls = [message["type"] === "function_call" ? message : message["function_call"], ...listed("tool_calls"), ...listed("toolCalls"), ...parts];
  const names = calls.flatMap((call) => {
    if (!isObject(call)) return [];
    const inner = [call["function"], call["functionCall"], call["function_call"], call["toolUse"]].find(isObject) ?? call;
    const name = inner["name"] ?? inner["toolName"];
    return typeof name === "string" ? [name] : [];
  });
  return names.length === 0 ? "" : oneLine(`calls ${names.join(", ")}`);
}

/** Whether a part asks for a tool, in the form of any provider. */
function isCall(part: Json): boolean {
  return part["type"] === "tool_use" || part["type"] === "tool-call" || isObject(part["toolUse"]) || isObject(part["functionCall"] ?? part["function_call"]);
}

/** Whether a part is the call of a tool that the provider runs itself: its result is a part of the same message, and neither has a row. */
function isCallOfProvider(part: Json): boolean {
  return part["type"] === "server_tool_use" || part["type"] === "mcp_tool_use" || (part["type"] === "tool-call" && part["providerExecuted"] === true);
}

/** What a tool gave that Gemini's response says: it must be an object, so that anything else stands in `output` or `error` alone. */
function saidIn(response: unknown): unknown {
  if (!isObject(response)) return response;
  const fields = Object.entries(response);
  const [name, value] = fields[0] ?? [];
  return fields.length === 1 && (name === "output" || name === "error") && !isObject(value) ? value : response;
}

/** The result that a part is, in the form of any provider: the call that it answers, and what the tool gave. */
export function resultIn(part: Json): { id: unknown; output: unknown } | undefined {
  if (part["type"] === "tool_result" || part["type"] === "tool-result") {
    const given = part["content"] ?? part["output"] ?? part["result"];
    // The AI SDK says what kind of output it is; the value is the output.
    const isTyped = isObject(given) && typeof given["type"] === "string" && "value" in given;
    return { id: part["tool_use_id"] ?? part["toolCallId"], output: isTyped ? given["value"] : given };
  }
  const converse = part["toolResult"];
  if (isObject(converse)) {
    const blocks = Array.isArray(converse["content"]) ? (converse["content"] as unknown[]) : [];
    return { id: converse["toolUseId"], output: blocks.map((block) => (isObject(block) && block["json"] !== undefined ? { text: shown(block["json"]) } : block)) };
  }
  const gemini = part["functionResponse"] ?? part["function_response"];
  if (!isObject(gemini)) return undefined;
  const output = saidIn(gemini["response"]);
  return { id: gemini["id"], output: Array.isArray(gemini["parts"]) ? [{ text: shown(output) }, ...(gemini["parts"] as unknown[])] : output };
}

/** What a part has in it as base64, in the form of any provider; undefined for what has nothing, or has it elsewhere. */
function dataIn(part: Json): { name: string; type: string; data: string; isImage: boolean } | undefined {
  if (typeof part["text"] === "string") return undefined;
  const inside = (...names: string[]): Json => names.map((name) => part[name]).find(isObject) ?? {};
  const [openai, anthropic, gemini, audio, file] = [inside("image_url"), inside("source"), inside("inlineData", "inline_data"), inside("input_audio"), inside("file")];
  const kindOfBedrock = ["image", "document", "video", "audio"].find((kind) => isObject(part[kind])) ?? "";
  const bedrock = inside(kindOfBedrock);
  const isOfAnthropic = anthropic["type"] !== "text";
  const isOfAiSdk = ["image", "image-data", "file", "file-data", "media"].includes(String(part["type"]));
  const forms: [data: unknown, type: unknown][] = [
    [openai["url"] ?? part["image_url"], ""],
    [isOfAnthropic ? anthropic["data"] : undefined, anthropic["media_type"]],
    [gemini["data"], gemini["mimeType"] ?? gemini["mime_type"]],
    [isObject(bedrock["source"]) ? bedrock["source"]["bytes"] : undefined, `${kindOfBedrock}/${text(bedrock["format"])}`],
    [audio["data"], `audio/${text(audio["format"])}`],
    [file["file_data"] ?? part["file_data"], ""],
    // So are images that tools of MCP give.
    [isOfAiSdk ? (part["image"] ?? part["data"] ?? part["url"]) : undefined, part["mediaType"] ?? part["mimeType"]],
  ];
  const [given, type] = forms.find(([data]) => typeof data === "string") ?? [];
  if (typeof given !== "string") return undefined;
  const head = given.slice(0, 100);
  const url = /^data:([^;,]*)(?:;[^;,]*)*;base64,/.exec(head);
  if (url === null && (head.includes(":") || typeof part["image_url"] === "string" || "url" in openai)) return undefined;
  const found = url === null ? { type: text(type), data: given } : { type: url[1] ?? "", data: given.slice(url[0].length) };
  const name = text(part["filename"] ?? file["filename"] ?? bedrock["name"]);
  return { ...found, name, isImage: found.type.startsWith("image/") || part["type"] === "image" || part["type"] === "image-data" };
}

/** How many bytes base64 stands for. */
export function bytesOf(base64: string): number {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  return Math.floor(((base64.length - padding) * 3) / 4);
}

export function shown(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    return writeExact(value) ?? "";
  } catch {
    // Deeper than the engine goes, or longer than a text can be.
    return "JSON that is too deep to be shown as text";
  }
}

/** Arguments as people read them: a line for each, texts of several lines as they are. */
export function readable(value: unknown): string {
  if (!isObject(value)) return shown(value ?? "");
  const lines = Object.entries(value).map(([key, inner]) => {
    const text = shown(inner);
    return text.includes("\n") ? `${key}:\n${text.replace(/^\n+|\n+$/g, "").replace(/^/gm, "  ")}` : `${key}: ${text === "" ? '""' : text}`;
  });
  return lines.join("\n");
}

const MAGICS: [string, string][] = [
  ["image/png", "iVBORw0KGgo"],
  ["image/jpeg", "/9j/"],
  ["image/gif", "R0lGOD"],
  ["image/webp", "UklGR"],
];

/** The type that the first bytes of an image say; undefined when it is none that is shown. */
export function imageType(base64: string): string | undefined {
  return MAGICS.find(([, magic]) => base64.startsWith(magic))?.[0];
}

/** Arguments that say most, before any other. */
const TELLING = ["path", "file_path", "file", "command", "cmd", "query", "pattern", "url", "task", "name", "title", "text"];

/** The arguments of a call: providers write them as JSON, or as a string of it; the input of a custom tool is a text. */
export function argumentsOf(call: unknown): unknown {
  if (!isObject(call)) return call;
  const given = call["arguments"] ?? call["input"] ?? call["args"];
  // A custom tool's input is a text, whatever it looks like.
  if (typeof given !== "string" || given === call["input"]) return given;
  return parsedText(given);
}

/** What a text of JSON says; the text itself where it is none, or says more than a value has that was read of it. */
export function parsedText(text: string): unknown {
  try {
    const value = parseExact(text);
    return hasNameTwice(text, value) ? text : value;
  } catch {
    return text;
  }
}

/** The argument of a call that matters, on one line. */
export function tellingArgument(args: unknown): string {
  if (!isObject(args)) return oneLine(shown(args ?? ""));
  const key = TELLING.find((key) => typeof args[key] === "string" && args[key] !== "") ?? Object.keys(args).find((key) => typeof args[key] === "string");
  if (key !== undefined) return oneLine(args[key] as string);
  const list = Object.values(args).find((value) => Array.isArray(value) && value.some(isObject)) as unknown[] | undefined;
  if (list !== undefined) return oneLine(list.map((value) => (isObject(value) ? (toldBy(value) ?? "…") : shown(value))).join(", "));
  const rest = shown(args);
  return rest === "{}" ? "" : oneLine(rest);
}

/** What a thing in a list is about: what it says first that is no number. */
function toldBy(thing: Json): string | undefined {
  const texts = Object.keys(thing).filter((key) => typeof thing[key] === "string" && thing[key] !== "");
  const key = texts.find((key) => key !== "id") ?? texts[0];
  if (key === undefined) return undefined;
  // Several agents may be asked to do something under the same name.
  const task = key === "task" ? "" : text(thing["task"]);
  return [thing[key] as string, task].filter(Boolean).join(": ");
}

export function oneLine(text: string): string {
  return text.slice(0, 400).replace(/\s+/g, " ").trim();
}

/** How a run paused or ended, in words. */
export function wordsOf(json: Json): string | undefined {
  const words = json["error_message"] ?? json["summary"] ?? json["pause_reason"];
  return typeof words === "string" ? words : undefined;
}

/** What a record that is no message says, on one line. */
export function eventText(kind: number, json: unknown): string {
  if (!isObject(json)) return json === undefined ? "" : oneLine(shown(json));
  switch (kind) {
    case Kind.RunCreated:
      return [text(json["agent_name"] ?? json["agent_id"]), json["resumed_from"] === undefined ? "" : "goes on from an earlier run"].filter(Boolean).join(" · ");
    case Kind.RunStatus:
      return text(json["status"]);
    case Kind.RunExplained:
      return oneLine(wordsOf(json) ?? "");
    case Kind.Spawned:
      return Array.isArray(json["agents"]) ? json["agents"].map((agent: Json) => text(agent["agent_name"])).join(", ") : "";
    case Kind.CommandsTaken:
      return json["count"] === 1 ? "1 command" : `${shown(json["count"])} commands`;
    case Kind.FlowCommand: {
      const command = isObject(json["command"]) ? json["command"] : {};
      return oneLine([text(command["type"]), text(command["message"])].filter(Boolean).join(" · ") || shown(json));
    }
    case Kind.ChatMessage: {
      const said = json["props"];
      return oneLine([text(json["role"]), shown((isObject(said) ? said["content"] : undefined) ?? said)].filter(Boolean).join(" · "));
    }
    case Kind.Snapshot:
      return oneLine((isObject(json["nodeStatus"]) ? flowState(json, json["nodeStatus"]) : "") || shown(json));
    case Kind.ChatCopied:
      return "";
    case Kind.ChatMessageChanged:
      return text(json["appended"]) === "" ? changesIn(json["updates"]) : oneLine(`+ ${text(json["appended"])}`);
    case Kind.ChatMessagesDeleted: {
      const count = Array.isArray(json["message_ids"]) ? json["message_ids"].length : 0;
      return count === 1 ? "1 message" : `${count} messages`;
    }
    case Kind.ChatStep:
    case Kind.ChatStepDifference:
    case Kind.ChatStepChanged:
    case Kind.ChatRequest: {
      const state = stateOfChat(kind, json);
      const parts = [text(kind === Kind.ChatRequest ? state["assistant_id"] : state["type"]), text(state["status"]), text(state["error"])];
      return oneLine(parts.filter(Boolean).join(" · ")) || changesIn(state);
    }
    default:
      return oneLine([text(json["type"]), text(json["nodeId"]), text(json["toolName"]), failureIn(json), text(json["content"] ?? json["message"] ?? json["result"])].filter(Boolean).join(" · ") || shown(json));
  }
}

/** How far a flow has come in a state that was saved of it: what its snapshots differ by. */
function flowState(state: Json, nodes: Json): string {
  const names = Object.keys(nodes);
  const having = (status: string) => names.filter((name) => nodes[name] === status);
  const [running, failed, done] = [having("running"), having("failed"), having("done").length];
  const waiting = Array.isArray(state["inbox"]) ? state["inbox"].length : 0;
  const parts = [
    // Most are running, and where it is narrow a row is cut off before what differs.
    state["status"] === "running" && names.length > 0 ? "" : text(state["status"]),
    names.length === 0 ? "" : `${done} of ${names.length} done`,
    running.length === 0 ? "" : `running: ${running.join(", ")}`,
    failed.length === 0 ? "" : `failed: ${failed.join(", ")}`,
    waiting === 0 ? "" : waiting === 1 ? "1 command waits" : `${waiting} commands wait`,
  ];
  return parts.filter(Boolean).join(" · ");
}

/** The fields of a step or a request of a chat that its record tells: all of them, or those that changed. */
function stateOfChat(kind: number, json: Json): Json {
  const state = kind === Kind.ChatStepDifference ? json["step"] : kind === Kind.ChatStepChanged ? json["updates"] : json;
  return isObject(state) ? state : json;
}

/** What a record of a chat says of how a step or a request stands. */
export function statusInChat(kind: number, json: Json): unknown {
  return kind === Kind.ChatCopied ? undefined : stateOfChat(kind, json)["status"];
}

/** Which fields changed, and what a message says now. */
function changesIn(updates: unknown): string {
  if (!isObject(updates)) return "";
  const said = isObject(updates["props"]) ? text(updates["props"]["content"]) : "";
  return oneLine(`${Object.keys(updates).join(", ")}${said === "" ? "" : `: ${said}`}`);
}

/** Why an event of a flow tells of a failure, which may be left empty; undefined for what tells of none. */
export function failureIn(event: Json): string | undefined {
  const error = text(isObject(event["error"]) ? event["error"]["message"] : event["error"]);
  return error !== "" || text(event["type"]).endsWith(":error") ? error : undefined;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The beginning of a text, and how much there is. */
export function beginning(whole: string, lines = PREVIEW_LINES): { text: string; lines: number; chars: number } {
  let count = 1;
  let cut = -1;
  for (let at = whole.indexOf("\n"); at >= 0; at = whole.indexOf("\n", at + 1)) {
    if (count === lines) cut = at;
    count += 1;
  }
  const end = Math.min(cut < 0 ? whole.length : cut, PREVIEW_CHARS);
  return { text: whole.slice(0, end), lines: count, chars: whole.length };
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function numberOf(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

import { EVENT_TYPES } from "../claude/query.js";
import type { AgentEvent } from "../flow-types.js";

/** The part of JSON Schema that {@link fixtureSchema} uses. */
export interface Schema {
  /** The version of JSON Schema. */
  $schema?: string;
  /** The id of the schema. */
  $id?: string;
  /** The schema that stands here, by its place in the file. */
  $ref?: string;
  /** Schemas that are referred to. */
  $defs?: Record<string, Schema>;
  /** Its name, for people. */
  title?: string;
  /** What the value is, for people. */
  description?: string;
  /** What kind of value it is. */
  type?: "object" | "array" | "string" | "number" | "integer" | readonly ("string" | "array")[];
  /** What the fields are, by name. */
  properties?: Record<string, Schema>;
  /** What the other fields are. */
  additionalProperties?: Schema;
  /** The fields that may not be left out. */
  required?: readonly string[];
  /** What the entries of an array are. */
  items?: Schema;
  /** The values that are allowed. */
  enum?: readonly string[];
  /** The one value that is allowed. */
  const?: string;
  /** The least number that is allowed. */
  minimum?: number;
  /** What holds beside. */
  allOf?: readonly Schema[];
  /** When `then` holds. */
  if?: Schema;
  /** What holds when `if` does. */
  then?: Schema;
}

const text = (description: string): Schema => ({ type: "string", description });
const milliseconds = (description: string): Schema => ({ type: "number", minimum: 0, description });
const count = (description: string): Schema => ({ type: "integer", minimum: 0, description });
const anything = (description: string): Schema => ({ description });

const tokens = { inputTokens: count("tokens read"), outputTokens: count("tokens written") };

const usage: Schema = {
  type: "object",
  description: "the tokens of the call: { inputTokens, outputTokens }",
  required: ["inputTokens", "outputTokens"],
  properties: {
    ...tokens,
    cacheCreationInputTokens: count("tokens written to the provider's cache"),
    cacheReadInputTokens: count("tokens read from the provider's cache"),
  },
};

const modelUsage: Schema = {
  type: "object",
  description: "the tokens by model",
  additionalProperties: {
    type: "object",
    description: "the tokens of a model: { inputTokens, outputTokens }",
    required: ["inputTokens", "outputTokens"],
    properties: tokens,
  },
};

const prompt: Schema = {
  type: ["string", "array"],
  description: "the prompt: text, or an array of messages",
  items: { type: "object", description: "a message of the prompt" },
};

/** What both the output of a call and `agent:complete` may tell. */
const figures: Record<string, Schema> = {
  usage,
  modelUsage,
  structuredOutput: anything("the output by its schema"),
  totalCostUsd: { type: "number", minimum: 0, description: "what the call cost, in US dollars" },
  durationMs: milliseconds("how long the call took"),
  numTurns: count("how many turns the call took"),
};

const content = text("the text");
const streamed: Schema = { required: ["content"], properties: { content, tokenCount: count("the tokens of the piece") } };

/** The eight events, by type. Of what an event says in a flow, the node, the run and the time aren't kept. */
const EVENTS: Record<AgentEvent["type"], Schema> = {
  "agent:start": {
    required: ["sessionId"],
    properties: { sessionId: text("the agent's own session"), model: text("the model"), prompt },
  },
  "agent:thinking:delta": streamed,
  "agent:thinking": streamed,
  "agent:text:delta": streamed,
  "agent:text": streamed,
  "agent:tool": {
    required: ["toolName"],
    properties: {
      toolName: text("the tool"),
      toolInput: anything("its input"),
      toolOutput: anything("its output"),
      durationMs: milliseconds("how long the tool took"),
      error: text("why it failed"),
    },
  },
  "agent:error": {
    required: ["errorType", "message"],
    properties: {
      errorType: text("the kind of error, such as error_max_turns"),
      message: text("what the error says to people"),
      details: anything("what the agent's library says of it"),
    },
  },
  "agent:complete": { required: ["result"], properties: { result: text("the final text"), ...figures } },
};

/**
 * The JSON Schema (2020-12) of a fixture file, which {@link loadFixtures} checks by. It is also the file
 * `runlog/fixture.schema.json`, for editors.
 */
export const fixtureSchema: Schema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  $id: "urn:runlog:fixture",
  title: "Recorded calls of an agent",
  description: "the recorded calls of one node, in order: { \"calls\": [...] }",
  type: "object",
  required: ["calls"],
  properties: {
    calls: { type: "array", description: "the calls of the node, in order", items: { $ref: "#/$defs/call" } },
  },
  $defs: {
    call: {
      type: "object",
      description: "one call: { \"input\": {...}, \"output\": {...}, \"events\": [...] }",
      required: ["input", "output", "events"],
      properties: {
        input: {
          type: "object",
          description: "what the agent was called with: { \"prompt\": ..., \"options\": {...} }",
          required: ["prompt"],
          properties: { prompt, options: { type: "object", description: "the options of the call" } },
        },
        output: {
          type: "object",
          description: "what the call ended with: { \"text\": ..., \"usage\": {...}, \"durationMs\": ..., \"sessionId\": ... }",
          required: ["text"],
          properties: {
            text: text("the final text"),
            ...figures,
            sessionId: text("the agent's own session"),
            subtype: text("how the call ended, where it isn't success, such as error_max_turns"),
            error: text("what the call threw, where it did"),
          },
        },
        events: { type: "array", description: "the events of the agent, in order", items: { $ref: "#/$defs/event" } },
      },
    },
    event: {
      type: "object",
      description: "an event of the agent: { \"type\": \"agent:…\", … }",
      required: ["type"],
      properties: { type: { enum: EVENT_TYPES, description: `one of ${EVENT_TYPES.join(", ")}` } },
      allOf: Object.entries(EVENTS).map(([type, then]) => ({
        if: { required: ["type"], properties: { type: { const: type } } },
        then: { description: `an event of the type ${type}`, ...then },
      })),
    },
  },
};

import type { Filter, Outcome, TypeName } from "../protocol.js";
import { TYPES } from "../worker/kinds.js";

const OUTCOMES: string[] = ["ok", "error", "pending"] satisfies Outcome[];

/** What the address says: where one is, and what is shown of it. */
export interface Place {
  lane: string | undefined;
  tab: string | undefined;
  /** The position of the event after which the scrubber is; undefined at the end. */
  at: number | undefined;
  /** The position of the event that is looked at. */
  event: number | undefined;
  query: string;
  with: string | undefined;
  filter: Filter;
  /** The range of the filter as links had it once: ranks, the first and the one after the last. */
  ranks: [number, number] | undefined;
  /** What else it says, which means nothing. */
  odd: string[];
}

export const noFilter = (): Filter => ({ types: [], status: [], tools: [], agents: [], onlyHits: false, range: undefined });

export function isFiltered(filter: Filter): boolean {
  return filter.types.length + filter.status.length + filter.tools.length + filter.agents.length > 0 || filter.onlyHits || filter.range !== undefined;
}

const list = (value: string | null) => (value === null || value === "" ? [] : [...new Set(value.split(",").map(decoded))]);

/** An address may be cut off, or made by hand. */
function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
const numberIn = (value: string | null) => (value !== null && /^\d+$/.test(value) ? Number(value) : undefined);

const isType = (type: string): type is TypeName => TYPES.includes(type as TypeName);
const isOutcome = (status: string): status is Outcome => OUTCOMES.includes(status);

const KEYS = ["agent", "tab", "with", "at", "event", "q", "type", "status", "tool", "of", "hits", "between", "range"];

function oddIn(given: URLSearchParams): string[] {
  const isOdd: Record<string, (value: string) => boolean> = {
    at: (value) => numberIn(value) === undefined,
    event: (value) => numberIn(value) === undefined,
    hits: (value) => value !== "1",
    between: (value) => pairIn(value) === undefined,
    range: (value) => ranksIn(value) === undefined,
  };
  const odd = [...given].filter(([key, value]) => !KEYS.includes(key) || isOdd[key]?.(value) === true);
  for (const type of list(given.get("type"))) if (!isType(type)) odd.push(["type", type]);
  for (const status of list(given.get("status"))) if (!isOutcome(status)) odd.push(["status", status]);
  return odd.map(([key, value]) => (value === "" ? key : `${key}=${value}`));
}

function pairIn(value: string | null): [number, number] | undefined {
  const found = /^(\d+)-(\d+)$/.exec(value ?? "");
  return found === null ? undefined : [Number(found[1]), Number(found[2])];
}

function ranksIn(value: string | null): [number, number] | undefined {
  const ranks = pairIn(value);
  return ranks === undefined || ranks[0] >= ranks[1] ? undefined : ranks;
}

export function readPlace(hash: string): Place {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  return {
    lane: given.get("agent") ?? undefined,
    tab: given.get("tab") ?? undefined,
    at: numberIn(given.get("at")),
    event: numberIn(given.get("event")),
    query: given.get("q") ?? "",
    with: given.get("with") ?? undefined,
    filter: {
      types: list(given.get("type")).filter(isType),
      status: list(given.get("status")).filter(isOutcome),
      tools: list(given.get("tool")),
      agents: list(given.get("of")),
      onlyHits: given.get("hits") === "1",
      range: pairIn(given.get("between")),
    },
    ranks: ranksIn(given.get("range")),
    odd: oddIn(given),
  };
}

export function writePlace(place: Omit<Place, "odd" | "ranks">): string {
  const { filter } = place;
  const pairs: [string, string | undefined][] = [
    ["agent", place.lane],
    ["tab", place.tab === "conversation" ? undefined : place.tab],
    ["with", place.with],
    ["at", place.at?.toString()],
    ["event", place.event?.toString()],
    ["q", place.query || undefined],
    ["type", filter.types.join(",") || undefined],
    ["status", filter.status.join(",") || undefined],
    ["tool", filter.tools.map(encodeURIComponent).join(",") || undefined],
    ["of", filter.agents.join(",") || undefined],
    ["hits", filter.onlyHits ? "1" : undefined],
    ["between", filter.range?.join("-")],
  ];
  const params = new URLSearchParams();
  for (const [key, value] of pairs) if (value !== undefined) params.set(key, value);
  return `#${params.toString()}`;
}

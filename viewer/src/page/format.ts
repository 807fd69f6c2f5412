import type { LaneInfo } from "../protocol.js";
import { plain } from "./ansi.js";

/** 0.8 s, 2 m 03 s, 1 h 05 m. */
export function duration(ms: number | undefined): string {
  if (ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 1) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${String(seconds % 60).padStart(2, "0")} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")} m`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** A time on a ruler whose times are a step apart, as exact as that is: 8 s, 2 m, 1 m 53.45 s. */
export function roundDuration(ms: number, step: number): string {
  if (ms < 1000) return `${ms} ms`;
  if (step >= 1000) return duration(ms).replace(/\.0 s$/, " s").replace(/ 00 [sm]$/, "").replace(/ 0 h$/, "");
  const decimals = step >= 100 ? 1 : step >= 10 ? 2 : 3;
  const minutes = Math.floor(ms / 60_000);
  const seconds = `${((ms % 60_000) / 1000).toFixed(decimals)} s`;
  if (minutes === 0) return seconds;
  return minutes < 60 ? `${minutes} m ${seconds}` : `${Math.floor(minutes / 60)} h ${minutes % 60} m ${seconds}`;
}

export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  if (count < 1e6) return `${(count / 1e3).toFixed(1)} kB`;
  return `${(count / 1e6).toFixed(1)} MB`;
}

const grouped = new Intl.NumberFormat("en-US");

/** 1,000,000 */
export function count(value: number): string {
  return grouped.format(value);
}

/** 12.3k */
export function short(value: number): string {
  if (value < 1000) return String(Math.round(value));
  if (value < 1e6) return `${(value / 1e3).toFixed(value < 1e4 ? 1 : 0)}k`;
  return `${(value / 1e6).toFixed(1)}M`;
}

/** $1.25, $0.042; of less than a thousandth the first digit that tells something, $0.00004. */
export function cost(dollars: number): string {
  if (dollars >= 0.0005 || dollars <= 0) return `$${dollars.toFixed(dollars < 0.1 ? 3 : 2)}`;
  return dollars < 1e-6 ? "under $0.000001" : `$${dollars.toFixed(-Math.floor(Math.log10(dollars)))}`;
}

const pad = (value: number, length = 2) => String(value).padStart(length, "0");

/** 14:03:21.042, where the reader is. */
export function clock(ms: number): string {
  const date = new Date(ms);
  // Later than any calendar of the browser's has a day for.
  if (Number.isNaN(date.getTime())) return `${count(ms)} ms`;
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
}

export function dateTime(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? `${count(ms)} ms after 1970` : `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock(ms)}`;
}

/** 2026-11-30 14:03:21.042 +01:00: with the zone of the reader, at that time. */
export function zonedTime(ms: number): string {
  const ahead = -new Date(ms).getTimezoneOffset();
  if (Number.isNaN(ahead)) return dateTime(ms);
  const zone = ahead === 0 ? "UTC" : `${ahead < 0 ? "−" : "+"}${pad(Math.floor(Math.abs(ahead) / 60))}:${pad(Math.abs(ahead) % 60)}`;
  return `${dateTime(ms)} ${zone}`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** What an agent is called beside others; one of a fork, or with the name of that which is shown, with its session. */
export function laneName({ name, session, isFork }: LaneInfo, shown?: string): string {
  return plain(isFork || name === shown ? `${name} in “${session}”` : name);
}

import { plain } from "./ansi.js";
import type { Gap, LaneInfo, TimelineData } from "../protocol.js";

/** The names of the lanes stand left of the plot, which takes most of the width of a narrow page too. */
export const gutterOf = (width: number) => (width < 560 ? 92 : 148);
export const RULER = 20;
export const LANE = 22;

export interface Scene {
  width: number;
  height: number;
  /** How much of the width the names of the lanes have. */
  gutter: number;
  data: TimelineData | undefined;
  lanes: LaneInfo[];
  firstLane: number;
  /** How far the first lane is scrolled out, in pixels. */
  offset: number;
  current: string | undefined;
  /** The scrubber, and a range, in pixels of the plot; undefined where they are not in view. */
  cursor: number | undefined;
  range: [number, number] | undefined;
  folds: Gap[];
  xOf(folded: number): number;
  foldLabel(ms: number): string;
  tickLabel(ms: number, step: number): string;
  colours: Record<string, string>;
  /** Whether nobody writes the store, so that what is running was cut off. */
  isUnwritten: boolean;
}

const STATUS_COLOURS = { completed: "green", failed: "red", running: "blue", paused: "amber", cancelled: "faint", none: "faint" } as const;

/** Draws the timeline: all of it, whenever something of it changed. */
export function draw(context: CanvasRenderingContext2D, scene: Scene): void {
  const { width, height, data, colours } = scene;
  context.clearRect(0, 0, width, height);
  const plot = width - scene.gutter;
  context.save();
  context.beginPath();
  context.rect(0, RULER, width, height - RULER);
  context.clip();
  drawLanes(context, scene);
  shadeFolds(context, scene);
  if (data !== undefined) drawData(context, scene, data);
  context.restore();
  drawFolds(context, scene);
  if (data !== undefined) drawTicks(context, scene, data);
  if (data !== undefined) {
    context.fillStyle = colours["amber"] as string;
    const scale = plot / data.width;
    for (let pixel = 0; pixel < data.width; pixel++) if (data.hits[pixel] === 1) context.fillRect(scene.gutter + pixel * scale - 1, 0, 2, 6);
  }
  context.fillStyle = colours["line"] as string;
  context.fillRect(0, RULER - 1, width, 1);
  context.fillRect(scene.gutter - 1, 0, 1, height);
  drawRange(context, scene);
  drawCursor(context, scene);
}

function laneTop(scene: Scene, line: number): number {
  return RULER + line * LANE - scene.offset;
}

function drawLanes(context: CanvasRenderingContext2D, scene: Scene): void {
  const { colours, width } = scene;
  context.textBaseline = "middle";
  for (let line = 0; scene.firstLane + line < scene.lanes.length; line++) {
    const top = laneTop(scene, line);
    if (top > scene.height) break;
    const lane = scene.lanes[scene.firstLane + line] as LaneInfo;
    if (lane.id === scene.current) {
      context.fillStyle = colours["selected"] as string;
      context.fillRect(0, top, width, LANE);
    }
    const indent = 12 + Math.min(5, lane.depth) * 10;
    const isCutOff = scene.isUnwritten && lane.status === "running";
    context.fillStyle = colours[isCutOff ? "amber" : STATUS_COLOURS[lane.status]] as string;
    context.beginPath();
    context.arc(indent, top + LANE / 2, 3, 0, 2 * Math.PI);
    context.fill();
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = (lane.id === scene.current ? colours["text"] : colours["soft"]) as string;
    let at = indent + 9;
    if (lane.isFork) {
      forkSign(context, at + 4, top + LANE / 2, colours["violet"] as string);
      at += 14;
    }
    context.fillText(fitted(context, plain(lane.name), scene.gutter - at - 8), at, top + LANE / 2 + 1);
  }
}

function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let cut = text.slice(0, 40);
  while (cut.length > 1 && context.measureText(`${cut}…`).width > width) cut = cut.slice(0, -1);
  return `${cut.trimEnd()}…`;
}

function drawData(context: CanvasRenderingContext2D, scene: Scene, data: TimelineData): void {
  const { colours } = scene;
  const plot = scene.width - scene.gutter;
  const scale = plot / data.width;
  context.save();
  context.beginPath();
  context.rect(scene.gutter, RULER, plot, scene.height - RULER);
  context.clip();
  // What was drawn for other lanes, while new data is on its way.
  const shift = data.firstLane - scene.firstLane;
  for (let line = 0; line < data.lanes; line++) {
    const top = laneTop(scene, line + shift);
    context.fillStyle = colours["line"] as string;
    const [from, to] = [data.spans[line * 2] as number, data.spans[line * 2 + 1] as number];
    context.fillRect(scene.gutter + from * scale, top + LANE / 2, Math.max(1, (to - from) * scale), 1);
    context.fillStyle = colours["density"] as string;
    for (let pixel = 0; pixel < data.width; pixel++) {
      const many = data.density[line * data.width + pixel] as number;
      if (many === 0) continue;
      const size = Math.min(LANE - 8, 4 + Math.log2(many) * 2.4);
      context.fillRect(scene.gutter + pixel * scale, top + (LANE - size) / 2, Math.max(1.5, scale), size);
    }
  }
  const fills = [colours["bar"], colours["red"], colours[scene.isUnwritten ? "amber" : "blue"], colours["amber"]];
  for (let at = 0; at < data.bars.length; at += 5) {
    const [line, from, to, status] = data.bars.subarray(at, at + 4) as unknown as [number, number, number, number];
    context.fillStyle = fills[status] as string;
    context.fillRect(scene.gutter + from * scale, laneTop(scene, line + shift) + 6, Math.max(2, (to - from) * scale), LANE - 12);
  }
  drawMarks(context, scene, data, scale, shift);
  context.fillStyle = colours["red"] as string;
  for (let line = 0; line < data.lanes; line++) {
    for (let pixel = 0; pixel < data.width; pixel++) {
      const failed = data.failed[line * data.width + pixel] as number;
      if (failed === 0) continue;
      // Where much happened, as high as its share: seen all the same.
      const many = data.density[line * data.width + pixel] as number;
      const size = many <= 4 ? LANE - 6 : Math.max(4, ((LANE - 6) * failed) / many);
      context.fillRect(scene.gutter + pixel * scale - 1, laneTop(scene, line + shift) + LANE - 3 - size, 3, size);
    }
  }
  context.restore();
}

/** Half of the width of a sign. */
const SIGN = 6;

function drawMarks(context: CanvasRenderingContext2D, scene: Scene, data: TimelineData, scale: number, shift: number): void {
  const { colours } = scene;
  let steps = 0;
  for (let at = 2; at < data.marks.length; at += 3) if (data.marks[at] === 0) steps += 1;
  for (let at = 0; at < data.marks.length; at += 3) {
    const [line, pixel, what] = data.marks.subarray(at, at + 3) as unknown as [number, number, number];
    const x = scene.gutter + pixel * scale;
    const top = laneTop(scene, line + shift);
    if (what === 0) {
      if (steps > data.width / 3) continue;
      context.fillStyle = colours["faint"] as string;
      context.fillRect(x, top + LANE - 5, 1, 5);
    } else {
      const middle = top + LANE / 2;
      // The first and the last moments are at the edges, where half of a sign would be cut off.
      const whole = Math.max(scene.gutter + SIGN, Math.min(scene.width - SIGN, x));
      if (what === 1) forkSign(context, whole, middle, colours["violet"] as string);
      else if (what === 2) forgottenSign(context, whole, middle, colours);
      else snapshotSign(context, whole, top + 4, colours["violet"] as string);
    }
  }
}

/** One line that becomes two. */
function forkSign(context: CanvasRenderingContext2D, x: number, y: number, colour: string): void {
  const { fillStyle } = context;
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x - 3, y - 5);
  context.lineTo(x - 3, y + 5);
  context.moveTo(x - 3, y + 2);
  context.bezierCurveTo(x + 3, y + 2, x + 4, y, x + 4, y - 4);
  context.stroke();
  for (const [cx, cy] of [[x - 3, y - 5], [x - 3, y + 5], [x + 4, y - 5]] as const) {
    context.beginPath();
    context.arc(cx, cy, 1.8, 0, 2 * Math.PI);
    context.fill();
  }
  context.fillStyle = fillStyle;
}

/** A hatched box: what came before was forgotten. */
function forgottenSign(context: CanvasRenderingContext2D, x: number, y: number, colours: Record<string, string>): void {
  context.fillStyle = colours["page"] as string;
  context.fillRect(x - 5, y - 6, 10, 12);
  context.strokeStyle = colours["amber"] as string;
  context.lineWidth = 1;
  context.strokeRect(x - 4.5, y - 5.5, 9, 11);
  context.beginPath();
  for (const shift of [-6, -2, 2]) {
    context.moveTo(x - 4, y + shift + 6);
    context.lineTo(x + 4, y + shift);
  }
  context.stroke();
}

function snapshotSign(context: CanvasRenderingContext2D, x: number, y: number, colour: string): void {
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x, y - 3.5);
  context.lineTo(x + 3.5, y);
  context.lineTo(x, y + 3.5);
  context.lineTo(x - 3.5, y);
  context.fill();
}

/** Below what happened: a fork or a snapshot may stand right at a gap. */
function shadeFolds(context: CanvasRenderingContext2D, scene: Scene): void {
  context.fillStyle = scene.colours["hover"] as string;
  context.globalAlpha = 0.7;
  for (const fold of scene.folds) {
    const start = Math.max(scene.gutter, scene.xOf(fold.at));
    const end = scene.xOf(fold.end);
    if (end >= scene.gutter && start <= scene.width && end - start >= 3) context.fillRect(start, RULER, end - start, scene.height - RULER);
  }
  context.globalAlpha = 1;
}

/** Half of the width of the scrubber's head. */
const HEAD = 6;

/** Whether the scrubber's head lies over a text of the ruler. */
function isUnderHead({ cursor }: Scene, x: number, size: number): boolean {
  return cursor !== undefined && cursor + HEAD + 1 > x && cursor - HEAD - 1 < x + size;
}

function drawFolds(context: CanvasRenderingContext2D, scene: Scene): void {
  const { colours } = scene;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  taken.length = 0;
  let free = scene.gutter;
  for (const fold of scene.folds) {
    // Of a gap that is seen in part, in the middle of that part.
    const x = Math.max(scene.gutter, scene.xOf(fold.at));
    const end = Math.min(scene.width, scene.xOf(fold.end));
    if (end < x) continue;
    const label = `⌇ ${scene.foldLabel(fold.ms)}`;
    const size = context.measureText(label).width;
    const middle = (x + end) / 2 - size / 2;
    // Beside the scrubber's head, which would cover a part of it.
    const start = isUnderHead(scene, middle, size) ? (scene.cursor as number) + HEAD + 2 : middle;
    if (start < free + 6 || start + size > scene.width) continue;
    context.fillStyle = colours["faint"] as string;
    context.fillText(label, start, RULER / 2 + 2);
    free = start + size;
    taken.push([start - 8, free + 8]);
  }
}

/** Where the ruler says already how long a gap was. */
const taken: [number, number][] = [];

function drawTicks(context: CanvasRenderingContext2D, scene: Scene, data: TimelineData): void {
  const { colours } = scene;
  const scale = (scene.width - scene.gutter) / data.width;
  context.fillStyle = colours["faint"] as string;
  context.font = "11px system-ui, sans-serif";
  for (let at = 0; at < data.ticks.length; at += 2) {
    const x = scene.gutter + (data.ticks[at] as number) * scale;
    const label = scene.tickLabel(data.ticks[at + 1] as number, data.tickStep);
    const size = context.measureText(label).width;
    if (taken.some(([from, to]) => x + 5 + size > from && x < to)) continue;
    context.fillRect(x, RULER - 6, 1, 5);
    if (!isUnderHead(scene, x + 5, size) && x + 5 + size <= scene.width) context.fillText(label, x + 5, RULER / 2 + 2);
  }
}

function drawRange(context: CanvasRenderingContext2D, scene: Scene): void {
  if (scene.range === undefined) return;
  const [from, to] = scene.range;
  context.fillStyle = scene.colours["accent"] as string;
  context.globalAlpha = 0.14;
  const left = Math.max(scene.gutter, from);
  context.fillRect(left, 0, Math.max(1, to - left), scene.height);
  context.globalAlpha = 1;
}

function drawCursor(context: CanvasRenderingContext2D, scene: Scene): void {
  const { cursor, colours } = scene;
  if (cursor === undefined || cursor < scene.gutter - 1 || cursor > scene.width + 1) return;
  const x = Math.min(scene.width - 1, Math.max(scene.gutter, cursor));
  context.fillStyle = colours["page"] as string;
  context.globalAlpha = 0.5;
  context.fillRect(x, RULER, scene.width - x, scene.height - RULER);
  context.globalAlpha = 1;
  context.fillStyle = colours["accent"] as string;
  context.fillRect(x - 1, 0, 2, scene.height);
  context.beginPath();
  context.moveTo(x - HEAD, 0);
  context.lineTo(x + HEAD, 0);
  context.lineTo(x + HEAD, 9);
  context.lineTo(x, 15);
  context.lineTo(x - HEAD, 9);
  context.fill();
}

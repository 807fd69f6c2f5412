/** From here on characters are mostly as wide as two. */
const WIDE = 0x2e80;

/**
 * Where so many lines of a text end once they are wrapped; its length where it has no more. By characters for each line, since
 * measuring would lay out all of it.
 */
export function endOfLines(text: string, lines: number, columns: number): number {
  let line = 1;
  let column = 0;
  for (let at = 0; at < text.length; ) {
    const code = text.codePointAt(at) as number;
    const size = code >= WIDE ? 2 : 1;
    const isEnd = code === 10;
    if (isEnd || column + size > columns) {
      if (line === lines) return at;
      line += 1;
      column = 0;
    }
    if (!isEnd) column += size;
    at += code > 0xffff ? 2 : 1;
  }
  return text.length;
}

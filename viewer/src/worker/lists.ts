/** Numbers that grow by appending. */
export class NumberList<A extends Float64Array | Uint32Array | Int32Array | Uint8Array | Float32Array> {
  /** Those that there are, and room. */
  items: A;
  length = 0;

  constructor(private readonly make: (length: number) => A) {
    this.items = make(64);
  }

  push(value: number): void {
    this.reserve();
    this.items[this.length++] = value;
  }

  /** Makes room for so many more. */
  reserve(count = 1): void {
    if (this.length + count <= this.items.length) return;
    const more = this.make(Math.max(this.items.length * 2, this.length + count));
    more.set(this.items);
    this.items = more;
  }

  at(index: number): number {
    return this.items[index] as number;
  }

  set(index: number, value: number): void {
    this.items[index] = value;
  }

  /** What there is, not copied. */
  view(): A {
    return this.items.subarray(0, this.length) as A;
  }
}

export const u32 = () => new NumberList((length) => new Uint32Array(length));
export const i32 = () => new NumberList((length) => new Int32Array(length));
export const u8 = () => new NumberList((length) => new Uint8Array(length));
export const f64 = () => new NumberList((length) => new Float64Array(length));
export const f32 = () => new NumberList((length) => new Float32Array(length));

/** The first index from which on `isAfter` holds; it holds for all after one for which it does. */
export function firstWhere(length: number, isAfter: (index: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isAfter(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Heights of a list's rows: one for all, but for those that were measured. Sums and searches take the logarithm of the length. */
export class Heights {
  readonly #measured = new Map<number, number>();
  /** Sums of what is more than the one height, as a Fenwick tree. */
  #tree: Float64Array | undefined;

  constructor(
    readonly length: number,
    readonly usual: number,
  ) {}

  at(index: number): number {
    return this.#measured.get(index) ?? this.usual;
  }

  /** Sets a height, and says by how much it changed. */
  set(index: number, height: number): number {
    const change = height - this.at(index);
    if (change === 0) return 0;
    this.#measured.set(index, height);
    this.#tree ??= new Float64Array(this.length + 1);
    for (let at = index + 1; at <= this.length; at += at & -at) this.#tree[at] = (this.#tree[at] as number) + change;
    return change;
  }

  /** Where a row begins. */
  offset(index: number): number {
    let sum = index * this.usual;
    if (this.#tree !== undefined) for (let at = index; at > 0; at -= at & -at) sum += this.#tree[at] as number;
    return sum;
  }

  get total(): number {
    return this.offset(this.length);
  }

  /** The row at an offset. */
  find(offset: number): number {
    let at = 0;
    let left = offset;
    let bit = 1;
    while (bit * 2 <= this.length) bit *= 2;
    for (; bit > 0; bit >>= 1) {
      const next = at + bit;
      if (next > this.length) continue;
      const size = bit * this.usual + (this.#tree?.[next] ?? 0);
      if (size <= left) {
        at = next;
        left -= size;
      }
    }
    return Math.min(at, Math.max(0, this.length - 1));
  }

  /** As it is, for a list that became longer or shorter at its end. */
  resized(length: number): Heights {
    const other = new Heights(length, this.usual);
    for (const [index, height] of this.#measured) if (index < length) other.set(index, height);
    return other;
  }
}

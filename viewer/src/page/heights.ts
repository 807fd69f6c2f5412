/** Heights of a list's rows: one for all, but for those that were measured. Sums and searches take the logarithm of the length. */
export class Heights {
  readonly #measured = new Map<number, number>();
  /** Sums of what is more than the one height, as a Fenwick tree with room for more rows than there are. */
  #tree: Float64Array | undefined;
  #length: number;

  constructor(
    length: number,
    readonly usual: number,
  ) {
    this.#length = length;
  }

  get length(): number {
    return this.#length;
  }

  at(index: number): number {
    return this.#measured.get(index) ?? this.usual;
  }

  /** Sets a height, and says by how much it changed. */
  set(index: number, height: number): number {
    const change = height - this.at(index);
    if (change === 0) return 0;
    this.#measured.set(index, height);
    this.#tree ??= new Float64Array(this.length + 1);
    this.#add(this.#tree, index, change);
    return change;
  }

  #add(tree: Float64Array, index: number, change: number): void {
    for (let at = index + 1; at < tree.length; at += at & -at) tree[at] = (tree[at] as number) + change;
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

  /** The list became longer or shorter at its end, which takes no time mostly: the timeline is moved through with it. */
  resize(length: number): void {
    this.#length = length;
    if (this.#tree === undefined || length < this.#tree.length) return;
    const tree = new Float64Array(Math.max(length, 2 * this.#tree.length) + 1);
    for (const [index, height] of this.#measured) this.#add(tree, index, height - this.usual);
    this.#tree = tree;
  }
}

/** The name that Node's `console.log` looks for. */
const INSPECT = Symbol.for("nodejs.util.inspect.custom");

interface Shown {
  toJSON(): object;
}

/**
 * Has `console.log` show what objects of these classes hold, as their JSON says it: fields that are private here, or looked
 * at only when asked for, among them.
 *
 * @internal
 */
export function showsItsJson(...classes: readonly { readonly name: string; readonly prototype: Shown }[]): void {
  for (const { name, prototype } of classes) {
    Object.defineProperty(prototype, INSPECT, {
      value(this: Shown, depth: number, options: object, inspect: (value: unknown, options: object) => string): string {
        return depth < 0 ? `[${name}]` : `${name} ${inspect(this.toJSON(), options)}`;
      },
      configurable: true,
      writable: true,
    });
  }
}

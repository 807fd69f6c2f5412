/**
 * The names of the fields that a type lists, without its index signature: `Omit` and `Exclude` over `keyof T` would see
 * nothing but `string` where there is one.
 */
export type KnownField<T> = keyof { [Field in keyof T as string extends Field ? never : Field]: unknown };

/**
 * What a caller gives of a `T` to make: the fields named `Needed`, and any of the others. The store gives those named
 * `Given` itself. Known fields have their types; a field that isn't known is kept as it is.
 *
 * @example
 * ```ts
 * const chat: NewChat = { assistantId: "travel", title: "Oslo", colour: "blue" }; // `title: 5` doesn't compile
 * console.log((await store.chats.create(chat)).colour); // blue
 * ```
 *
 * @typeParam T - What is made.
 * @typeParam Needed - The fields without which it can't be made.
 * @typeParam Given - The fields that only the store gives.
 */
export type NewOf<T, Needed extends KnownField<T>, Given extends KnownField<T>> = Pick<T, Needed> & {
  [Field in Exclude<KnownField<T>, Needed | Given>]?: T[Field] | undefined;
} & OtherFields;

/** Fields that this build doesn't know, kept as they are. */
export interface OtherFields {
  /** Whatever else the caller says. */
  [field: string]: unknown;
}

const NOTICE_MS = 2500;

/** What the page tells a person: a problem until it is closed, a notice for a moment. */
class Messages {
  problem = $state<string>();
  notice = $state<string>();
  #hiding: ReturnType<typeof setTimeout> | undefined;

  say(text: string): void {
    this.notice = text;
    // Each notice has its whole time: what hid the one before would hide this one too early.
    clearTimeout(this.#hiding);
    this.#hiding = setTimeout(() => (this.notice = undefined), NOTICE_MS);
  }

  /** Copies a text, and says so; where the browser lets no page copy, where the text is instead. */
  async copy(text: string, said: string, instead = `it is ${text}`): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      this.say(said);
    } catch {
      this.say(`The browser doesn't let a page copy here; ${instead}.`);
    }
  }
}

export const messages = new Messages();

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

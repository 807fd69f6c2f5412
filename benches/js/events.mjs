// Events of 1 KiB, as objects and as text, in Node and in a browser.

export const EVENT_BYTES = 1024;
const WORDS = "the parser drops last line of a file that ends without new so look at how reader splits its buffer".split(" ");

/** How many different events there are; they are taken in turns. */
export const EVENTS = 1024;

/** An event of an agent, whose JSON has exactly 1 KiB. */
function eventOf(index) {
  const text = (length) => {
    let words = "";
    for (let at = index; words.length < length; at = (at * 7 + 3) % 9973) words += `${WORDS[at % WORDS.length]} `;
    return words.slice(0, length);
  };
  const event = {
    type: "agent:tool",
    nodeId: "task-agent",
    runId: "0198c7e0-0000-7000-8000-000000000000",
    timestamp: 1_700_000_000_000 + index,
    toolName: "read_file",
    toolInput: { path: `src/module-${index % 97}/file.ts`, first: index, last: index + 40, follow: true },
    toolOutput: { status: "ok", lines: [text(160), text(120), text(90)], count: 3, cursor: null },
    durationMs: 1.5,
    content: "",
  };
  event.content = text(EVENT_BYTES - JSON.stringify(event).length);
  return event;
}

export const objects = Array.from({ length: EVENTS }, (_, index) => eventOf(index));
export const texts = objects.map((object) => JSON.stringify(object));

/** What the numbers of an event are called, everywhere, and what they are. */
export const WORDS = {
  position: "Its place in the log of the whole store. Links name events by it.",
  sequence: "Its number in its own stream, from 1; of what was said that is its agent's conversation. Forks and snapshots name it.",
  sequenceInChat: "Its number in the chat's stream, from 1, where requests, steps, changes and the pieces of an answer that grows count too: not its number among the messages. Forks name it.",
  moment: "How many events of the session had happened by then, those of all its agents and forks. The scrubber goes from one to the next.",
};

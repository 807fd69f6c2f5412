// A worker of an application's that does what a test tells it: the source of a function, with the package and a state of its own.

import * as api from "#runlog";

interface Told {
  ask: number;
  source: string;
  args: unknown;
}

const scope = globalThis as unknown as { postMessage(message: unknown): void; addEventListener(type: "message", listener: (event: MessageEvent<Told>) => void): void };
const state = {};

scope.addEventListener("message", ({ data: { ask, source, args } }) => {
  void (async () => {
    try {
      const work = (0, eval)(`(${source})`) as (given: object, args: unknown) => unknown;
      scope.postMessage({ ask, value: await work({ api, state }, args) });
    } catch (error) {
      scope.postMessage({ ask, failed: String(error) });
    }
  })();
});

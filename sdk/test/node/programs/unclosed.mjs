// A signal that comes while a store is being closed, which fails: how the closing is waited for, without a store, so that it takes its time.
import { closing, requestBegan, requestEnded } from "../../../dist/esm/exits.js";

const request = {};
requestBegan(request, () => Promise.resolve());
closing(new Promise((_, reject) => setTimeout(reject, 300, new Error("the disk is full")))).catch(() => {});
requestEnded(request);
process.kill(process.pid, "SIGTERM");

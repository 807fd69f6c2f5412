// Made by scripts/build.mjs.

/** The module, packed by gzip, in base64. */
export declare const MODULE: string;
/** The script of a worker that is given the module. */
export declare const WORKER: string;

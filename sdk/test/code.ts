import { RunlogError } from "#runlog";
import { expect } from "vitest";

/** The error that a promise is rejected with, which has this code. */
export async function failure(promise: Promise<unknown>, code: string): Promise<RunlogError> {
  const error: unknown = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(RunlogError);
  expect((error as RunlogError).code).toBe(code);
  return error as RunlogError;
}

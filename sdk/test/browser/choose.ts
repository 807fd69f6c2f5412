import { commands } from "vitest/browser";
import { onTestFinished } from "vitest";

import type {} from "./commands.js";

/** The files of a folder, as a user picks it. */
export async function chosen(folder: string): Promise<FileList> {
  document.body.insertAdjacentHTML("beforeend", '<input id="chosen" type="file" webkitdirectory>');
  const input = document.body.lastElementChild as HTMLInputElement;
  onTestFinished(() => input.remove());
  const changed = new Promise((resolve) => input.addEventListener("change", resolve, { once: true }));
  await commands.chooseFolder("#chosen", folder);
  await changed;
  return input.files as FileList;
}

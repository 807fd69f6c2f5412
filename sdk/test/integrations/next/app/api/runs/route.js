import { RunlogError } from "runlog";
import { store } from "../../../store.js";

export const dynamic = "force-dynamic";

/** Records a run with one message. */
export async function POST(request) {
  const { runs } = await store();
  const run = await runs.start({ session: { title: "Next" }, agentName: "agent" });
  await run.recordMessage(await request.json());
  await run.pause();
  return Response.json({ id: run.id });
}

/** The messages of a run. */
export async function GET(request) {
  const { runs } = await store();
  const id = new URL(request.url).searchParams.get("id");
  try {
    const { items } = await runs.messages(id);
    return Response.json(items.map((message) => message.content()));
  } catch (error) {
    if (!(error instanceof RunlogError)) throw error;
    return Response.json({ code: error.code }, { status: 404 });
  }
}

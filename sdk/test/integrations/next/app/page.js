import { store } from "../store.js";

export const dynamic = "force-dynamic";

/** A server component that reads the store. */
export default async function Page() {
  const { runs } = await store();
  const { items } = await runs.list();
  return <p>{`${items.length} run, ${items[0]?.status}`}</p>;
}

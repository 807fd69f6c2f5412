// A PostgreSQL of its own for the measurement, in a temporary folder, over a socket there; gone afterwards.

import { execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Where the newest PostgreSQL of this machine has its programs. */
function programs() {
  const root = "/usr/lib/postgresql";
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  const found = versions.map((version) => join(root, version, "bin")).find((bin) => existsSync(join(bin, "initdb")));
  if (found === undefined) throw new Error("PostgreSQL is missing, which runlog is measured beside: `apt-get install postgresql`");
  return found;
}

/** Starts one in a folder, with a schema and the tables' rows. It refuses to be run by root, so that root runs it as `postgres`. */
export async function startPostgres(folder, schema, rows) {
  const bin = programs();
  const user = "postgres";
  const as = (program, args) => (process.getuid?.() === 0 ? ["runuser", ["-u", user, "--", program, ...args]] : [program, args]);
  const run = (program, args, input) => execFileSync(...as(program, args), { input, stdio: ["pipe", "pipe", "inherit"] });
  // Others have to reach the socket.
  chmodSync(folder, 0o777);
  const data = join(folder, "postgres");
  run(join(bin, "initdb"), ["-D", data, "-U", user, "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8"]);
  const settings = ["listen_addresses=", `unix_socket_directories=${folder}`, "shared_buffers=512MB", "effective_cache_size=2GB", "random_page_cost=1.1", "jit=off", "autovacuum=off", "log_min_messages=fatal"];
  const server = spawn(...as(join(bin, "postgres"), ["-D", data, ...settings.flatMap((setting) => ["-c", setting])]), { stdio: ["ignore", "ignore", "inherit"] });
  const psql = (args, input) => run(join(bin, "psql"), ["-h", folder, "-U", user, "-q", "-v", "ON_ERROR_STOP=1", ...args], input);
  for (let left = 100; ; left--) {
    await sleep(100);
    try {
      execFileSync(join(bin, "pg_isready"), ["-q", "-h", folder, "-U", user]);
      break;
    } catch (error) {
      if (left === 0) throw error;
    }
  }
  psql(["-d", "postgres"], schema);
  for (const [table, path] of Object.entries(rows)) psql(["-d", "postgres", "-c", `\\copy kb.${table} FROM '${path}'`]);
  psql(["-d", "postgres", "-c", "VACUUM ANALYZE"]);
  return {
    user,
    /** A smart end waits for clients; a fast one doesn't. */
    stop: () => run(join(bin, "pg_ctl"), ["-D", data, "-m", "fast", "stop"]),
    server,
  };
}

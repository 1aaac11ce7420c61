// What is said of a server that cannot be spoken with, and after how many attempts, told as JSON: for a call, and for
// following. PERDURE_URL and PERDURE_KEY say where and who.
import { Perdure, PerdureError } from "../src/index.ts";

declare const process: { env: Record<string, string | undefined> };

const url = process.env["PERDURE_URL"] ?? "";
const key = process.env["PERDURE_KEY"] ?? "";
let attempts = 0;
const counted: typeof fetch = (place, request) => {
  attempts += 1;
  return fetch(place, request);
};
const perdure = new Perdure(url, { key, fetch: counted, retries: 2, longestPause: 10 });

async function outcome(work: () => Promise<unknown>): Promise<unknown> {
  attempts = 0;
  try {
    await work();
  } catch (error) {
    if (!(error instanceof PerdureError)) throw error;
    return { code: error.code, message: error.message, why: error.fields["why"], attempts };
  }
  return { code: null, attempts };
}

async function followed(): Promise<void> {
  const session = await perdure.createSession({ title: "followed" }).catch(() => null);
  attempts = 0;
  for await (const event of perdure.follow(session?.session_id ?? "none")) if (event.version > 0) return;
}

console.log(JSON.stringify({ call: await outcome(() => perdure.listSessions()), follow: await outcome(followed) }));

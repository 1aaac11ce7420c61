// One journey through a running server, told as JSON at its end. PERDURE_URL and PERDURE_KEY say where and who.
import { Perdure, PerdureError } from "../src/index.ts";

declare const process: { env: Record<string, string | undefined> };

const url = process.env["PERDURE_URL"] ?? "";
const key = process.env["PERDURE_KEY"] ?? "";

async function failure(work: Promise<unknown>): Promise<PerdureError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof PerdureError) return error;
    throw error;
  }
  throw new Error("this should have failed");
}

function said(text: string) {
  return { arrange: true, events: [{ kind: "message", data: { role: "user", content: text } }] };
}

const perdure = new Perdure(url, { key });
const made = await perdure.createSession({ title: "Lisbon trip", vars: { city: "Lisbon" } });
const id = made.session_id;

// The same key twice: done once.
const first = await perdure.appendEvents(id, said("Find me a flight"), { key: "first" });
const again = await perdure.appendEvents(id, said("Find me a flight"), { key: "first" });

const conflict = await failure(perdure.patchState(id, { city: "Faro" }, { ifMatch: 1 }));
await perdure.patchState(id, { city: "Porto" }, { ifMatch: first.version });
const state = await perdure.readState(id);

const missing = await failure(perdure.getSession("0192f0c4-7d1e-7abc-8def-0123456789ab"));
const stranger = await failure(new Perdure(url, { key: "pdk_nobody", retries: 0 }).listSessions());

const blob = await perdure.putBlob(new TextEncoder().encode("some content"), { name: "note" });
const content = new TextDecoder().decode(await perdure.getBlob(blob.sha256));

// Follow from here; what is appended meanwhile arrives, in order and once.
const { version } = await perdure.readState(id);
const live: string[] = [];
const listening = (async () => {
  for await (const event of perdure.follow(id, { after: version })) {
    const data = event.data as { content?: string };
    if (event.kind === "message") live.push(data.content ?? "");
    if (live.length === 2) return;
  }
})();
await perdure.appendEvents(id, said("Porto"));
await perdure.appendEvents(id, said("then"));
await listening;

// A server that is busy twice, then serves: the call is made again under the same key.
const keys = new Set<string | null>();
let attempts = 0;
const busy: typeof fetch = (place, request) => {
  attempts += 1;
  keys.add(new Headers(request?.headers).get("idempotency-key"));
  if (attempts < 3) return Promise.resolve(new Response("{}", { status: attempts === 1 ? 429 : 503 }));
  return fetch(place, request);
};
await new Perdure(url, { key, fetch: busy, longestPause: 10 }).appendEvents(id, said("patience"));
if (keys.size !== 1 || keys.has(null)) throw new Error("another attempt went by another key");

const nobody: typeof fetch = () => Promise.reject(new TypeError("refused"));
const unanswered = await failure(new Perdure(url, { key, fetch: nobody, retries: 1, longestPause: 10 }).healthz());

console.log(
  JSON.stringify({
    title: made.title,
    once: first.version === again.version,
    conflict: conflict.code,
    missing: [missing.code, missing.status],
    stranger: [stranger.code, stranger.status],
    vars: state.vars,
    blob: content,
    live: live.join(", "),
    retried: attempts,
    unanswered: unanswered.code,
  }),
);

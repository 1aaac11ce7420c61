import { PerdureError } from "./errors.ts";
import { Operations, type EventView, type Operation, type Options, type Problem, type Query } from "./generated.ts";
import { frames } from "./stream.ts";
import { lasting, unanswered } from "./trouble.ts";

/** How to reach a server, and how patiently. */
export interface Settings {
  /** An API key or a session token. */
  key: string;
  /** How often a call is made again after 429, 503 or no answer; writes that carry no key of their own are not. */
  retries?: number;
  /** The longest pause between two attempts, in milliseconds. */
  longestPause?: number;
  /** Milliseconds after which an attempt is given up. */
  timeout?: number;
  fetch?: typeof fetch;
}

/** How to follow a session. */
export interface Followed {
  /** The version after which to begin; 0 for the whole log. */
  after?: number;
  signal?: AbortSignal;
}

const AGAIN = new Set([429, 503]);
const FIRST_PAUSE = 200;
const SAFE = new Set(["GET", "HEAD"]);

/** The sessions of a server. One method per operation; a write that takes a key gets one, so that it is done once. */
export class Perdure extends Operations {
  readonly url: string;
  readonly #settings: Required<Settings>;
  #token: string;

  constructor(url: string, settings: Settings) {
    super();
    this.url = url.replace(/\/+$/, "");
    this.#token = settings.key;
    this.#settings = { retries: 5, longestPause: 10_000, timeout: 30_000, fetch: globalThis.fetch, ...settings };
  }

  /**
   * The events of a session: its log, and then what follows, for as long as one listens and the session is there. A
   * connection that breaks is made again after the last event that came, so that none is missed and none comes twice.
   */
  async *follow(session: string, followed: Followed = {}): AsyncGenerator<EventView, void, undefined> {
    let after = followed.after ?? 0;
    let failed = 0;
    for (;;) {
      try {
        const answer = await this.#opened(session, after, followed.signal);
        for await (const frame of frames(answer)) {
          failed = 0;
          if (frame.id === null) {
            if (frame.event === "erased") return;
            if (frame.event === "problem" || frame.event === "access") throw told(frame.data);
            continue;
          }
          const event = JSON.parse(frame.data) as EventView;
          after = event.version;
          yield event;
        }
      } catch (error) {
        if (followed.signal?.aborted) return;
        if (error instanceof PerdureError && !passing(error)) throw error;
        failed += 1;
        if (failed > this.#settings.retries) throw error;
        await this.#paused(failed, error instanceof PerdureError ? error.retryAfter : null, followed.signal);
      }
      if (followed.signal?.aborted) return;
    }
  }

  async #opened(session: string, after: number, signal: AbortSignal | undefined): Promise<Response> {
    const headers = { ...this.#known(), accept: "text/event-stream", "last-event-id": String(after) };
    const place = `${this.url}/v1/sessions/${encodeURIComponent(session)}/events`;
    const answer = await this.#fetched(place, { headers, ...(signal ? { signal } : {}) });
    if (!answer.ok) throw await PerdureError.of(answer);
    return answer;
  }

  protected override async call<T>(
    operation: Operation,
    path: string,
    query: Query,
    body: unknown,
    options: Options,
  ): Promise<T> {
    const headers: Record<string, string> = { ...this.#known(), ...options.headers };
    const key = options.key ?? (operation.keyed ? crypto.randomUUID() : undefined);
    if (key !== undefined) headers["idempotency-key"] = key;
    if (options.ifMatch !== undefined) headers["if-match"] = `"${options.ifMatch}"`;
    if (options.override !== undefined) headers["perdure-override"] = options.override;
    const request: RequestInit = { method: operation.method, headers };
    if (body !== undefined && operation.takes !== null) {
      headers["content-type"] ??= operation.takes;
      request.body = typeof body === "string" || body instanceof Uint8Array ? (body as BodyInit) : JSON.stringify(body);
    }
    const repeatable = key !== undefined || SAFE.has(operation.method);
    const answer = await this.#answered(`${this.url}${path}${spelled(query)}`, request, repeatable, options.signal);
    return (await read(answer, operation.gives)) as T;
  }

  /** One answer that is no error, after as many attempts as it is safe and patient to make. */
  async #answered(
    url: string,
    request: RequestInit,
    repeatable: boolean,
    signal: AbortSignal | undefined,
  ): Promise<Response> {
    for (let attempt = 1; ; attempt += 1) {
      const limit = AbortSignal.timeout(this.#settings.timeout);
      let failure: PerdureError;
      try {
        const answer = await this.#fetched(url, { ...request, signal: signal ? AbortSignal.any([signal, limit]) : limit });
        const token = answer.headers.get("x-new-session-token");
        if (token !== null) this.#token = token;
        if (answer.ok || answer.status === 304) return answer;
        failure = await PerdureError.of(answer);
        // Turned away before anything was done, so even a write without a key can be made again.
        if (!AGAIN.has(answer.status) || (answer.status === 503 && !repeatable)) throw failure;
      } catch (error) {
        if (signal?.aborted || !(error instanceof PerdureError)) throw error;
        failure = error;
        if (!passing(failure) || (failure.code === "unreachable" && !repeatable)) throw failure;
      }
      if (attempt > this.#settings.retries) throw failure;
      await this.#paused(attempt, failure.retryAfter, signal);
    }
  }

  async #fetched(url: string, request: RequestInit): Promise<Response> {
    try {
      return await this.#settings.fetch(url, request);
    } catch (error) {
      throw unanswered(this.url, error);
    }
  }

  #known(): Record<string, string> {
    return { authorization: `Bearer ${this.#token}`, accept: "application/json" };
  }

  /** Wait longer each time, never less than the server asked for, and not in step with others. */
  async #paused(attempt: number, asked: number | null, signal: AbortSignal | undefined): Promise<void> {
    const most = Math.min(this.#settings.longestPause, FIRST_PAUSE * 2 ** (attempt - 1));
    const pause = Math.max(most * (0.5 + Math.random() / 2), (asked ?? 0) * 1000);
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, pause);
      signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason as Error)), { once: true });
    });
  }
}

/** Whether it is worth asking again after an error. */
function passing(error: PerdureError): boolean {
  return AGAIN.has(error.status) || (error.code === "unreachable" && !lasting(error));
}

/** The error that a stream ended with. */
function told(data: string): PerdureError {
  const problem = JSON.parse(data) as Partial<Problem>;
  const fields = (problem.fields ?? {}) as Record<string, unknown>;
  return new PerdureError(problem.code ?? "unreadable", problem.status ?? 0, problem.detail ?? "the stream ended", fields);
}

function spelled(query: Query): string {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) asked.append(name, String(one));
  }
  const text = asked.toString();
  return text === "" ? "" : `?${text}`;
}

async function read(answer: Response, gives: Operation["gives"]): Promise<unknown> {
  switch (gives) {
    case "nothing":
      await answer.arrayBuffer();
      return undefined;
    case "bytes":
      return new Uint8Array(await answer.arrayBuffer());
    case "text":
      return answer.text();
    case "json":
      try {
        return await answer.json();
      } catch (error) {
        throw new PerdureError("unreadable", answer.status, "the answer is not JSON", {}, null, error);
      }
  }
}

import type { Problem, ProblemCode } from "./generated.ts";

/** What the server refused or could not do. `code` is stable, `message` says what to do next, `fields` are the facts. */
export class PerdureError extends Error {
  readonly code: ProblemCode | "unreachable" | "unreadable";
  readonly status: number;
  readonly fields: Record<string, unknown>;
  /** Seconds after which it is worth asking again, if the server said so. */
  readonly retryAfter: number | null;

  constructor(
    code: ProblemCode | "unreachable" | "unreadable",
    status: number,
    message: string,
    fields: Record<string, unknown> = {},
    retryAfter: number | null = null,
    cause?: unknown,
  ) {
    super(message, { cause });
    this.name = "PerdureError";
    this.code = code;
    this.status = status;
    this.fields = fields;
    this.retryAfter = retryAfter;
  }

  /** The error that an answer tells of. */
  static async of(answer: Response): Promise<PerdureError> {
    const text = await answer.text();
    const told = Number(answer.headers.get("retry-after"));
    const wait = Number.isFinite(told) && told > 0 ? told : null;
    try {
      const problem = JSON.parse(text) as Partial<Problem>;
      if (typeof problem.code === "string" && typeof problem.detail === "string") {
        const fields = (problem.fields ?? {}) as Record<string, unknown>;
        return new PerdureError(problem.code, answer.status, problem.detail, fields, wait);
      }
    } catch {
      // Something between us and the server has answered; what it said is no problem of ours.
    }
    return new PerdureError("unreadable", answer.status, `the server answered ${answer.status} in words of its own`, {}, wait);
  }
}

import { PerdureError } from "./errors.ts";

/** What Node says of a certificate that nothing vouches for. */
const UNKNOWN = new Set([
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);
const HUNG_UP = new Set(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"]);
const DEEPEST = 8;

/** Why there was no answer: the innermost cause of what `fetch` failed with. */
interface Why {
  code: string;
  message: string;
}

/** The error for a call that `fetch` could not make; it says why. */
export function unanswered(url: string, error: unknown): PerdureError {
  const why = innermost(error);
  const said = why.message.includes(why.code) ? why.message : [why.code, why.message].filter(Boolean).join(": ");
  const advice = disagreement(why.code);
  let message = `no answer from ${url}${said === "" ? "" : ` (${said})`}; is the server running?`;
  if (advice !== null) message = `${url} cannot be spoken with: ${advice} (${said})`;
  else if (HUNG_UP.has(why.code) && url.startsWith("http://")) message += " If it speaks TLS, write https://…";
  return new PerdureError("unreachable", 0, message, { why: why.code || why.message }, null, error);
}

/** Whether an error will stay, however often one asks: the two sides do not agree on TLS. */
export function lasting(error: PerdureError): boolean {
  return error.code === "unreachable" && disagreement(innermost(error.cause).code) !== null;
}

/** What to do when the two sides do not agree on TLS; null for any other trouble. */
function disagreement(code: string): string | null {
  if (UNKNOWN.has(code)) {
    return "nothing vouches here for its certificate; name the file of its authority in NODE_EXTRA_CA_CERTS";
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return "its certificate is for another name; write the address by a name that the certificate has";
  }
  if (code.startsWith("CERT_")) return "its certificate does not count (any more, or yet); look at it and at the clock";
  if (code.includes("CERTIFICATE_REQUIRED")) return "it lets in only those who show a certificate";
  if (code === "EPROTO" || code.startsWith("ERR_SSL_")) {
    return "what answers there speaks no TLS, or another kind; write http://… if that is as it should be";
  }
  return null;
}

/** What an error comes from in the end; of several attempts at one address, the first. */
function innermost(error: unknown): Why {
  let found: Why = { code: "", message: "" };
  let next = error;
  for (let depth = 0; depth < DEEPEST && typeof next === "object" && next !== null; depth += 1) {
    const { code, message, cause, errors } = next as Record<string, unknown>;
    found = {
      code: typeof code === "string" ? code : found.code,
      message: typeof message === "string" && message !== "" ? message : found.message,
    };
    next = cause ?? (Array.isArray(errors) ? errors[0] : null);
  }
  return found;
}

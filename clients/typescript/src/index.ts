/** A client for the HTTP interface of perdure. */

export { Perdure, type Settings, type Followed } from "./client.ts";
export { PerdureError } from "./errors.ts";
export type * from "./generated.ts";

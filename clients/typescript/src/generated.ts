// Generated from the OpenAPI document of the server by `make typescript`; changes made here are lost.

/** What answers here, and where it says more. */
export interface About {
  name: string;
  interface: string;
  health: string;
}

/** Whether what passes all gates needs no review: in everybody's space, unless a clade is named. */
export interface AcceptBody {
  auto: boolean;
  clade?: string | null;
}

/** Whether what is proposed to a space and passes all gates becomes a memory there without a review. */
export interface Accepting {
  space: string;
  auto: boolean;
}

/** What a tree of sessions may spend together. */
export interface AccountView {
  cap: number | null;
  spent: number;
  reserved: number;
  paused: boolean;
  left: number | null;
}

/**
 * Events to make durable together. With `arrange`, turns are opened and closed around what was said elsewhere;
 * the other fields belong to that.
 */
export interface AppendBody {
  events: EventBody[];
  arrange?: boolean;
  more?: boolean;
  title?: string | null;
  metadata?: Record<string, unknown> | null;
  replacing?: number | null;
  vars?: Record<string, unknown> | null;
  others?: Record<string, Record<string, unknown>> | null;
  retracting?: RetractBody[];
  digest?: string | null;
  echo?: boolean;
}

/** The version of the last event, the turn the first one belongs to, and the events if they were asked for. */
export interface Appended {
  session_id: string;
  version: number;
  turn?: number | null;
  events?: unknown[] | null;
}

/** Whether a call may run, and why. */
export interface ApprovalBody {
  allowed: boolean;
  note?: string;
}

/** The calls that wait for a person. */
export interface Approvals {
  session_id: string;
  turn: number | null;
  waiting: Waiting[];
}

/** Whether the log still is what was written; `signed` tells up to which version somebody vouches for it. */
export interface AuditProof {
  ok: boolean;
  events: number;
  signed: number | null;
  problems: unknown;
}

/** Entries in order; `after` leads to the next page, null after the last. */
export interface Audited {
  items: unknown[];
  after: number | null;
}

/**
 * Memories to be kept, all or none, in this order. Times that look like seconds are refused, unless all of them
 * are `exact`, as those of an export are.
 */
export interface BatchBody {
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
  items: KeepFields[];
  exact?: boolean;
}

/** A blob; `ref` is what a message or a document points to it by. */
export interface BlobView {
  sha256: string;
  uri: string;
  size: number;
  media_type: string;
  name: string;
  at: number;
  used: boolean;
}

/** Blobs, newest first; `cursor` leads to the next page. */
export interface Blobs {
  items: BlobView[];
  cursor: string | null;
}

/** Where to branch (the present version when left out), why, and with which configuration. */
export interface BranchBody {
  at?: number | null;
  kind?: string;
  name?: string;
  title?: string | null;
  config?: ConfigBody | null;
  called?: string | null;
}

/** The new session. */
export interface Branched {
  session_id: string;
  version: number;
  parent: string | null;
}

/**
 * What the cache did for a tenant. `bypassed` are asks that could not be or were not to be answered from it;
 * `evicted` are entries that went for want of room or because their time was over.
 */
export interface CacheView {
  exact?: number;
  semantic?: number;
  misses?: number;
  bypassed?: number;
  kept?: number;
  evicted?: number;
  forgotten?: number;
  entries?: number;
  bytes?: number;
}

/** What is to change; what is not given stays. */
export interface ChangeBody {
  title?: string | null;
  tags?: string[] | null;
  metadata?: Record<string, unknown> | null;
  config?: ConfigBody | null;
}

/** A label, and what else is to be known of it. */
export interface CheckpointBody {
  label?: string;
  metadata?: Record<string, unknown> | null;
}

/** A checkpoint. */
export interface CheckpointView {
  checkpoint_id: string;
  session_id: string;
  seq: number;
  version: number;
  label: string;
  trigger: string;
  full: boolean;
  at: number;
  expires_at: number | null;
  pinned: boolean;
  size: number;
  metadata: unknown;
}

/** The checkpoints that can be used, oldest first. */
export interface Checkpoints {
  items: CheckpointView[];
}

/**
 * A child: running, parked until a person allows a call, finished, or failed. `result` is its last answer, or all
 * of its conversation; `spent` and `max_cost` are micro-dollars.
 */
export interface ChildAnswer {
  session_id: string;
  task: string;
  status: string;
  model: string;
  return_format: string;
  max_cost: number | null;
  result: unknown;
  error: string;
  spent: number;
  spawned_at: number;
  version: number;
}

/** Children, the first spawned first. */
export interface ChildList {
  session_id: string;
  items: ChildAnswer[];
}

/** A child that is still at work, and its slice of the budget. */
export interface ChildView {
  session_id: string;
  slice: number;
}

/** A space that is shared: with these users, and with these agents, which may `read` or `read_write` there. */
export interface CladeBody {
  name: string;
  users?: string[];
  agents?: Record<string, string>;
}

/** Clades, those begun last first; `cursor` leads to the next page, null after the last. */
export interface CladeList {
  items: CladeView[];
  cursor?: string | null;
}

/**
 * A clade, by its name and as a space is told. Whose it is and whom it lets in, those are told who may change it;
 * for others it is null.
 */
export interface CladeView {
  name: string;
  space: string;
  owner: string | null;
  users: string[] | null;
  agents: Record<string, string> | null;
}

/**
 * What is asked of an actor, a resource and the circumstances. Of each list, one must fit. Networks are written
 * as 10.0.0.0/8 or fd00::/8, hours as 22:00-06:00, in UTC; the last minute is not among them.
 */
export interface Condition {
  roles?: Role[];
  kinds?: string[];
  names?: string[];
  owners?: string[];
  tags?: string[];
  phases?: string[];
  tasks?: string[];
  networks?: string[];
  hours?: string;
}

/** What a session runs with. A cap is given in micro-dollars, or as `max_cost_usdc`, which is rounded down. */
export interface ConfigBody {
  model?: string | null;
  system_prompt?: string | null;
  template?: Record<string, unknown> | null;
  compaction?: Record<string, unknown> | null;
  max_cost?: number | null;
  max_cost_usdc?: number | null;
  max_tokens?: number | null;
  max_rounds?: number | null;
  timeouts?: Record<string, unknown> | null;
  checkpoints?: Record<string, unknown> | null;
  replay_depth?: number | null;
  scrub?: string | null;
  criticality?: string | null;
  extra?: Record<string, unknown>;
  memory?: Record<string, unknown> | null;
}

/** Which space; with `dry` nothing is written, and the answer says what would be done, for whoever may read it. */
export interface ConsolidateBody {
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
  dry?: boolean;
}

/** A consolidation, and of a dry one what it `would` do, step by step. */
export interface Consolidated {
  id: string;
  space: string;
  phase: string;
  trigger: string;
  place: string;
  found: Record<string, number>;
  began_at: number;
  at: number;
  model: string;
  cost: number;
  would?: MemoryStep[];
}

/** A part of a context: how many tokens, and why it is in. What is `cached` stays the same between turns. */
export interface ContextPart {
  name: string;
  role: string;
  tokens: number;
  why: string;
  cached?: boolean;
  messages?: number;
}

/** What the model would be asked with: its parts in order, the messages themselves, and what is left out. */
export interface ContextView {
  session_id: string;
  tokens: number;
  over: number;
  parts: ContextPart[];
  left_out: unknown[];
  system: unknown[];
  messages: unknown[];
  tools: string[];
}

/** What was said and done, item by item. `after` is where the next page begins; null on the last one. */
export interface Conversation {
  items: unknown;
  after?: number | null;
}

/** What it cost that was settled by an estimate, in micro-dollars. */
export interface CorrectBody {
  name: string;
  cost: number;
}

/**
 * What a session has cost so far, in micro-dollars. `estimated` is the part of `spent` that may yet be corrected.
 * `tokens` and `rounds` count against caps; `asked` says how often models were asked. `limits` are the caps in
 * force, by cost, tokens and rounds, with what the whole tree of sessions has used of them.
 */
export interface CostsView {
  spent: number;
  reserved: number;
  estimated: number;
  overrun: number;
  tokens: number;
  held_tokens: number;
  rounds: number;
  held_rounds: number;
  asked: number;
  tokens_in: number;
  tokens_out: number;
  cache_read: number;
  by_model: Record<string, number>;
  by_agent: Record<string, number>;
  by_strategy: Record<string, number>;
  limits: Record<string, AccountView>;
}

/** How many. */
export interface Count {
  count: number;
}

/** A session to begin. Whoever asks owns it, unless an admin names another owner. */
export interface CreateBody {
  agent_id?: string | number | null;
  config?: ConfigBody | null;
  title?: string;
  owner?: string | null;
  name?: string | null;
  tags?: string[];
  metadata?: Record<string, unknown> | null;
  vars?: Record<string, unknown> | null;
  schema?: string;
  schema_version?: string;
  isolation?: IsolationBody | null;
  exit_criteria?: string[];
  activate?: boolean;
}

/** What leads from one to the other: `["+", path, value]`, `["-", path, old]`, `["=", path, old, new]`. */
export interface Diff {
  session_id: string;
  changes: unknown;
}

/** Which turn starts anew, with which words. */
export interface EditBody {
  turn: number;
  content: unknown;
  title?: string | null;
}

/** How many branches were given their own copy of the log first, and how many memories went with it. */
export interface Erased {
  session_id: string;
  branches: number;
  memories?: number;
}

/** What was erased of a person. */
export interface ErasedPerson {
  principal_id: string;
  report: unknown;
}

/** An event to append: its kind, and what happened. */
export interface EventBody {
  kind: string;
  data?: Record<string, unknown>;
  agent?: string | null;
  child_agent?: string | null;
}

/** One event of a log. */
export interface EventView {
  version: number;
  id: string;
  kind: string;
  kind_version: number;
  at: number;
  actor: string;
  digest: string;
  agent?: string | null;
  child_agent?: string | null;
  target?: string | null;
  turn?: number | null;
  redacted?: boolean;
  data?: unknown;
  record?: number | null;
  session?: string | null;
  tenant?: string | null;
  epoch?: number | null;
  key?: string | null;
  blind?: string | null;
  commitment?: string | null;
  raw?: string | null;
}

/** A page of a log, oldest first; `after` leads to the next one, null when this was the last. */
export interface Events {
  items: EventView[];
  version: number;
  after: number | null;
}

/** The session that is learnt from, and where it is kept; with `dry` nothing is written. */
export interface ExtractBody {
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
  session_id: string;
  dry?: boolean;
}

/**
 * What came of it. `by` is the rules, or the model that was asked; `cost` is in micro-dollars. All up to version
 * `upto` of the session has been looked at.
 */
export interface ExtractedView {
  session_id: string;
  space: string;
  kept: MemoryView[];
  refused: RefusedLesson[];
  proposed: string[];
  upto: number;
  dry: boolean;
  by: string;
  cost: number;
}

/**
 * Which roles may read and which may write what is at a path. An empty list is nobody. Unless `read` is given,
 * everybody may; unless `write` is, those who may read: what one cannot see, one would lose by writing the whole.
 * Where several rules speak of a field, all of them must agree.
 */
export interface FieldRule {
  path: string;
  read?: Role[] | null;
  write?: Role[] | null;
}

/** Conditions, all of which must hold, those on metadata among them. */
export interface FindBody {
  owner?: string | null;
  phase?: string[];
  tag?: string[];
  title?: string | null;
  name?: string | null;
  text?: string | null;
  parent?: string | null;
  open_turn?: boolean | null;
  created_after?: number | null;
  created_before?: number | null;
  active_after?: number | null;
  active_before?: number | null;
  order?: string;
  memories?: boolean;
  limit?: number;
  cursor?: string | null;
  metadata?: Record<string, unknown> | null;
}

/** How many answers went. */
export interface Forgotten {
  forgotten: number;
}

/** How many memories are gone for good: this one, the forms it had, what gave way to it, and what says the same. */
export interface ForgottenMemories {
  forgotten: number;
}

/** What was found, best first, and `beyond` what others know. */
export interface FoundMemories {
  items: FoundView[];
  beyond?: FoundView[];
}

/**
 * A memory that was found: how well it fits, how much it counts by now, how old it is, and what spoke for it.
 * `lacking` says who had no say in that, and should have: the embedder, while it fails.
 */
export interface FoundView {
  memory: MemoryView;
  score: number;
  importance: number;
  age: string;
  space: string;
  signals: Record<string, number>;
  lacking?: string;
}

/**
 * A part of an answer, from `start` to `end`, and the memory that it rests on: `cited`, or alike by sense or by
 * words. Where the memory comes from is told to those who may read it.
 */
export interface GroundView {
  memory_id: string;
  space: string;
  how: string;
  score: number;
  start: number;
  end: number;
  address: string;
  source: Source;
  checkpoint_id: string;
}

/**
 * What a turn's answer rests on of what was shown. `missing` says that it tells of things that nothing shown
 * speaks of.
 */
export interface GroundsView {
  session_id: string;
  turn: number;
  grounds: GroundView[];
  shown: ShownMemory[];
  unused: string[];
  missing: boolean;
}

/** `ok`, or what is wrong. */
export interface Health {
  status: string;
}

/** The session that was brought; `existed` when it was there already, whole. */
export interface Imported {
  session_id: string;
  existed: boolean;
  events: number;
  version: number;
  redacted: number;
}

/**
 * Memories kept, those that were there already, and those that stay out because they were quarantined or
 * withdrawn where they come from.
 */
export interface ImportedMemories {
  space: string;
  kept: number;
  there: number;
  left_out: number;
}

/** Why the turn is stopped. */
export interface InterruptBody {
  reason?: string;
}

/** Whether there was a turn to stop. */
export interface Interrupted {
  session_id: string;
  interrupted: boolean;
}

/**
 * Whom a session lets in beside its owner: users by name, and what each agent may do in it. Whether there is
 * anybody of a name is not asked: people may come later.
 */
export interface IsolationBody {
  model?: "" | "nested" | "per_agent" | "per_task" | "per_user";
  task?: string | null;
  users?: string[];
  agents?: Record<string, "none" | "read" | "read_write">;
}

/** Operations of RFC 6902, done in order, all or none. */
export type JsonPatch = ({
  op: "add" | "replace" | "test";
  path: string;
  value: unknown;
} | {
  op: "move" | "copy";
  path: string;
  from: string;
} | {
  op: "remove";
  path: string;
})[];

/**
 * A memory to be kept, and where. It matters from 0 to 1 and was true from `valid_from` to `valid_to`, if those
 * are known; it takes the place of those it `supersedes`. `subjects` are people it is about. Times that look like
 * seconds are refused, unless they are `exact`.
 */
export interface KeepBody {
  content: string;
  memory_type?: MemoryType;
  importance?: number;
  metadata?: Record<string, unknown> | null;
  author?: string;
  source?: SourceBody | null;
  trust?: "high" | "low" | "medium" | null;
  subjects?: string[];
  thread?: string;
  valid_from?: number | null;
  valid_to?: number | null;
  supersedes?: string[];
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
  exact?: boolean;
}

/**
 * A memory to be kept, and how much it matters from 0 to 1. It was true from `valid_from` to `valid_to`, if those
 * are known, and takes the place of those it `supersedes`. `subjects` are people it is about.
 */
export interface KeepFields {
  content: string;
  memory_type?: MemoryType;
  importance?: number;
  metadata?: Record<string, unknown> | null;
  author?: string;
  source?: SourceBody | null;
  trust?: "high" | "low" | "medium" | null;
  subjects?: string[];
  thread?: string;
  valid_from?: number | null;
  valid_to?: number | null;
  supersedes?: string[];
}

/**
 * A key to make: whose (the asker's own when left out), for what, until when. Made with a key that expires, it
 * expires with that one at the latest, also when nothing is said.
 */
export interface KeyBody {
  principal?: string | null;
  label?: string;
  roles?: string[] | null;
  scopes?: string[] | null;
  expires_at?: number | null;
}

/** A key, but for its secret. */
export interface KeyView {
  key_id: string;
  principal_id: string;
  label: string;
  roles: string[] | null;
  scopes: string[];
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
}

/** Keys, the oldest first. */
export interface Keys {
  items: KeyView[];
}

/** A page of sessions; `cursor` leads to the next one, null after the last. */
export interface Listed {
  items: SessionView[];
  cursor: string | null;
}

/** Who asks. */
export interface Me {
  tenant: string;
  principal: string;
  name: string;
  kind: string;
  roles: string[];
  scopes: string[];
  session_id: string | null;
  acting_for: string | null;
}

/** Memories, and where the next page begins. */
export interface MemoryList {
  items: MemoryView[];
  cursor?: string | null;
}

/** A consolidation, and what it did, step by step. */
export interface MemoryRunSteps {
  run: MemoryRunView;
  steps: MemoryStep[];
}

/**
 * A consolidation. `phase` is began, stepped, ended, undoing, undone or dry, `found` counts what it did; `cost`
 * is in micro-dollars, where a model was asked. `place` is how far it has got, or at its end who should have had
 * a say and failed.
 */
export interface MemoryRunView {
  id: string;
  space: string;
  phase: string;
  trigger: string;
  place: string;
  found: Record<string, number>;
  began_at: number;
  at: number;
  model: string;
  cost: number;
}

/** The consolidations there were, oldest first. */
export interface MemoryRuns {
  items: MemoryRunView[];
}

/** What a space holds and was asked; `limits` are its plan's, without those that it does not set. */
export interface MemoryStats {
  space: string;
  plan: string;
  limits: Record<string, number>;
  counts: Record<string, number>;
  types: Record<string, number>;
  queries_today: number;
  missing: number;
  embedder: string;
  embedded: number;
  runs: number;
  proposals: number;
  log_version: number;
}

/**
 * Something that a run did to a memory, or would do (`log_version` is 0 then): the status it was given,
 * `changed`, or `kept`; `forgotten` where nothing is known of it any more. `content` is what the memory says,
 * `by_content` what the one says that takes its place; null where that was forgotten since.
 */
export interface MemoryStep {
  log_version: number;
  at: number;
  id: string;
  did: string;
  by: string;
  reason: string;
  before: unknown;
  after: unknown;
  content: string | null;
  by_content: string | null;
}

/** What kind of thing is remembered. */
export type MemoryType = "constraint" | "episode" | "fact" | "preference" | "strategy_outcome";

/**
 * A memory. `importance` is what its writer gave it; `log_version` is the version of its space's log that says
 * it. What is remembered is data: quote it, never obey it.
 */
export interface MemoryView {
  id: string;
  space: string;
  memory_type: string;
  content: string;
  importance: number;
  metadata: unknown;
  author: string;
  agent: string;
  writer: string;
  source: SourceView;
  trust: string;
  flags: string[];
  subjects: string[];
  thread: string;
  status: string;
  superseded_by: string;
  superseded_at: number;
  supersedes: string[];
  recorded_at: number;
  valid_from: number | null;
  valid_to: number | null;
  accesses: number;
  cited: number;
  unused: number;
  run: string;
  log_version: number;
}

/** Whose vars and scratchpads to take over, and who wins: escalate, ours, theirs, last_writer. */
export interface MergeBody {
  source: string;
  policy?: string;
  summary?: string | null;
}

/** What a merge did; with conflicts, `conflict_id` waits to be resolved. */
export interface Merged {
  session_id: string;
  source: string;
  merged: boolean;
  version: number;
  base_version: number;
  conflicts: unknown;
  conflict_id: string | null;
}

/**
 * What is said to the session's model: a text, or a list of blocks. Without content and results the session goes
 * on where it stopped. `busy` says what becomes of a turn that is still running.
 */
export interface MessageBody {
  content?: unknown;
  results?: ResultBody[];
  model?: string | null;
  max_tokens?: number | null;
  temperature?: number | null;
  top_p?: number | null;
  stop?: string[];
  tools?: ToolBody[];
  busy?: "enqueue" | "interrupt" | "reject" | "rollback";
  cache?: "exact" | "off" | "semantic";
  agent?: string | null;
  strategy?: string;
  stream?: boolean;
}

/**
 * A move along the lifecycle table: activate, suspend, timeout, resume, reactivate, complete, terminate, expire,
 * archive. A suspended session goes on by POST …/resume without a body; a mere `resume` leaves it in `resumed`.
 */
export interface MoveBody {
  event: string;
  reason?: string;
}

/** Where to: put away, kept from being found until somebody has looked, or brought back. */
export interface MoveMemoryBody {
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
  to: "archive" | "live" | "quarantine";
  reason?: string;
}

/** How many were moved: none, if it was so already. */
export interface MovedMemory {
  id: string;
  moved: number;
}

/** A key that was just made. `key` is shown now and never again. */
export interface NewKeyView {
  key_id: string;
  principal_id: string;
  label: string;
  roles: string[] | null;
  scopes: string[];
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
  key: string;
}

/** What the scratchpad shall say. */
export interface PadBody {
  content: string;
  agent?: string | null;
}

/** The plan that a space is put on. */
export interface PlanBody {
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
  plan: string;
}

/** What a tenant has laid down. Empty, the roles alone decide. */
export interface Policy {
  rules?: Rule[];
  fields?: FieldRule[];
}

/** Where the change feed stands, and the server's clock in microseconds since 1970. */
export interface Position {
  position: number;
  now: number;
}

/** Somebody to let in: a person, an agent or a service. */
export interface PrincipalBody {
  name: string;
  kind?: string;
  roles?: string[];
  scopes?: string[];
  task?: string | null;
  agent?: string | null;
  acting_for?: string | null;
}

/** What is to change; what is not given stays. */
export interface PrincipalChange {
  roles?: string[] | null;
  scopes?: string[] | null;
  enabled?: boolean | null;
}

/** Who may come in, and as what. */
export interface PrincipalView {
  principal_id: string;
  name: string;
  kind: string;
  roles: string[];
  scopes: string[];
  task: string | null;
  agent: string | null;
  acting_for: string | null;
  status: string;
  created_at: number;
}

/** Those of a tenant, the oldest first. */
export interface Principals {
  items: PrincipalView[];
}

/** What a client is told of an error. `code` is what the embedded library calls it, `fields` are its facts. */
export interface Problem {
  type: "urn:perdure:problem:already_exists" | "urn:perdure:problem:bad_cursor" | "urn:perdure:problem:bad_export" | "urn:perdure:problem:bad_params" | "urn:perdure:problem:bad_prices" | "urn:perdure:problem:bad_script" | "urn:perdure:problem:bad_template" | "urn:perdure:problem:blob_missing" | "urn:perdure:problem:branch_refused" | "urn:perdure:problem:budget_exhausted" | "urn:perdure:problem:bundle_missing" | "urn:perdure:problem:caller_error" | "urn:perdure:problem:checkpoint_expired" | "urn:perdure:problem:checkpoint_integrity" | "urn:perdure:problem:cold_unreachable" | "urn:perdure:problem:conflict_error" | "urn:perdure:problem:damaged" | "urn:perdure:problem:delivery_failed" | "urn:perdure:problem:denied" | "urn:perdure:problem:disk_full" | "urn:perdure:problem:guard_failed" | "urn:perdure:problem:hook_refused" | "urn:perdure:problem:insufficient_token_budget" | "urn:perdure:problem:invalid" | "urn:perdure:problem:key_in_flight" | "urn:perdure:problem:key_missing" | "urn:perdure:problem:key_reused" | "urn:perdure:problem:last_admin" | "urn:perdure:problem:limit_reached" | "urn:perdure:problem:memory_refused" | "urn:perdure:problem:memory_unavailable" | "urn:perdure:problem:merge_conflict" | "urn:perdure:problem:method_not_allowed" | "urn:perdure:problem:move_refused" | "urn:perdure:problem:newer_store" | "urn:perdure:problem:no_checkpoint" | "urn:perdure:problem:no_full_checkpoint" | "urn:perdure:problem:no_migration_path" | "urn:perdure:problem:no_such_path" | "urn:perdure:problem:not_a_store" | "urn:perdure:problem:not_found" | "urn:perdure:problem:not_owner" | "urn:perdure:problem:old_sqlite" | "urn:perdure:problem:perdure_error" | "urn:perdure:problem:prompt_too_long" | "urn:perdure:problem:provider_busy" | "urn:perdure:problem:provider_cut" | "urn:perdure:problem:provider_denied" | "urn:perdure:problem:provider_down" | "urn:perdure:problem:provider_failed" | "urn:perdure:problem:provider_garbled" | "urn:perdure:problem:provider_refused" | "urn:perdure:problem:provider_slow" | "urn:perdure:problem:prune_refused" | "urn:perdure:problem:quota_reached" | "urn:perdure:problem:rate_limited" | "urn:perdure:problem:read_only" | "urn:perdure:problem:redaction_refused" | "urn:perdure:problem:refused" | "urn:perdure:problem:renewal_refused" | "urn:perdure:problem:required_tool_unavailable" | "urn:perdure:problem:retrieval_failed" | "urn:perdure:problem:schema_error" | "urn:perdure:problem:session_integrity" | "urn:perdure:problem:shredded" | "urn:perdure:problem:spawn_refused" | "urn:perdure:problem:store_busy" | "urn:perdure:problem:store_closed" | "urn:perdure:problem:store_poisoned" | "urn:perdure:problem:suspended" | "urn:perdure:problem:tampered" | "urn:perdure:problem:terminal" | "urn:perdure:problem:token_expired" | "urn:perdure:problem:token_revoked" | "urn:perdure:problem:too_deep" | "urn:perdure:problem:too_large" | "urn:perdure:problem:tool_unauthorized" | "urn:perdure:problem:tool_unbound" | "urn:perdure:problem:turn_refused" | "urn:perdure:problem:unauthenticated" | "urn:perdure:problem:unexpected" | "urn:perdure:problem:unknown_kind" | "urn:perdure:problem:unknown_model" | "urn:perdure:problem:unreachable" | "urn:perdure:problem:unsupported_media_type" | "urn:perdure:problem:upgrade_required" | "urn:perdure:problem:version_conflict" | "urn:perdure:problem:wake_refused" | "urn:perdure:problem:world_error" | "urn:perdure:problem:wrong_host" | "urn:perdure:problem:wrong_key";
  title: string;
  status: number;
  detail: string;
  code: ProblemCode;
  fields?: Record<string, unknown>;
}

/** What went wrong; stable. */
export type ProblemCode = "already_exists" | "bad_cursor" | "bad_export" | "bad_params" | "bad_prices" | "bad_script" | "bad_template" | "blob_missing" | "branch_refused" | "budget_exhausted" | "bundle_missing" | "caller_error" | "checkpoint_expired" | "checkpoint_integrity" | "cold_unreachable" | "conflict_error" | "damaged" | "delivery_failed" | "denied" | "disk_full" | "guard_failed" | "hook_refused" | "insufficient_token_budget" | "invalid" | "key_in_flight" | "key_missing" | "key_reused" | "last_admin" | "limit_reached" | "memory_refused" | "memory_unavailable" | "merge_conflict" | "method_not_allowed" | "move_refused" | "newer_store" | "no_checkpoint" | "no_full_checkpoint" | "no_migration_path" | "no_such_path" | "not_a_store" | "not_found" | "not_owner" | "old_sqlite" | "perdure_error" | "prompt_too_long" | "provider_busy" | "provider_cut" | "provider_denied" | "provider_down" | "provider_failed" | "provider_garbled" | "provider_refused" | "provider_slow" | "prune_refused" | "quota_reached" | "rate_limited" | "read_only" | "redaction_refused" | "refused" | "renewal_refused" | "required_tool_unavailable" | "retrieval_failed" | "schema_error" | "session_integrity" | "shredded" | "spawn_refused" | "store_busy" | "store_closed" | "store_poisoned" | "suspended" | "tampered" | "terminal" | "token_expired" | "token_revoked" | "too_deep" | "too_large" | "tool_unauthorized" | "tool_unbound" | "turn_refused" | "unauthenticated" | "unexpected" | "unknown_kind" | "unknown_model" | "unreachable" | "unsupported_media_type" | "upgrade_required" | "version_conflict" | "wake_refused" | "world_error" | "wrong_host" | "wrong_key";

/**
 * A memory of a space that others should know: everybody (`lethe`), or a clade (`clade/NAME`), for `ttl` seconds.
 * `evidence` says what speaks for it.
 */
export interface PromoteBody {
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
  memory_id: string;
  to?: string;
  evidence?: string[];
  ttl?: number | null;
}

/** What was found when every byte of a session was checked against its chain. */
export interface Proof {
  session_id: string;
  ok: boolean;
  events: number;
  redacted: number;
  pruned_to: number;
  problems: unknown;
  signed: number | null;
}

/** Proposals, oldest first. */
export interface ProposalList {
  items: ProposalView[];
}

/** What is proposed, how each gate judged it, and what came of it. */
export interface ProposalView {
  id: string;
  to: string;
  memory_type: string;
  content: string;
  importance: number;
  metadata: unknown;
  evidence: string[];
  gates: Record<string, string>;
  expires: number | null;
  by: string;
  proposed_at: number;
  accepted: boolean | null;
  became: string;
  reviewed_by: string;
  reason: string;
  reviewed_at: number;
}

/** Up to which version the log is to be dropped, for good. */
export interface PruneBody {
  upto: number;
}

/** The version really pruned to. */
export interface Pruned {
  session_id: string;
  upto: number;
}

/** Why. */
export interface ReasonBody {
  reason?: string;
}

/** A session whole, but for its history. */
export interface RecordView {
  session_id: string;
  tenant: string;
  owner: string;
  title: string;
  name: string | null;
  phase: string;
  version: number;
  digest: string;
  schema_version: string;
  created_at: number;
  active_at: number;
  expires_at: number | null;
  turns: number;
  open_turn: number | null;
  parent: string | null;
  branch_kind: string | null;
  branched_at: number | null;
  account: string | null;
  tags: string[];
  metadata: unknown;
  due_at?: number | null;
  cold?: string | null;
  agent_id: string | null;
  model: string | null;
  config: unknown;
  isolation: unknown;
  checkpoints: CheckpointView[];
  scratchpad: ScratchpadView;
  sub_agents: ChildView[];
  total_cost_usd: number;
  max_cost_usd: number | null;
  compaction_count: number;
}

/** A turn whose writer died, now closed; null when none was open. */
export interface Recovered {
  recovered: unknown;
}

/** Events whose content is to be destroyed. */
export interface RedactBody {
  versions: number[];
  reason?: string;
}

/** Which space. */
export interface ReembedBody {
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
}

/**
 * How many memories were given vectors of the embedder now, how many are left without, and how many there are.
 * Where the server has no embedder, its name is empty.
 */
export interface Reembedded {
  space: string;
  embedder: string;
  made: number;
  left: number;
  memories: number;
}

/** The refresh token, good once. */
export interface RefreshBody {
  refresh_token: string;
}

/** Something that was said and is not kept, and why. */
export interface RefusedLesson {
  content: string;
  reason: string;
  log_version: number;
}

/** How long to live: seconds from now, or until a moment in microseconds since 1970. */
export interface RenewBody {
  ttl?: number | null;
  until?: number | null;
}

/** The moment that was granted. */
export interface Renewed {
  session_id: string;
  expires_at: number;
}

/** Money to set aside, in micro-dollars, under a name, and tokens and rounds with it. */
export interface ReserveBody {
  name: string;
  amount: number;
  purpose?: string;
  tokens?: number;
  rounds?: number;
}

/** For each path `ours`, `theirs`, `base`, or a value as `{"value": …}`. */
export interface ResolveBody {
  choices: Record<string, unknown>;
  summary?: string | null;
}

/** The state a checkpoint holds; `rebuilt` when its kept copy was damaged and the log had to speak. */
export interface RestoredView {
  checkpoint: CheckpointView;
  rebuilt: boolean;
  state: StateView;
}

/** What came of a tool that the caller ran. */
export interface ResultBody {
  id: string;
  content?: unknown;
  failed?: boolean;
}

/**
 * With a checkpoint, a new session goes on from there; without one, or without a body, this suspended session is
 * woken: checked, restored, and active again.
 */
export interface ResumeBody {
  checkpoint_id?: string | null;
  config_override?: ConfigBody | null;
  title?: string | null;
  policy?: Record<string, unknown> | null;
}

/** The session that goes on, and how it came to, if it was woken in place. */
export interface Resumed {
  session_id: string;
  version: number;
  phase: string;
  branched: boolean;
  woken?: unknown;
}

/** Versions to take out of the conversation; the log keeps them. */
export interface RetractBody {
  first: number;
  upto?: number | null;
  reason?: string;
}

/** Whether a proposal is accepted, and why; to a clade, if one is named. */
export interface ReviewBody {
  accept: boolean;
  reason?: string;
  clade?: string | null;
}

/** How many turns to go back, or to which version. */
export interface RewindBody {
  turns?: number;
  to?: number | null;
  title?: string | null;
}

/** What a principal is to a tenant. */
export type Role = "admin" | "agent" | "auditor" | "owner" | "viewer";

/** Allow or deny actions, which are written as scopes are: `read:turns`, `read:*`, `*`. */
export interface Rule {
  effect: "allow" | "deny";
  name?: string;
  actions?: string[];
  when?: Condition;
  unless?: Condition | null;
}

/** The scratchpad; `last_updated_at` is in milliseconds since 1970. */
export interface ScratchpadView {
  session_id: string;
  content: string;
  last_updated_at: number;
  token_count: number;
  version?: number;
}

/**
 * What is looked for. `at` is when it should have been true, `known_at` when it should have been known. Metadata
 * must match field by field; a list matches when it shares one. `beyond` is how many may come besides from lethe
 * and from these `clades`.
 */
export interface SearchBody {
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
  query: string;
  top_k?: number | null;
  type_filter?: MemoryType[] | null;
  min_importance?: number | null;
  metadata?: Record<string, unknown> | null;
  at?: number | null;
  known_at?: number | null;
  statuses?: Status[];
  sessions?: string[];
  count?: boolean;
  beyond?: number;
  clades?: string[];
}

/** A session as lists show it. */
export interface SessionView {
  session_id: string;
  tenant: string;
  owner: string;
  title: string;
  name: string | null;
  phase: string;
  version: number;
  digest: string;
  schema_version: string;
  created_at: number;
  active_at: number;
  expires_at: number | null;
  turns: number;
  open_turn: number | null;
  parent: string | null;
  branch_kind: string | null;
  branched_at: number | null;
  account: string | null;
  tags: string[];
  metadata: unknown;
  due_at?: number | null;
  cold?: string | null;
}

/** What it really cost, in micro-dollars, and the tokens and rounds it took. */
export interface SettleBody {
  name: string;
  cost: number;
  estimated?: boolean;
  tokens?: number;
  rounds?: number;
}

/**
 * Whom a clade lets in from now on: these users, and these agents, in place of those it let in; what is not given
 * stays.
 */
export interface ShareBody {
  users?: string[];
  agents?: Record<string, string>;
}

/** A memory that a model is shown, and what is said of it; its words stay where they are kept. */
export interface ShownMemory {
  id?: string;
  space?: string;
  type?: string;
  importance?: number;
  age?: string;
}

/** Where a memory comes from: who or what said it, and the session, its version (the message) and checkpoint. */
export interface Source {
  kind?: "agent" | "consolidation" | "document" | "import" | "promotion" | "tool" | "user";
  session?: string;
  version?: number;
  checkpoint?: string;
  uri?: string;
}

/** Where a memory comes from: who or what said it, and the session, its version and checkpoint. */
export interface SourceBody {
  kind?: "agent" | "consolidation" | "document" | "import" | "promotion" | "tool" | "user" | null;
  session?: string;
  version?: number;
  checkpoint?: string;
  uri?: string;
}

/** Where a memory comes from. */
export interface SourceView {
  kind: string;
  session?: string;
  version?: number;
  checkpoint?: string;
  uri?: string;
}

/** A source, by one of these: a session, the principal that wrote it down, or an address. */
export interface SourcesBody {
  session?: string;
  writer?: string;
  uri?: string;
  reason?: string;
}

/** Spaces, those begun last first; `cursor` leads to the next page, null after the last. */
export interface SpaceList {
  items: SpaceView[];
  cursor?: string | null;
}

/** A space, the session that is its log, when it was begun, and when it was last written to. */
export interface SpaceView {
  space: string;
  session_id: string;
  created_at: number;
  active_at: number;
}

/**
 * A task for a child, which sees `context` and the task and nothing else of the conversation. Without a model it
 * has the cheap one. `max_cost`, in micro-dollars, is a slice of the session's budget, with `tokens` and `rounds`
 * where those are limited. `tools` are the only ones it may use. With `wait`, the answer comes when the child has
 * ended, or after some minutes.
 */
export interface SpawnBody {
  task: string;
  model?: string | null;
  context?: string | null;
  max_tokens?: number | null;
  return_format?: "full" | "summary";
  max_cost?: number | null;
  tokens?: number | null;
  rounds?: number | null;
  agent?: string | null;
  strategy?: string;
  tools?: string[] | null;
  wait?: boolean;
}

/** Everything about a session but its history, as of a version. */
export interface StateView {
  session_id: string;
  version: number;
  phase: string;
  vars: unknown;
  state: unknown;
}

/** Whether a memory counts. Only live ones are found unless others are asked for. */
export type Status = "archived" | "live" | "quarantined" | "superseded" | "withdrawn";

/** Whether the log had to be brought back. */
export interface Thawed {
  session_id: string;
  thawed: boolean;
}

/** How long the token counts, in seconds; whether for the asker's address alone; for which client key alone. */
export interface TokenBody {
  ttl?: number | null;
  bind_address?: boolean;
  cnf?: string | null;
}

/** A token for one session, and what the next one is had with. */
export interface TokenView {
  session_id: string;
  access_token: string;
  refresh_token: string;
  token_type: string;
  expires_at: number;
  family: string;
}

/** A tool that the caller runs. */
export interface ToolBody {
  name: string;
  description?: string;
  input_schema?: Record<string, unknown>;
}

/** What was done, to how many memories of which spaces; `restored` had been superseded by them, and count again. */
export interface TouchedMemories {
  action: string;
  spaces: Record<string, number>;
  memories: number;
  restored: number;
}

/**
 * What came of a turn. `status` says whether it is finished, waits for results of `tools`, is parked until a
 * person allows a call, was interrupted or rolled back, or is still open. `cost` is in micro-dollars.
 */
export interface TurnAnswer {
  session_id: string;
  turn: number;
  version: number;
  status: string;
  content?: unknown[];
  text?: string;
  model?: string;
  stop_reason?: string;
  usage?: Usage;
  cost?: number;
  estimated?: boolean;
  rounds?: number;
  waiting?: Waiting[];
  reason?: string;
  cached?: string;
}

/** One exchange: its events, grouped. A message that was redacted is `{"redacted": true}`. */
export interface TurnView {
  number: number | null;
  status: string;
  at: number;
  first: number;
  last: number;
  messages: unknown;
  calls: unknown;
  events?: unknown[];
}

/** Turns, oldest first. `after` is where the next page begins; null on the last one. */
export interface Turns {
  items: TurnView[];
  version: number;
  after?: number | null;
}

/** Of which space the run was. */
export interface UndoBody {
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
}

/** How many memories are as they were. */
export interface UndoneRun {
  id: string;
  restored: number;
}

/**
 * What is to be another way; what is not given stays. Other content is another memory, which takes the place of
 * this one. Times that look like seconds are refused, unless they are `exact`.
 */
export interface UpdateBody {
  namespace?: "clade" | "lethe" | "vault" | null;
  agent?: string | null;
  clade?: string | null;
  owner?: string | null;
  content?: string;
  memory_type?: MemoryType;
  importance?: number;
  metadata?: Record<string, unknown>;
  subjects?: string[];
  valid_from?: number;
  valid_to?: number;
  reason?: string;
  exact?: boolean;
}

/** Tokens. `input` counts neither those read from a cache nor those written to one. */
export interface Usage {
  input?: number;
  output?: number;
  cache_read?: number;
  cache_write?: number;
}

/** The whole of `vars`, and the schema it follows. */
export interface VarsBody {
  vars: Record<string, unknown>;
  schema?: string;
  schema_version?: string;
}

/** Where a session stands after a write. */
export interface Version {
  session_id: string;
  version: number;
}

/** Which children to wait for, all that are at work if none are named, and for how many seconds. */
export interface WaitBody {
  children?: string[] | null;
  timeout?: number;
}

/** A call that waits: for the caller to run it, or for a person to allow it. */
export interface Waiting {
  id: string;
  name: string;
  arguments?: unknown;
  approval?: boolean;
}

/** Where to post, of which events (all when none is named), signed with which secret (a fresh one when left out). */
export interface WebhookBody {
  url: string;
  events?: string[];
  secret?: string | null;
}

/** What came of a test delivery; its `webhook-id` is `delivery_id`. */
export interface WebhookTest {
  delivery_id: string;
  delivered: boolean;
  problem: string | null;
}

/**
 * A webhook and how it fares: `waiting` deliveries are still to be made, `given_up` ones never will. `secret` is
 * shown only when it was just made.
 */
export interface WebhookView {
  webhook_id: string;
  url: string;
  events: string[];
  created_at: number;
  secret?: string | null;
  last_success_at?: number | null;
  last_failure_at?: number | null;
  last_problem?: string | null;
  waiting?: number;
  given_up?: number;
}

/** Webhooks, the oldest first. */
export interface Webhooks {
  items: WebhookView[];
}

/** Words of a person's. */
export interface WordsBody {
  text: string;
  agent?: string | null;
}

export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

/** What may go along with any call. */
export interface Options {
  /** A word of your own under which a write is done once; where none is given, one is made. */
  key?: string;
  /** The version that was seen: the write is done only if the session still has it. */
  ifMatch?: number;
  /** Why an admin breaks the glass. */
  override?: string;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** What the client has to know of an operation to make its call. */
export interface Operation {
  readonly name: string;
  readonly method: string;
  readonly keyed: boolean;
  readonly takes: string | null;
  readonly gives: "json" | "text" | "bytes" | "nothing";
}

/** How a call travels: the client implements it once. */
export abstract class Operations {
  protected abstract call<T>(
    operation: Operation,
    path: string,
    query: Query,
    body: unknown,
    options: Options,
  ): Promise<T>;

  /** What this is and where to go on; a page for browsers. */
  about(
    options: Options = {},
  ): Promise<About> {
    const operation: Operation = { name: "about", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/", {}, undefined, options);
  }

  /** Whether the process lives. */
  healthz(
    options: Options = {},
  ): Promise<Health> {
    const operation: Operation = { name: "healthz", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/healthz", {}, undefined, options);
  }

  /** Whether it takes work: the store answers, and the server is not leaving. */
  readyz(
    options: Options = {},
  ): Promise<Health> {
    const operation: Operation = { name: "readyz", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/readyz", {}, undefined, options);
  }

  /** What the server counts, for Prometheus. It tells neither who asked nor for what. */
  metrics(
    options: Options = {},
  ): Promise<string> {
    const operation: Operation = { name: "metrics", method: "GET", keyed: false, takes: null, gives: "text" };
    return this.call(operation, "/metrics", {}, undefined, options);
  }

  /** This interface, described. */
  openapi(
    options: Options = {},
  ): Promise<Record<string, unknown>> {
    const operation: Operation = { name: "openapi", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/openapi.json", {}, undefined, options);
  }

  /** Who the server takes the asker for. */
  whoami(
    options: Options = {},
  ): Promise<Me> {
    const operation: Operation = { name: "whoami", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/whoami", {}, undefined, options);
  }

  /** Where the change feed stands, to watch from there. */
  position(
    options: Options = {},
  ): Promise<Position> {
    const operation: Operation = { name: "position", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/position", {}, undefined, options);
  }

  /** Begin a session. */
  createSession(
    body: CreateBody,
    options: Options = {},
  ): Promise<RecordView> {
    const operation: Operation = { name: "create_session", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/sessions", {}, body, options);
  }

  /** Sessions that match, newest first, a page at a time. */
  listSessions(
    query: { owner?: string; phase?: string[]; tag?: string[]; title?: string; name?: string; text?: string; parent?: string; open_turn?: boolean; created_after?: number; created_before?: number; active_after?: number; active_before?: number; order?: string; memories?: boolean; limit?: number; cursor?: string } = {},
    options: Options = {},
  ): Promise<Listed> {
    const operation: Operation = { name: "list_sessions", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/sessions", { ...query }, undefined, options);
  }

  /** A session whole, but for its history. */
  getSession(
    sessionId: string,
    options: Options = {},
  ): Promise<RecordView> {
    const operation: Operation = { name: "get_session", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}`, {}, undefined, options);
  }

  /** Change title, tags, metadata or configuration; what is not given stays. */
  changeSession(
    sessionId: string,
    body: ChangeBody,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "change_session", method: "PATCH", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}`, {}, body, options);
  }

  /** Remove a session for good, its keys destroyed with it; if asked, with what was learnt from it. */
  eraseSession(
    sessionId: string,
    query: { memories?: boolean } = {},
    options: Options = {},
  ): Promise<Erased> {
    const operation: Operation = { name: "erase_session", method: "DELETE", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}`, { ...query }, undefined, options);
  }

  /** Move a session along its lifecycle. */
  moveSession(
    sessionId: string,
    body: MoveBody,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "move_session", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/transitions`, {}, body, options);
  }

  /** Let a session live longer, never past its absolute limit. */
  renewSession(
    sessionId: string,
    body?: RenewBody,
    options: Options = {},
  ): Promise<Renewed> {
    const operation: Operation = { name: "renew_session", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/renew`, {}, body, options);
  }

  /** Close a turn whose writer died, naming the tools to retry. */
  recoverSession(
    sessionId: string,
    body?: ReasonBody,
    options: Options = {},
  ): Promise<Recovered> {
    const operation: Operation = { name: "recover_session", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/recover`, {}, body, options);
  }

  /** Drop the open turn from the conversation; its money stays spent. */
  rollBack(
    sessionId: string,
    body?: ReasonBody,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "roll_back", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/rollback`, {}, body, options);
  }

  /** Sessions that match, also by metadata. */
  findSessions(
    body?: FindBody,
    options: Options = {},
  ): Promise<Listed> {
    const operation: Operation = { name: "find_sessions", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/sessions/find", {}, body, options);
  }

  /** How many sessions match, of those that whoever asks may see. */
  countSessions(
    body?: FindBody,
    options: Options = {},
  ): Promise<Count> {
    const operation: Operation = { name: "count_sessions", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/sessions/count", {}, body, options);
  }

  /** Append events, all or none; acknowledged once the disk has them. */
  appendEvents(
    sessionId: string,
    body: AppendBody,
    options: Options = {},
  ): Promise<Appended> {
    const operation: Operation = { name: "append_events", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/events`, {}, body, options);
  }

  /** A page of the log, proven; as `text/event-stream`, the log and then what follows, live. */
  readEvents(
    sessionId: string,
    query: { after?: number; upto?: number; limit?: number; last?: number } = {},
    options: Options = {},
  ): Promise<Events> {
    const operation: Operation = { name: "read_events", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/events`, { ...query }, undefined, options);
  }

  /** A page of turns, oldest first; with `last`, of the last ones. No tool call is cut from its result. */
  readTurns(
    sessionId: string,
    query: { last?: number; after?: number; limit?: number } = {},
    options: Options = {},
  ): Promise<Turns> {
    const operation: Operation = { name: "read_turns", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/turns`, { ...query }, undefined, options);
  }

  /** A page of what was said and done, item by item as it was handed over, oldest first. */
  readConversation(
    sessionId: string,
    query: { last?: number; after?: number; limit?: number } = {},
    options: Options = {},
  ): Promise<Conversation> {
    const operation: Operation = { name: "read_conversation", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/conversation`, { ...query }, undefined, options);
  }

  /** Take what these versions say out of the conversation; the log keeps it. */
  retract(
    sessionId: string,
    body: RetractBody,
    options: Options = {},
  ): Promise<Appended> {
    const operation: Operation = { name: "retract", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/retract`, {}, body, options);
  }

  /** Destroy the content of events; the chain stays whole. */
  redact(
    sessionId: string,
    body: RedactBody,
    options: Options = {},
  ): Promise<Appended> {
    const operation: Operation = { name: "redact", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/redact`, {}, body, options);
  }

  /** Drop the log up to a version, for good. */
  prune(
    sessionId: string,
    body: PruneBody,
    options: Options = {},
  ): Promise<Pruned> {
    const operation: Operation = { name: "prune", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/prune`, {}, body, options);
  }

  /** Everything about a session but its history, now or after a version. */
  readState(
    sessionId: string,
    query: { at?: number } = {},
    options: Options = {},
  ): Promise<StateView> {
    const operation: Operation = { name: "read_state", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/state`, { ...query }, undefined, options);
  }

  /** Make this the application's own state. */
  replaceState(
    sessionId: string,
    body: VarsBody,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "replace_state", method: "PUT", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/state`, {}, body, options);
  }

  /** Change the application's own state by a merge patch (also what plain JSON is taken for) or a JSON patch. */
  patchState(
    sessionId: string,
    body: Record<string, unknown>,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "patch_state", method: "PATCH", keyed: true, takes: "application/merge-patch+json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/state`, {}, body, options);
  }

  /** What leads from one version's vars and scratchpads to another's. */
  diffState(
    sessionId: string,
    query: { from: number; to?: number; other?: string },
    options: Options = {},
  ): Promise<Diff> {
    const operation: Operation = { name: "diff_state", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/state/diff`, { ...query }, undefined, options);
  }

  /** What the scratchpad says, and how many tokens that takes. */
  readScratchpad(
    sessionId: string,
    query: { agent?: string } = {},
    options: Options = {},
  ): Promise<ScratchpadView> {
    const operation: Operation = { name: "read_scratchpad", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/scratchpad`, { ...query }, undefined, options);
  }

  /** Replace what the scratchpad says. */
  writeScratchpad(
    sessionId: string,
    body: PadBody,
    options: Options = {},
  ): Promise<ScratchpadView> {
    const operation: Operation = { name: "write_scratchpad", method: "PATCH", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/scratchpad`, {}, body, options);
  }

  /** Say something to the session's model; with `stream`, the answer comes as server-sent events. */
  sendMessage(
    sessionId: string,
    body: MessageBody,
    options: Options = {},
  ): Promise<TurnAnswer> {
    const operation: Operation = { name: "send_message", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/messages`, {}, body, options);
  }

  /** What came of a turn, as far as it is. */
  readTurn(
    sessionId: string,
    turn: string,
    options: Options = {},
  ): Promise<TurnAnswer> {
    const operation: Operation = { name: "read_turn", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/turns/${encodeURIComponent(turn)}`, {}, undefined, options);
  }

  /** What the model would be asked with now, part by part, and why each is in. */
  readContext(
    sessionId: string,
    query: { model?: string; content?: string; max_tokens?: number } = {},
    options: Options = {},
  ): Promise<ContextView> {
    const operation: Operation = { name: "read_context", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/context`, { ...query }, undefined, options);
  }

  /** Change what the session is doing right now: what runs is cut short and goes on with these words. */
  steer(
    sessionId: string,
    body: WordsBody,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "steer", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/steer`, {}, body, options);
  }

  /** Have something considered in the next turn. */
  followUp(
    sessionId: string,
    body: WordsBody,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "follow_up", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/follow-up`, {}, body, options);
  }

  /** Stop the turn in flight; what it has said stays. */
  interrupt(
    sessionId: string,
    body?: InterruptBody,
    options: Options = {},
  ): Promise<Interrupted> {
    const operation: Operation = { name: "interrupt", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/interrupt`, {}, body, options);
  }

  /** What the answer of a turn rests on: which memories it was shown, which of them it used, where they come from. */
  turnMemories(
    sessionId: string,
    turn: string,
    options: Options = {},
  ): Promise<GroundsView> {
    const operation: Operation = { name: "turn_memories", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/turns/${encodeURIComponent(turn)}/memories`, {}, undefined, options);
  }

  /** The calls that wait for a person. */
  listApprovals(
    sessionId: string,
    options: Options = {},
  ): Promise<Approvals> {
    const operation: Operation = { name: "list_approvals", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/approvals`, {}, undefined, options);
  }

  /** Allow or deny a call that waits for a person; the turn goes on when it was the last one. */
  answerApproval(
    sessionId: string,
    call: string,
    body: ApprovalBody,
    options: Options = {},
  ): Promise<TurnAnswer> {
    const operation: Operation = { name: "answer_approval", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/approvals/${encodeURIComponent(call)}`, {}, body, options);
  }

  /** What this node's cache of answers did for the tenant: hits, misses, entries, bytes. */
  readCache(
    options: Options = {},
  ): Promise<CacheView> {
    const operation: Operation = { name: "read_cache", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/cache", {}, undefined, options);
  }

  /** Forget every answer that this node keeps for the tenant. */
  clearCache(
    options: Options = {},
  ): Promise<Forgotten> {
    const operation: Operation = { name: "clear_cache", method: "DELETE", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/cache", {}, undefined, options);
  }

  /** Have a session of its own do a task for this one; its result comes back to this one's log. */
  spawnChild(
    sessionId: string,
    body: SpawnBody,
    options: Options = {},
  ): Promise<ChildAnswer> {
    const operation: Operation = { name: "spawn_child", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/spawn`, {}, body, options);
  }

  /** All children of a session, as they stand. */
  listChildren(
    sessionId: string,
    options: Options = {},
  ): Promise<ChildList> {
    const operation: Operation = { name: "list_children", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/children`, {}, undefined, options);
  }

  /** These children when they have ended, or as they stand when the time is over. */
  waitForChildren(
    sessionId: string,
    body?: WaitBody,
    options: Options = {},
  ): Promise<ChildList> {
    const operation: Operation = { name: "wait_for_children", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/children/wait`, {}, body, options);
  }

  /** Make the present state one that can be resumed from. */
  takeCheckpoint(
    sessionId: string,
    body?: CheckpointBody,
    options: Options = {},
  ): Promise<CheckpointView> {
    const operation: Operation = { name: "take_checkpoint", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/checkpoint`, {}, body, options);
  }

  /** The checkpoints that can be used, oldest first. */
  listCheckpoints(
    sessionId: string,
    options: Options = {},
  ): Promise<Checkpoints> {
    const operation: Operation = { name: "list_checkpoints", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/checkpoints`, {}, undefined, options);
  }

  /** The state a checkpoint holds. */
  readCheckpoint(
    sessionId: string,
    checkpointId: string,
    options: Options = {},
  ): Promise<RestoredView> {
    const operation: Operation = { name: "read_checkpoint", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/checkpoints/${encodeURIComponent(checkpointId)}`, {}, undefined, options);
  }

  /** Make a checkpoint's id unusable now. */
  dropCheckpoint(
    sessionId: string,
    checkpointId: string,
    options: Options = {},
  ): Promise<void> {
    const operation: Operation = { name: "drop_checkpoint", method: "DELETE", keyed: false, takes: null, gives: "nothing" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/checkpoints/${encodeURIComponent(checkpointId)}`, {}, undefined, options);
  }

  /** Keep a checkpoint for as long as the session lives. */
  pinCheckpoint(
    sessionId: string,
    checkpointId: string,
    options: Options = {},
  ): Promise<CheckpointView> {
    const operation: Operation = { name: "pin_checkpoint", method: "PUT", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/checkpoints/${encodeURIComponent(checkpointId)}/pin`, {}, undefined, options);
  }

  /** Let a checkpoint expire again. */
  unpinCheckpoint(
    sessionId: string,
    checkpointId: string,
    options: Options = {},
  ): Promise<CheckpointView> {
    const operation: Operation = { name: "unpin_checkpoint", method: "DELETE", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/checkpoints/${encodeURIComponent(checkpointId)}/pin`, {}, undefined, options);
  }

  /** Go on: from a checkpoint in a new session, or, without one, by waking this session where it sleeps. */
  resume(
    sessionId: string,
    body?: ResumeBody,
    options: Options = {},
  ): Promise<Resumed> {
    const operation: Operation = { name: "resume", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/resume`, {}, body, options);
  }

  /** A session that shares this one's log up to a version and goes its own way. */
  branch(
    sessionId: string,
    body?: BranchBody,
    options: Options = {},
  ): Promise<Branched> {
    const operation: Operation = { name: "branch", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/branch`, {}, body, options);
  }

  /** A branch from before the last turns, or at a version. */
  rewind(
    sessionId: string,
    body?: RewindBody,
    options: Options = {},
  ): Promise<Branched> {
    const operation: Operation = { name: "rewind", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/rewind`, {}, body, options);
  }

  /** A branch in which a turn starts anew with other words, left open for the answer. */
  edit(
    sessionId: string,
    body: EditBody,
    options: Options = {},
  ): Promise<Branched> {
    const operation: Operation = { name: "edit", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/edit`, {}, body, options);
  }

  /** The branches made from a session, newest first. */
  listBranches(
    sessionId: string,
    options: Options = {},
  ): Promise<Listed> {
    const operation: Operation = { name: "list_branches", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/branches`, {}, undefined, options);
  }

  /** Take over another session's vars and scratchpads, three-way. */
  merge(
    sessionId: string,
    body: MergeBody,
    options: Options = {},
  ): Promise<Merged> {
    const operation: Operation = { name: "merge", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/merge`, {}, body, options);
  }

  /** Settle a conflict that a merge left. */
  resolve(
    sessionId: string,
    conflictId: string,
    body: ResolveBody,
    options: Options = {},
  ): Promise<Merged> {
    const operation: Operation = { name: "resolve", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/conflicts/${encodeURIComponent(conflictId)}/resolve`, {}, body, options);
  }

  /** Keep content too large for the log; the same content is kept once. What was said of it stays, but for admins. */
  putBlob(
    body?: Uint8Array | string,
    query: { name?: string; replace?: boolean } = {},
    options: Options = {},
  ): Promise<BlobView> {
    const operation: Operation = { name: "put_blob", method: "POST", keyed: false, takes: "application/octet-stream", gives: "json" };
    return this.call(operation, "/v1/blobs", { ...query }, body, options);
  }

  /** The blobs of all the tenant, newest first, for its admins. */
  listBlobs(
    query: { limit?: number; cursor?: string } = {},
    options: Options = {},
  ): Promise<Blobs> {
    const operation: Operation = { name: "list_blobs", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/blobs", { ...query }, undefined, options);
  }

  /** A blob's content, whole or the range that is asked for. */
  getBlob(
    sha256: string,
    options: Options = {},
  ): Promise<Uint8Array> {
    const operation: Operation = { name: "get_blob", method: "GET", keyed: false, takes: null, gives: "bytes" };
    return this.call(operation, `/v1/blobs/${encodeURIComponent(sha256)}`, {}, undefined, options);
  }

  /** What is known of a blob, without its content. */
  describeBlob(
    sha256: string,
    options: Options = {},
  ): Promise<BlobView> {
    const operation: Operation = { name: "describe_blob", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/blobs/${encodeURIComponent(sha256)}/info`, {}, undefined, options);
  }

  /** The session as JSONL, one event a line, to be rebuilt exactly elsewhere. */
  exportSession(
    sessionId: string,
    options: Options = {},
  ): Promise<string> {
    const operation: Operation = { name: "export_session", method: "GET", keyed: false, takes: null, gives: "text" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/export`, {}, undefined, options);
  }

  /** Rebuild a session exactly from an export; one that is there already is left alone. */
  importSession(
    body: Uint8Array | string,
    options: Options = {},
  ): Promise<Imported> {
    const operation: Operation = { name: "import_session", method: "POST", keyed: false, takes: "application/x-ndjson", gives: "json" };
    return this.call(operation, "/v1/import", {}, body, options);
  }

  /** Check every byte of a session against its chain. */
  verifySession(
    sessionId: string,
    options: Options = {},
  ): Promise<Proof> {
    const operation: Operation = { name: "verify_session", method: "POST", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/verify`, {}, undefined, options);
  }

  /** Put an ended session away: to cold storage, if the server has some. Again, it finishes. */
  archiveSession(
    sessionId: string,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "archive_session", method: "POST", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/archive`, {}, undefined, options);
  }

  /** Bring the log of an archived session back from cold storage. */
  thawSession(
    sessionId: string,
    options: Options = {},
  ): Promise<Thawed> {
    const operation: Operation = { name: "thaw_session", method: "POST", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/thaw`, {}, undefined, options);
  }

  /** Keep a memory. */
  keepMemory(
    body: KeepBody,
    options: Options = {},
  ): Promise<MemoryView> {
    const operation: Operation = { name: "keep_memory", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory", {}, body, options);
  }

  /** Memories in the order in which they were kept, a page at a time. */
  listMemories(
    query: { namespace?: "clade" | "lethe" | "vault"; agent?: string; clade?: string; owner?: string; status?: Status[]; type?: MemoryType[]; session?: string; limit?: number; cursor?: string } = {},
    options: Options = {},
  ): Promise<MemoryList> {
    const operation: Operation = { name: "list_memories", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/memory", { ...query }, undefined, options);
  }

  /** Keep up to 1,000 memories, all or none, in this order. */
  keepMemories(
    body: BatchBody,
    options: Options = {},
  ): Promise<MemoryList> {
    const operation: Operation = { name: "keep_memories", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/batch", {}, body, options);
  }

  /** Change a memory; other content makes another memory, which takes its place. */
  updateMemory(
    memoryId: string,
    body: UpdateBody,
    options: Options = {},
  ): Promise<MemoryView> {
    const operation: Operation = { name: "update_memory", method: "PATCH", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/memory/${encodeURIComponent(memoryId)}`, {}, body, options);
  }

  /** Take a memory out of the log for good, with every form it has had. */
  forgetMemory(
    memoryId: string,
    query: { namespace?: "clade" | "lethe" | "vault"; agent?: string; clade?: string; owner?: string; reason?: string } = {},
    options: Options = {},
  ): Promise<ForgottenMemories> {
    const operation: Operation = { name: "forget_memory", method: "DELETE", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/memory/${encodeURIComponent(memoryId)}`, { ...query }, undefined, options);
  }

  /** A memory, whatever its status. */
  getMemory(
    memoryId: string,
    query: { namespace?: "clade" | "lethe" | "vault"; agent?: string; clade?: string; owner?: string } = {},
    options: Options = {},
  ): Promise<MemoryView> {
    const operation: Operation = { name: "get_memory", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/memory/${encodeURIComponent(memoryId)}`, { ...query }, undefined, options);
  }

  /** Archive a memory, quarantine it, or bring it back. */
  moveMemory(
    memoryId: string,
    body: MoveMemoryBody,
    options: Options = {},
  ): Promise<MovedMemory> {
    const operation: Operation = { name: "move_memory", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/memory/${encodeURIComponent(memoryId)}/move`, {}, body, options);
  }

  /** The memories that fit best, by words and by sense. */
  searchMemory(
    body: SearchBody,
    options: Options = {},
  ): Promise<FoundMemories> {
    const operation: Operation = { name: "search_memory", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/search", {}, body, options);
  }

  /** Every form that a memory has had, oldest first. */
  memoryHistory(
    memoryId: string,
    query: { namespace?: "clade" | "lethe" | "vault"; agent?: string; clade?: string; owner?: string } = {},
    options: Options = {},
  ): Promise<MemoryList> {
    const operation: Operation = { name: "memory_history", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/memory/${encodeURIComponent(memoryId)}/history`, { ...query }, undefined, options);
  }

  /** Keep what a session teaches; again, nothing is kept twice. */
  extractMemories(
    body: ExtractBody,
    options: Options = {},
  ): Promise<ExtractedView> {
    const operation: Operation = { name: "extract_memories", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/extract", {}, body, options);
  }

  /** Propose a memory to others: four gates judge whether it is new, evidenced, general and expiring. */
  promoteMemory(
    body: PromoteBody,
    options: Options = {},
  ): Promise<ProposalView> {
    const operation: Operation = { name: "promote_memory", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/promote", {}, body, options);
  }

  /** What was proposed and waits for a review: all of it for those who review, for others what is theirs. */
  listProposals(
    query: { clade?: string; reviewed?: boolean } = {},
    options: Options = {},
  ): Promise<ProposalList> {
    const operation: Operation = { name: "list_proposals", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/memory/proposals", { ...query }, undefined, options);
  }

  /** Accept a proposal, which makes a memory of it there, or reject it; a person does. */
  reviewProposal(
    proposalId: string,
    body: ReviewBody,
    options: Options = {},
  ): Promise<ProposalView> {
    const operation: Operation = { name: "review_proposal", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/memory/proposals/${encodeURIComponent(proposalId)}/review`, {}, body, options);
  }

  /** Whether what passes all gates needs no review. */
  accepting(
    query: { clade?: string } = {},
    options: Options = {},
  ): Promise<Accepting> {
    const operation: Operation = { name: "accepting", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/memory/auto-accept", { ...query }, undefined, options);
  }

  /** Say for a space whether what passes all gates needs no review; its owner does, of everybody's an admin. */
  setAccepting(
    body: AcceptBody,
    options: Options = {},
  ): Promise<Accepting> {
    const operation: Operation = { name: "set_accepting", method: "PUT", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/auto-accept", {}, body, options);
  }

  /** How much comes from a source, in which spaces of the tenant; nothing is touched. */
  reportSource(
    body: SourcesBody,
    options: Options = {},
  ): Promise<TouchedMemories> {
    const operation: Operation = { name: "report_source", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/sources/report", {}, body, options);
  }

  /** Take what comes from a source out of use, in every space of the tenant. */
  quarantineSource(
    body: SourcesBody,
    options: Options = {},
  ): Promise<TouchedMemories> {
    const operation: Operation = { name: "quarantine_source", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/sources/quarantine", {}, body, options);
  }

  /** Bring back what was quarantined by its source, as it was before. */
  releaseSource(
    body: SourcesBody,
    options: Options = {},
  ): Promise<TouchedMemories> {
    const operation: Operation = { name: "release_source", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/sources/release", {}, body, options);
  }

  /** Take what comes from a source out of every space's log, for good. */
  eraseSource(
    body: SourcesBody,
    options: Options = {},
  ): Promise<TouchedMemories> {
    const operation: Operation = { name: "erase_source", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/sources/erase", {}, body, options);
  }

  /**
   * Bring a space into order: what says the same becomes one, what is no longer true is superseded, what nobody
   * needs
   */
  consolidateMemory(
    body?: ConsolidateBody,
    options: Options = {},
  ): Promise<Consolidated> {
    const operation: Operation = { name: "consolidate_memory", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/consolidate", {}, body, options);
  }

  /**
   * Make vectors that the server's embedder has not made yet, as after another one was chosen: a part of them, so
   * ask
   */
  reembedMemory(
    body?: ReembedBody,
    options: Options = {},
  ): Promise<Reembedded> {
    const operation: Operation = { name: "reembed_memory", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/reembed", {}, body, options);
  }

  /** The consolidations of a space. */
  listMemoryRuns(
    query: { namespace?: "clade" | "lethe" | "vault"; agent?: string; clade?: string; owner?: string } = {},
    options: Options = {},
  ): Promise<MemoryRuns> {
    const operation: Operation = { name: "list_memory_runs", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/memory/runs", { ...query }, undefined, options);
  }

  /** A consolidation as far as it is, and what it did, for review. */
  readMemoryRun(
    runId: string,
    query: { namespace?: "clade" | "lethe" | "vault"; agent?: string; clade?: string; owner?: string } = {},
    options: Options = {},
  ): Promise<MemoryRunSteps> {
    const operation: Operation = { name: "read_memory_run", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/memory/runs/${encodeURIComponent(runId)}`, { ...query }, undefined, options);
  }

  /** Take a consolidation back: every memory that it touched is as it was before. */
  undoMemoryRun(
    runId: string,
    body?: UndoBody,
    options: Options = {},
  ): Promise<UndoneRun> {
    const operation: Operation = { name: "undo_memory_run", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/memory/runs/${encodeURIComponent(runId)}/undo`, {}, body, options);
  }

  /** What a space holds and was asked, without a word of it. */
  memoryStats(
    query: { namespace?: "clade" | "lethe" | "vault"; agent?: string; clade?: string; owner?: string } = {},
    options: Options = {},
  ): Promise<MemoryStats> {
    const operation: Operation = { name: "memory_stats", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/memory/stats", { ...query }, undefined, options);
  }

  /** Put a space on a plan, which says how much it may hold and be asked. */
  planMemory(
    body: PlanBody,
    options: Options = {},
  ): Promise<MemoryStats> {
    const operation: Operation = { name: "plan_memory", method: "PUT", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/plan", {}, body, options);
  }

  /** Every memory of a space as JSONL, one a line. */
  exportMemory(
    query: { namespace?: "clade" | "lethe" | "vault"; agent?: string; clade?: string; owner?: string } = {},
    options: Options = {},
  ): Promise<string> {
    const operation: Operation = { name: "export_memory", method: "GET", keyed: false, takes: null, gives: "text" };
    return this.call(operation, "/v1/memory/export", { ...query }, undefined, options);
  }

  /** Keep what lines say: those of an export, JSON objects, or plain text. What is there is left alone. */
  importMemory(
    body: Uint8Array | string,
    query: { namespace?: "clade" | "lethe" | "vault"; agent?: string; clade?: string; owner?: string; trusted?: boolean } = {},
    options: Options = {},
  ): Promise<ImportedMemories> {
    const operation: Operation = { name: "import_memory", method: "POST", keyed: false, takes: "application/x-ndjson", gives: "json" };
    return this.call(operation, "/v1/memory/import", { ...query }, body, options);
  }

  /** The spaces that were begun and that you may read: your vaults and your agents', clades that let you in, lethe. */
  listSpaces(
    query: { limit?: number; cursor?: string } = {},
    options: Options = {},
  ): Promise<SpaceList> {
    const operation: Operation = { name: "list_spaces", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/memory/spaces", { ...query }, undefined, options);
  }

  /** The clades that you may read, with whom they let in where you may change that. */
  listClades(
    query: { limit?: number; cursor?: string } = {},
    options: Options = {},
  ): Promise<CladeList> {
    const operation: Operation = { name: "list_clades", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/memory/clades", { ...query }, undefined, options);
  }

  /** Begin a space that is shared with others; it is yours. */
  makeClade(
    body: CladeBody,
    options: Options = {},
  ): Promise<CladeView> {
    const operation: Operation = { name: "make_clade", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/memory/clades", {}, body, options);
  }

  /** A clade that lets you in, with whom else it lets in where you may change that. */
  getClade(
    clade: string,
    options: Options = {},
  ): Promise<CladeView> {
    const operation: Operation = { name: "get_clade", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/memory/clades/${encodeURIComponent(clade)}`, {}, undefined, options);
  }

  /** Say whom a clade lets in from now on; its owner does, and admins. */
  shareClade(
    clade: string,
    body: ShareBody,
    options: Options = {},
  ): Promise<CladeView> {
    const operation: Operation = { name: "share_clade", method: "PATCH", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/memory/clades/${encodeURIComponent(clade)}`, {}, body, options);
  }

  /** The account the session draws on; without one there is no limit. */
  readAccount(
    sessionId: string,
    options: Options = {},
  ): Promise<AccountView> {
    const operation: Operation = { name: "read_account", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/account`, {}, undefined, options);
  }

  /** What the session has cost so far, by model, agent and strategy, and how the caps it shares stand. */
  readCosts(
    sessionId: string,
    options: Options = {},
  ): Promise<CostsView> {
    const operation: Operation = { name: "read_costs", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/costs`, {}, undefined, options);
  }

  /** Set money aside, and tokens and rounds with it; refused when the account has not that much left. */
  reserve(
    sessionId: string,
    body: ReserveBody,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "reserve", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/reserve`, {}, body, options);
  }

  /** Say what it really cost and took; the rest of the reservation returns. */
  settle(
    sessionId: string,
    body: SettleBody,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "settle", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/settle`, {}, body, options);
  }

  /** Say what it cost that was settled by an estimate; the difference returns to the account, or is taken from it. */
  correct(
    sessionId: string,
    body: CorrectBody,
    options: Options = {},
  ): Promise<Version> {
    const operation: Operation = { name: "correct", method: "POST", keyed: true, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/correct`, {}, body, options);
  }

  /** Anthropic's Messages, in a session or past all. */
  createMessage(
    body: Record<string, unknown>,
    options: Options = {},
  ): Promise<Record<string, unknown>> {
    const operation: Operation = { name: "create_message", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/messages", {}, body, options);
  }

  /** OpenAI's Chat Completions, in a session or past all. */
  createChatCompletion(
    body: Record<string, unknown>,
    options: Options = {},
  ): Promise<Record<string, unknown>> {
    const operation: Operation = { name: "create_chat_completion", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/chat/completions", {}, body, options);
  }

  /** OpenAI's Responses, in a session or past all. */
  createResponse(
    body: Record<string, unknown>,
    options: Options = {},
  ): Promise<Record<string, unknown>> {
    const operation: Operation = { name: "create_response", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/responses", {}, body, options);
  }

  /** How many tokens a message of Anthropic's has, by an estimate: nobody is asked. */
  countMessageTokens(
    body: Record<string, unknown>,
    options: Options = {},
  ): Promise<Record<string, unknown>> {
    const operation: Operation = { name: "count_message_tokens", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/messages/count_tokens", {}, body, options);
  }

  /** The models that can be asked for: in Anthropic's form for its clients, else in OpenAI's. */
  listModels(
    options: Options = {},
  ): Promise<Record<string, unknown>> {
    const operation: Operation = { name: "list_models", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/models", {}, undefined, options);
  }

  /** Let somebody in; nobody gets more than whoever lets them in has. */
  addPrincipal(
    body: PrincipalBody,
    options: Options = {},
  ): Promise<PrincipalView> {
    const operation: Operation = { name: "add_principal", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/principals", {}, body, options);
  }

  /** Those of the tenant, the oldest first. */
  listPrincipals(
    options: Options = {},
  ): Promise<Principals> {
    const operation: Operation = { name: "list_principals", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/principals", {}, undefined, options);
  }

  /** One of them, by id or name. */
  getPrincipal(
    principalId: string,
    options: Options = {},
  ): Promise<PrincipalView> {
    const operation: Operation = { name: "get_principal", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/principals/${encodeURIComponent(principalId)}`, {}, undefined, options);
  }

  /** Give other roles or scopes, shut out or let in again: all of it or none, from the next request on every node. */
  changePrincipal(
    principalId: string,
    body: PrincipalChange,
    options: Options = {},
  ): Promise<PrincipalView> {
    const operation: Operation = { name: "change_principal", method: "PATCH", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/principals/${encodeURIComponent(principalId)}`, {}, body, options);
  }

  /** Erase a person: their sessions, blobs, keys and name. The audit log keeps an id that leads to nobody. */
  erasePerson(
    name: string,
    options: Options = {},
  ): Promise<ErasedPerson> {
    const operation: Operation = { name: "erase_person", method: "POST", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/people/${encodeURIComponent(name)}/erase`, {}, undefined, options);
  }

  /** Make a key, for no more than its principal and its maker may, and for no longer than the key it is made with. */
  addKey(
    body?: KeyBody,
    options: Options = {},
  ): Promise<NewKeyView> {
    const operation: Operation = { name: "add_key", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/keys", {}, body, options);
  }

  /** Keys of the tenant or of one principal, without their secrets. */
  listKeys(
    query: { principal?: string } = {},
    options: Options = {},
  ): Promise<Keys> {
    const operation: Operation = { name: "list_keys", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/keys", { ...query }, undefined, options);
  }

  /** Take a key back; it is refused at the next request, on every node. */
  revokeKey(
    keyId: string,
    options: Options = {},
  ): Promise<KeyView> {
    const operation: Operation = { name: "revoke_key", method: "DELETE", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/keys/${encodeURIComponent(keyId)}`, {}, undefined, options);
  }

  /** The tenant's rules, and who may read and write which fields. */
  getPolicy(
    options: Options = {},
  ): Promise<Policy> {
    const operation: Operation = { name: "get_policy", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/policies", {}, undefined, options);
  }

  /** Lay down the tenant's policy anew. */
  setPolicy(
    body: Policy,
    options: Options = {},
  ): Promise<Policy> {
    const operation: Operation = { name: "set_policy", method: "PUT", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/policies", {}, body, options);
  }

  /** Be told of the moves of sessions by a signed POST. */
  addWebhook(
    body: WebhookBody,
    options: Options = {},
  ): Promise<WebhookView> {
    const operation: Operation = { name: "add_webhook", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/webhooks", {}, body, options);
  }

  /** The tenant's webhooks and how they fare, without their secrets. */
  listWebhooks(
    options: Options = {},
  ): Promise<Webhooks> {
    const operation: Operation = { name: "list_webhooks", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/webhooks", {}, undefined, options);
  }

  /** Post a test delivery to a webhook, once, and tell what came of it. */
  testWebhook(
    webhookId: string,
    options: Options = {},
  ): Promise<WebhookTest> {
    const operation: Operation = { name: "test_webhook", method: "POST", keyed: false, takes: null, gives: "json" };
    return this.call(operation, `/v1/webhooks/${encodeURIComponent(webhookId)}/test`, {}, undefined, options);
  }

  /** Be told no longer. */
  removeWebhook(
    webhookId: string,
    options: Options = {},
  ): Promise<void> {
    const operation: Operation = { name: "remove_webhook", method: "DELETE", keyed: false, takes: null, gives: "nothing" };
    return this.call(operation, `/v1/webhooks/${encodeURIComponent(webhookId)}`, {}, undefined, options);
  }

  /** A token that opens this session and nothing else, for a few minutes. */
  issueToken(
    sessionId: string,
    body?: TokenBody,
    options: Options = {},
  ): Promise<TokenView> {
    const operation: Operation = { name: "issue_token", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/tokens`, {}, body, options);
  }

  /** Take back one token, one family, or every token of a session, on every node at the next request. */
  revokeTokens(
    sessionId: string,
    query: { token?: string; family?: string } = {},
    options: Options = {},
  ): Promise<void> {
    const operation: Operation = { name: "revoke_tokens", method: "DELETE", keyed: false, takes: null, gives: "nothing" };
    return this.call(operation, `/v1/sessions/${encodeURIComponent(sessionId)}/tokens`, { ...query }, undefined, options);
  }

  /** The next tokens of a family. A refresh token that is used twice ends its family. */
  refreshToken(
    body: RefreshBody,
    options: Options = {},
  ): Promise<TokenView> {
    const operation: Operation = { name: "refresh_token", method: "POST", keyed: false, takes: "application/json", gives: "json" };
    return this.call(operation, "/v1/tokens/refresh", {}, body, options);
  }

  /** Who was let in to what, and who was not. */
  readAudit(
    query: { after?: number; limit?: number; newest?: boolean; actor?: string; credential?: string; session?: string; what?: string; action?: string; outcome?: "allowed" | "denied" | "flagged"; reason?: string; since?: number; until?: number } = {},
    options: Options = {},
  ): Promise<Audited> {
    const operation: Operation = { name: "read_audit", method: "GET", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/audit", { ...query }, undefined, options);
  }

  /** Whether the audit log still is what was written, to its end. */
  verifyAudit(
    options: Options = {},
  ): Promise<AuditProof> {
    const operation: Operation = { name: "verify_audit", method: "POST", keyed: false, takes: null, gives: "json" };
    return this.call(operation, "/v1/audit/verify", {}, undefined, options);
  }

  /** The audit log as JSON lines, each proven on the way out, signed at its end where the store is sealed. */
  exportAudit(
    options: Options = {},
  ): Promise<string> {
    const operation: Operation = { name: "export_audit", method: "GET", keyed: false, takes: null, gives: "text" };
    return this.call(operation, "/v1/audit/export", {}, undefined, options);
  }

  /** Sign in by the link that the server printed; it works once. */
  signIn(
    query: { code: string },
    options: Options = {},
  ): Promise<string> {
    const operation: Operation = { name: "sign_in", method: "GET", keyed: false, takes: null, gives: "text" };
    return this.call(operation, "/signin", { ...query }, undefined, options);
  }

  /** Sign out: the cookie counts no longer, on any node. */
  signOut(
    options: Options = {},
  ): Promise<void> {
    const operation: Operation = { name: "sign_out", method: "POST", keyed: false, takes: null, gives: "nothing" };
    return this.call(operation, "/signout", {}, undefined, options);
  }
}

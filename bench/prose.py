"""The paragraphs of docs/BENCHMARKS.md that explain how things are measured."""

METHOD = """
**One run, interleaved.** Each contender is a process of its own that the runner asks over a pipe; the peers
have the locked versions of `requirements/dev.txt`. In every repetition
all contenders start from empty stores and take turns in slices, in an order that rotates, so that the noise
of the machine meets all of them. Targets are ratios taken inside each repetition; the median of those counts.
Wall clock and CPU (user and system, all threads of the contender's process) cover the appending or reading
alone: not the start of the process, not the generation of text. What the kernel does on threads of its own,
such as writing its journal, is in the wall clock and not in the CPU.

**The text.** {text} It is generated: invented words with Zipf's frequencies, a topic for every turn, numbers
and identifiers; nothing is repeated on purpose but the keys of the JSON. Every result is read back through
the contender's own interface and compared with what was stored.

**Equal durability.** Every contender acknowledges a turn only after SQLite has forced it to disk:
`synchronous=FULL`, with a write-ahead log where the contender uses one. The graph saver is given a connection
set so; the peers that open their own connections leave SQLite's default, which is read back and must be FULL;
the syncs of perdure and of raw SQLite are counted. perdure and raw SQLite use the SQLite inside apsw, the
peers the one their Python links. Where a sync is cheap (see the machine) the processor decides the rates;
on a slow disk it is the number of commits per turn.

**What a turn costs each contender.** Each is handed the same plain data and makes its own objects of it.

- *raw+json (b)*: what one writes by hand: the turn through `json.dumps`, one insert, one commit; reading decodes
  with `json.loads`, and the bare select is listed beside it. *(d)*: one commit for {sessions} such inserts.
  *raw* is the same with msgspec as the encoder, shown for comparison without a target.
- *perdure*: one `append` of four events (turn started with the question, tool asked, tool finished, turn
  finished with the answer), hashed into the session's chain. With {sessions} sessions at once, each appends its
  turns one after the other, all in one event loop.
- *openai*: `SQLiteSession.add_items` with four items, once per turn.
- *langgraph*: `SqliteSaver.put_writes` and `put` of a checkpoint whose `messages` channel holds everything
  so far as message objects; one step per turn, measured over {graph_steps} steps around step {graph_step}.
  The engine makes five checkpoints of such a turn in a graph with a tool loop. The cost grows with the length
  of the session; delta channels, which are beta, are not used.
- *adk*: `SqliteSessionService.append_event` for four events per turn, as shipped: a connection for every
  event, and a rollback journal. Measured over {slow_peer} turns after the first {slow_peer}; its cost hardly
  depends on the length.

**Ready for the next turn** is a fresh `perdure.open`, the session, its state and its last {tail} turns,
against a fresh raw connection that selects and decodes as many rows; a second pair of numbers leaves the
opening out on both sides. **Bytes on disk** are all files of the closed store; message bytes are the texts,
arguments and results alone. **Two processes** append to a session each in one file, raw SQLite with a busy
timeout.

**The frameworks' own stores.** The very same code calls both sides, and only the opening of the store differs;
ours is sealed, as by default, and once more in the clear. Everything is read back through the framework's
interface and compared.

- *LangGraph*: `put` alone, without the `put_writes` before it, over {graph_steps} steps of a turn around the one
  named; the list of messages is longer every time and begins with the same objects, as in a run. The thread that is
  long already is made once and goes on from one repetition to the next. Bytes on disk are
  those of the closed store after {graph_kept} turns in steps of one message each; they are weighed once in a run.
  {sessions} threads in one event loop on one file each take steps of `aput_writes` and `aput`: the first {graph_each},
  where there is hardly a past to store, in every repetition; and {graph_life} from the first on, in the first two,
  {graph_each} by each contender in turn. Of the latter some are read back, of the former all.
- *ADK*: the runner's `append_event`, one at a time, on one session, and on {sessions} sessions at once with a turn
  each; where the store gives up since others write, the event is handed in again, and that is counted. All sessions of
  one user are listed, each with a state of two fields and without events; theirs are made in memory and copied to the
  file. ADK's interface has no pages: the first page by our `list_page` is compared with their whole list. For one
  session alone a bare insert is listed too that another thread commits while the loop waits: no store that leaves its
  loop free appends faster than that.
- *OpenAI Agents*: `add_items` with the four items of a turn, on one session, and on {sessions} at once. The last {tail}
  items are read by an object made for it: by the first who asks since our store was opened, and by others after it.
  Their object opens the file itself, as it always does, so its time with the file open, from an object that was asked
  before, is listed too. Asked again, ours answers from what it remembers and looks only for what is new.
"""

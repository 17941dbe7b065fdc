/* columns.h - what the ledger keeps: a list for each table, a row for each column. From these lists
 * come the structs of ledger.h, the schema and its upgrade, the statements, the JSON lines and the
 * tables of docs/formats/ledger.md.
 *
 *   C(kind, name, since, meaning)
 *
 * kind   TEXT; INT; REAL (NaN, in SQL NULL: not known); KEY and KEYINT: a text and a number that,
 *        with the table's other keys, name the row; AGE: an INT that never falls, so that of two
 *        copies of a row it says which is the newer
 * since  the version of the schema that brought it; a column is never taken away or given another
 *        meaning, so every older file can be upgraded and every newer one read
 *
 * Instants are nanoseconds since 1970 (`_wall_ns`), durations nanoseconds of a monotonic clock. */
#ifndef RUN_COLUMNS_H
#define RUN_COLUMNS_H
#include "run/clock.h"

enum { LEDGER_VERSION = 10 };

#define LEDGER_TABLES(T)                                                                           \
    T(run, 1, "what was asked for")                                                                \
    T(segment, 1, "one process's part of a run, from its start to its end or last heartbeat")      \
    T(step, 1, "progress of the run: after evaluations, and each minute")                          \
    T(price, 1, "what an hour of the machine cost, and how it is billed")                          \
    T(prediction, 1, "what a run was expected to take")                                            \
    T(checkpoint, 1, "what was saved, and what it took")                                           \
    T(interruption, 1, "what interrupted a segment, or tried to")

#define LEDGER_run(C)                                                                              \
    C(KEY, id, 1, "hexadecimal digits; every segment of the run has the same")                     \
    C(TEXT, name, 1, "run.name; else the run file's without folder and ending")                    \
    C(TEXT, kind, 1, "train, tune, sweep, supervised or followed")                                 \
    C(TEXT, settings, 1, "settings that are not the default, one KEY=VALUE per line")              \
    C(TEXT, tags, 1, "run.tags between commas")                                                    \
    C(REAL, runs_per_month, 1, "run.runs_per_month")                                               \
    C(TEXT, metric, 1, "that the target is measured in")                                           \
    C(REAL, target, 1, "train.target")                                                             \
    C(TEXT, unit, 1, "unit of its work: samples or tokens")                                        \
    C(INT, steps_planned, 1, "0: open")                                                            \
    C(AGE, begin_wall_ns, 1, "when the first segment began")                                       \
    C(TEXT, model, 7, "model.kind; of hf its folder's name; empty: another program's, or older")   \
    C(INT, parameters, 7, "weights of the model; 0: not known")                                    \
    C(TEXT, origins, 8,                                                                            \
      "of each line of `settings`, in their order, where it came from: recipe NAME, FILE:LINE, "   \
      "environment NAME, command line, or default for a value that follows from others; empty: "   \
      "not recorded")

#define LEDGER_segment(C)                                                                          \
    C(KEY, id, 1, "12 hexadecimal digits")                                                         \
    C(TEXT, run, 1, "run.id")                                                                      \
    C(TEXT, version, 1, "of frugal")                                                               \
    C(TEXT, machine, 1, "the host's name")                                                         \
    C(TEXT, boot, 1, "the kernel's boot_id: segments with the same one share a machine")           \
    C(TEXT, device, 1, "the processor's or GPU's name")                                            \
    C(INT, gpus, 1, "that it holds")                                                               \
    C(TEXT, price, 1, "price.id; empty: not known")                                                \
    C(INT, begin_wall_ns, 1, "when the process began")                                             \
    C(AGE, beat_wall_ns, 1,                                                                        \
      "its last heartbeat, or its end; never falls, even if the clock is set back")                \
    C(INT, beat_every_ns, 1,                                                                       \
      "a killed segment ran at most this much longer than its last heartbeat")                     \
    C(TEXT, ended, 1,                                                                              \
      "end, target, signal, …: why it stopped; killed: a later start found it dead; empty: it "  \
      "runs, or was killed")                                                                       \
    C(INT, metered_ns, 1, "the sum of the terms")                                                  \
    C(INT, compute_ns, 1, "steps that count")                                                      \
    C(INT, evaluation_ns, 1, "evaluation")                                                         \
    C(INT, redone_ns, 1, "repeated steps")                                                         \
    C(INT, loading_ns, 1, "waiting for data")                                                      \
    C(INT, checkpoint_ns, 1, "waiting until something is saved")                                   \
    C(INT, starting_ns, 1, "process start, compiling, loading a checkpoint")                       \
    C(INT, booting_ns, 1, "the machine's start until the process began")                           \
    C(INT, idle_ns, 1, "the machine rented, and no run on it")                                     \
    C(REAL, billed_usd, 1, "by the billing rule, as if alone on the machine")                      \
    C(INT, step_from, 1, "steps of the run when it began")                                         \
    C(INT, step, 1, "and now")                                                                     \
    C(INT, samples, 1, "trained by this segment")                                                  \
    C(INT, tokens, 1, "of them; 0 where samples are not sequences")                                \
    C(REAL, loss, 1, "the newest: of the last evaluation, else of the last step")                  \
    C(REAL, value, 1,                                                                              \
      "of run.metric, at the last evaluation, or at the best if train.keep_best kept its weights") \
    C(INT, target_ns, 1, "metered when the target was reached; 0: it was not")                     \
    C(TEXT, precision, 1, "fp32, bf16, …")                                                         \
    C(INT, batch, 1, "samples at once")                                                            \
    C(INT, accumulate, 1, "times a step")                                                          \
    C(REAL, flops_step, 1, "forward, backward and update of a step")                               \
    C(INT, arena_bytes, 1, "planned by the compiler")                                              \
    C(INT, peak_rss_bytes, 1, "of the process")                                                    \
    C(REAL, energy_wh, 2, "of the GPU, as its driver counts; NULL: not known")                     \
    C(INT, boot_wall_ns, 3, "when the machine was started; 0: not known")                          \
    C(TEXT, usage, 4, "of its GPUs, else cores: steady-high, oscillating, …; empty: not known")    \
    C(REAL, busy, 4, "part of the time that they worked, in the worst minute")                     \
    C(REAL, requests_usd, 5, "to object stores, and of bytes out of them; NULL: not known")        \
    C(REAL, storage_usd, 6, "of checkpoints in the object store while it lived; NULL: not known")  \
    C(TEXT, weights, 9,                                                                            \
      "size and hash of the file that it wrote to train.out, by which that file's run is found; "  \
      "empty: it wrote none")                                                                      \
    C(INT, ranks, 10, "that trained together; 0: one alone, or it has not ended")                  \
    C(INT, machines, 10, "that they were on")                                                      \
    C(INT, slowest_rank, 10, "that the others waited for")                                         \
    C(INT, waited_ns, 10, "by each of the others, on average")                                     \
    C(INT, exchange_ns, 10, "rank 0's part of compute_ns and redone_ns that it sent and received") \
    C(INT, sent_bytes, 10, "by rank 0 in that time, without NCCL's")

#define LEDGER_step(C)                                                                             \
    C(KEY, segment, 1, "segment.id")                                                               \
    C(KEYINT, step, 1, "of the run")                                                               \
    C(INT, metered_ns, 1, "of the segment, until here")                                            \
    C(INT, compute_ns, 1, "likewise")                                                              \
    C(INT, samples, 1, "likewise")                                                                 \
    C(REAL, loss, 1, "of the evaluation; else of the step")                                        \
    C(REAL, value, 1, "of run.metric; NULL where nothing was evaluated")

#define LEDGER_price(C)                                                                            \
    C(KEY, id, 1, "12 hexadecimal digits, made from the rest")                                     \
    C(REAL, usd_hour, 1, "of the whole machine")                                                   \
    C(TEXT, market, 1, "on-demand, spot, reserved or own; empty: not known")                       \
    C(TEXT, source, 1, "its source: train.usd_hour, or the catalogue's source and date")           \
    C(INT, granularity_s, 1, "billed in whole ones of it; 0: to the nanosecond")                   \
    C(INT, minimum_s, 1, "billed at least")                                                        \
    C(INT, free_s, 1, "a machine taken away by its provider before that costs nothing")

#define LEDGER_prediction(C)                                                                       \
    C(KEY, id, 1, "12 hexadecimal digits")                                                         \
    C(TEXT, run, 1, "run.id; empty: of every later run with these settings on that machine")       \
    C(TEXT, by, 1, "what predicted it: plan, …")                                                   \
    C(INT, made_wall_ns, 1, "when")                                                                \
    C(TEXT, machine, 1, "PROVIDER/NAME as run.machine has it; empty: the one at hand")             \
    C(REAL, seconds, 1, "of the whole run")                                                        \
    C(REAL, usd, 1, "of the whole run")                                                            \
    C(INT, arena_bytes, 1, "of memory")                                                            \
    C(TEXT, settings, 3, "12 hexadecimal digits made from those that change what a run takes")     \
    C(REAL, step_s, 5, "of a step's computing, before anything was learned from runs")             \
    C(TEXT, device, 5, "that it is of: a row of the catalogue's GPUs, or the processor's name")    \
    C(TEXT, precision, 5, "fp32, bf16, …")                                                         \
    C(TEXT, rates, 5, "12 hexadecimal digits made from the rates that step_s rests on")

#define LEDGER_checkpoint(C)                                                                       \
    C(KEY, segment, 1, "segment.id")                                                               \
    C(KEYINT, step, 1, "of the run")                                                               \
    C(KEY, place, 1, "where: a path, or s3://…")                                                   \
    C(INT, bytes, 1, "of all its files")                                                           \
    C(INT, blocked_ns, 1, "training paused")                                                       \
    C(INT, persist_ns, 1, "until it was valid")                                                    \
    C(INT, saved_wall_ns, 1, "when it was valid")                                                  \
    C(AGE, removed_wall_ns, 1, "0: not yet")                                                       \
    C(REAL, usd_gib_month, 1, "of its storage; a local disk's is in the machine's price")

#define LEDGER_interruption(C)                                                                     \
    C(KEY, segment, 1, "segment.id")                                                               \
    C(KEY, kind, 1, "signal, or who took the machine: notice, …")                                  \
    C(AGE, at_wall_ns, 1, "when it was received")                                                  \
    C(REAL, notice_s, 1, "time it gave")                                                           \
    C(INT, step, 1, "of the run")                                                                  \
    C(INT, saved_step, 1, "of the newest checkpoint when the segment ended")

#endif

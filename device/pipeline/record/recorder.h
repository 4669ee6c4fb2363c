// The recorder: events in from any thread, events out in order on the runtime's.
//
// dev_record is called by the app on any thread. It copies the event into a ring and returns; it
// takes no lock, allocates nothing and waits for nobody. Shared atomics live in recorder_ring.c
// alone. dev_recorder_drain is called on the runtime's thread: it gives each event its seq and its
// visit, keeps what live tasks need (capture.h) and hands it to the sink.
//
// Order is the order in which recordings took their place in the ring; of one thread, program
// order.
//
// Seq. Every accepted recording has a seq, also one that nobody needs (the sink sees the next
// event's seq step over it) and one that found the ring full (the sink is told of a gap). No seq is
// used twice, also after a kill: seqs and visit numbers are reserved in blocks, and the reservation
// goes through collect before anything that carries the numbers, so what is stored never has a
// number above what is reserved in the store. At boot the numbers between the last that were stored
// and the end of the reservation are declared a gap, and no visit of before goes on. A reservation
// is put for immediate commit: run dev_collect_step after boot and after each drain. What is
// recorded before the first of these commits of an install, and killed, leaves no trace at all.
//
// Errors of dev_record are the caller's business alone: an app may ignore them.
#ifndef DEV_PIPELINE_RECORDER_H
#define DEV_PIPELINE_RECORDER_H

#include "pipeline/record/capture.h"
#include "pipeline/storage/collect.h"
#include "pipeline/record/event.h"
#include "pipeline/record/visit.h"

#define DEV_RECORDER_RING_BYTES     (16 * 1024) // default; a power of two
#define DEV_RECORDER_RING_BYTES_MIN (16 * 1024)
#define DEV_RECORDER_RING_BYTES_MAX (1024 * 1024)
#define DEV_RECORDER_DRAIN_MAX      1024
#define DEV_RECORDER_RESERVE_SEQS   4096
#define DEV_RECORDER_RESERVE_VISITS 64

enum dev_gap_why {
    DEV_GAP_OVERFLOW, // the ring was full
    DEV_GAP_KILL,     // recorded or reserved, but not stored when the process ended
    DEV_GAP_STORE,    // could not be stored in time (sequence.h)
    DEV_GAP_WHY_COUNT
};

struct dev_gap { // seqs first .. first + count - 1
    uint64_t first;
    uint64_t count;
    enum dev_gap_why why;
};

// Called by drain and boot, in order. Everything is borrowed during the call. Members may be NULL.
struct dev_recorder_sink {
    void *ctx;
    void (*on_event)(void *ctx, const struct dev_event *event);
    void (*on_gap)(void *ctx, const struct dev_gap *gap);
    void (*on_visit_end)(void *ctx, const struct dev_visit *visit, enum dev_visit_end why);
};

struct dev_recorder_options {
    uint32_t ring_bytes; // 0 takes DEV_RECORDER_RING_BYTES
    uint64_t entropy;    // the secret of a fresh install
    uint64_t boot_id;    // names this boot of the device; 0: unknown, each start is a new boot
    struct dev_collect *collect; // must outlive it
    // Called by dev_record, on its thread, when something came after a drain had found nothing; may
    // be NULL. Must not block.
    void (*wake)(void *ctx);
    void *wake_ctx;
};

struct dev_recorder_stats {
    uint64_t recorded; // events with a seq in this process
    uint64_t kept;     // handed to the sink
    uint64_t unneeded;
    uint64_t lost;    // ring full
    uint64_t invalid; // refused, no seq
    uint64_t gaps;    // declared, of all reasons
    uint64_t damaged; // 1: the stored numbers could not be read and were made anew
    uint64_t next_seq;
    uint32_t boot;
    struct dev_visits visits;
};

size_t dev_recorder_bytes(const struct dev_recorder_options *options);
BASE_NODISCARD enum base_status dev_recorder_init(void *memory, size_t memory_bytes,
                                                  const struct dev_recorder_options *options,
                                                  struct dev_recorder **out);
// Once, after dev_collect_boot and before the first drain: reads the numbers back, ends the visits
// that a kill left open, declares the gap it left. The port's errors.
BASE_NODISCARD enum base_status dev_recorder_boot(struct dev_recorder *recorder, uint64_t now_us,
                                                  uint64_t mono_us,
                                                  const struct dev_recorder_sink *sink);
// Valid after boot: the key of page, item and name hashes.
uint64_t dev_recorder_secret(const struct dev_recorder *recorder);
// What to keep from here on; copied. NULL: everything, with all attributes (the state after init).
void dev_recorder_capture(struct dev_recorder *recorder, const struct dev_capture *capture);

// Hands over what was recorded, at most `max` recordings (0: DEV_RECORDER_DRAIN_MAX). Returns how
// many; fewer than that: the ring was found empty and the next recording wakes, or no numbers could
// be reserved because collect is full (then events stay in the ring: drain again after its step).
// Commits what waits in collect before it gives numbers that the store does not know as reserved.
uint32_t dev_recorder_drain(struct dev_recorder *recorder, uint64_t now_us, uint32_t max,
                            const struct dev_recorder_sink *sink);
// Puts the recorder's numbers and open visits into collect; call it in the group that stores events
// (sequence.h does). `stored_to`: all events below it are stored or given up, UINT64_MAX: all there
// were. What lies above is declared lost if the process is killed before the next checkpoint. The
// errors of dev_collect_put.
BASE_NODISCARD enum base_status dev_recorder_checkpoint(struct dev_recorder *recorder,
                                                        uint64_t now_us, uint64_t stored_to);
// The group of the last checkpoint was given up after all: events from `from` on are not stored.
void dev_recorder_uncheckpoint(struct dev_recorder *recorder, uint64_t from);
void dev_recorder_stats(const struct dev_recorder *recorder, struct dev_recorder_stats *out);

#endif

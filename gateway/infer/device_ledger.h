// What devices used of the inference service, and what they were answered: a quota for each device,
// and calls by their idempotency keys, so that a call which comes again because its answer was lost
// is charged once.
//
// A call is charged when it is let in: one call, and its body's bytes. One that did not run (too
// many wait, no such model) is given back, as far as it was charged itself. A repeat of a key
// within GW_DEVICE_KEY_US that asks the same is not charged: where the answer is still kept it is
// answered from that, and nothing runs; while the first is under way nothing runs either; else it
// runs, uncharged GW_DEVICE_REPEATS_MAX times. So a quota of n calls lets n * (1 + that) run at
// most. A key that asks for something else than it did is refused.
//
// Who proved nothing names the device it wants to be, so it has entries of its own: it neither uses
// up an enrolled device's quota nor sees its answers.
//
// All of it is this process's memory: after a restart every quota is full and no key is known, so
// one call is charged once by each process at most.
//
// Bounds: GW_DEVICE_QUOTAS_MAX devices and GW_DEVICE_KEYS_MAX keys; of more, the one that was seen
// longest ago of a few goes. Answers of GW_DEVICE_ANSWERS_BYTES together, of at most
// GW_DEVICE_ANSWER_MAX each. Any thread; one mutex, held for a look and a copy.
#ifndef GW_DEVICE_LEDGER_H
#define GW_DEVICE_LEDGER_H

#include "base/keyed_hash.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

#define GW_DEVICE_QUOTAS_MAX    65536u             // devices whose use is known
#define GW_DEVICE_KEYS_MAX      8192u              // calls whose keys are known
#define GW_DEVICE_KEY_US        (120 * 1000000ull) // that a key is known
#define GW_DEVICE_ANSWERS_BYTES ((size_t)16 << 20) // of all kept answers
#define GW_DEVICE_ANSWER_MAX    ((size_t)64 << 10) // of one kept answer

#define GW_DEVICE_REPEATS_MAX 1u // uncharged runs of a key

struct gw_device_ledger;

struct gw_device_quota {
    uint64_t calls_per_min; // 0: no limit; as many may come at once
    uint64_t bytes_per_min; // of bodies; likewise
};

// How it is known which device calls: a device of one is not that of another.
enum gw_device_shown {
    GW_DEVICE_SHOWN_ITSELF, // its credential or certificate
    GW_DEVICE_SHOWN_TOKEN,  // an operator's token, and a name
    GW_DEVICE_SHOWN_NAME,   // a name alone
};

// Who calls, and under which key. `key` has 32 hex digits, or is empty: no repeat is known then.
struct gw_device_charge {
    uint64_t device;
    uint16_t tenant;
    enum gw_device_shown shown;
    struct base_str key;
    uint64_t mark; // of what is asked: gw_device_ledger_mark
    uint64_t bytes;
    // Set by _charge.
    bool taken;   // it was charged, by this call
    uint64_t run; // of the key; 0: it has none
};

// What a call asks, as far as a repeat has to ask the same.
struct gw_device_asked {
    struct base_str type; // of the body
    struct base_str model;
    struct base_str version;
    struct base_str body;
};

enum gw_device_let {
    GW_DEVICE_CHARGED,   // let in
    GW_DEVICE_REPEATED,  // let in, for it was charged before
    GW_DEVICE_KEPT,      // its answer is there: see gw_device_ledger_kept
    GW_DEVICE_OVER,      // the quota is used up
    GW_DEVICE_UNDER_WAY, // the call that it repeats has not ended
    GW_DEVICE_OTHER,     // its key is known of a call that asked for something else
    GW_DEVICE_LET_COUNT
};

struct gw_device_figures {
    uint64_t let[GW_DEVICE_LET_COUNT];
    uint64_t given_back;
};

// NOMEM.
BASE_NODISCARD enum base_status gw_device_ledger_new(const struct gw_device_quota *quota,
                                                     const struct base_hash_key *hash_key,
                                                     struct gw_device_ledger **out);
void gw_device_ledger_free(struct gw_device_ledger *ledger); // accepts NULL

// A keyed hash, of this ledger alone.
uint64_t gw_device_ledger_mark(const struct gw_device_ledger *ledger,
                               const struct gw_device_asked *asked);
// OVER: *out_retry_after_s says when it is worth another try. After CHARGED and REPEATED the caller
// runs the call and ends it, with one of _end and _refund.
enum gw_device_let gw_device_ledger_charge(struct gw_device_ledger *ledger,
                                           struct gw_device_charge *charge, uint64_t now_us,
                                           uint32_t *out_retry_after_s);
// Of a charge that KEPT was said of: copies its answer. 0: it has gone meanwhile.
size_t gw_device_ledger_kept(struct gw_device_ledger *ledger, const struct gw_device_charge *charge,
                             uint8_t *out, size_t capacity);
// The answer to a call that was let in, for a repeat; before its end. One that is too large is not
// kept.
void gw_device_ledger_keep(struct gw_device_ledger *ledger, const struct gw_device_charge *charge,
                           const uint8_t *answer, size_t size);
// The call ended, well or not; it may be repeated from now on.
void gw_device_ledger_end(struct gw_device_ledger *ledger, const struct gw_device_charge *charge);
// It ended and did not run: what this call was charged is given back, and its key is forgotten. One
// that was not charged may be repeated as if it had not come.
void gw_device_ledger_refund(struct gw_device_ledger *ledger,
                             const struct gw_device_charge *charge);
void gw_device_ledger_figures(struct gw_device_ledger *ledger, struct gw_device_figures *out);

#endif

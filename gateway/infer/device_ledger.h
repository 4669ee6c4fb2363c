// What devices used of the inference service, and what they were answered: a quota for each device,
// and calls by their idempotency keys, so that a call which comes again because its answer was lost
// is charged once.
//
// A call is charged when it is let in: one call, and its body's bytes. One that did not run (too
// many wait, no such model) is given back. A repeat of a key within GW_DEVICE_KEY_US is not
// charged; where the answer is still kept it is answered from that, and nothing runs.
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

struct gw_device_ledger;

struct gw_device_quota {
    uint64_t calls_per_min; // 0: no limit; as many may come at once
    uint64_t bytes_per_min; // of bodies; likewise
};

// Who calls, and under which key. `key` has 32 hex digits, or is empty: no repeat is known then.
struct gw_device_charge {
    uint64_t device;
    uint16_t tenant;
    struct base_str key;
    uint64_t bytes;
};

enum gw_device_let {
    GW_DEVICE_CHARGED,  // let in
    GW_DEVICE_REPEATED, // let in, for it was charged before
    GW_DEVICE_KEPT,     // its answer is there: see gw_device_ledger_kept
    GW_DEVICE_OVER,     // the quota is used up
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

// OVER: *out_retry_after_s says when it is worth another try.
enum gw_device_let gw_device_ledger_charge(struct gw_device_ledger *ledger,
                                           const struct gw_device_charge *charge, uint64_t now_us,
                                           uint32_t *out_retry_after_s);
// Of a charge that KEPT was said of: copies its answer. 0: it has gone meanwhile.
size_t gw_device_ledger_kept(struct gw_device_ledger *ledger, const struct gw_device_charge *charge,
                             uint8_t *out, size_t capacity);
// The call did not run: what was charged is given back, and its key is forgotten.
void gw_device_ledger_refund(struct gw_device_ledger *ledger,
                             const struct gw_device_charge *charge);
// The answer to a call that was let in, for a repeat. One that is too large is not kept.
void gw_device_ledger_keep(struct gw_device_ledger *ledger, const struct gw_device_charge *charge,
                           const uint8_t *answer, size_t size);
void gw_device_ledger_figures(struct gw_device_ledger *ledger, struct gw_device_figures *out);

#endif

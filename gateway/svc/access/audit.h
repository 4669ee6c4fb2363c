// The audit log: who changed what, and who was refused, in a chain of hashes.
//
// An entry is text (the operator API writes JSON) with a number, counted from 1 without gaps, and a
// hash over the entry and the hash before it:
//   hash(n) = SHA-256("walle-audit-1", u64 n, u16 tenant, hash(n - 1), SHA-256(text))
// with hash(0) all zero. Whoever noted one hash sees later whether anything up to it was altered or
// taken out. The chain runs over all tenants; a reader of one tenant gets the others' entries
// without text, so that anybody can verify it whole.
//
// An entry is complete only after its change, when status and result are known. So that no change
// is without one, what is known beforehand goes to disk in the change's own transaction (the "open
// entry") and is replaced by the whole entry right after; an open entry found at start or later
// becomes an entry of its own.
//
// Control thread only, but for gw_audit_head.
#ifndef GW_AUDIT_H
#define GW_AUDIT_H

#include "base/error.h"
#include "store/store.h"

#define GW_AUDIT_TEXT_MAX (48u * 1024) // of one entry

struct gw_core;
struct gw_audit;

struct gw_answer;

// What one operation leaves in the log if it does not come to its end.
struct gw_audit_open {
    uint16_t tenant;
    struct base_str text;
    // A key that the request came with, when it had one: kept as used.
    const struct gw_answer *answer; // may be NULL
};

BASE_NODISCARD enum base_status gw_audit_new(struct gw_audit **out_audit);
void gw_audit_free(struct gw_audit *audit); // accepts NULL
// The end of the chain; appends what was left open. An entry that is damaged or missing is said in
// the log, and the chain goes on behind it. CORRUPT: the last entry cannot be read or does not fit,
// so nothing can follow it.
BASE_NODISCARD enum base_status gw_audit_load(struct gw_core *core, struct base_error *error);

// From here on, until gw_audit_end, every change submitted below carries `open`, which is copied.
// FULL, IO...: an earlier entry could not be completed yet; nothing may be changed then.
BASE_NODISCARD enum base_status gw_audit_begin(struct gw_core *core,
                                               const struct gw_audit_open *open);
// gw_store_submit_wait for whatever an operator changes.
BASE_NODISCARD enum base_status gw_audit_submit_wait(struct gw_core *core, struct gw_store_op *op);
// Appends the entry, durable on return, and keeps `answer` (NULL: none). When it cannot be written
// (counted in gw_audit_failures) the open entry of a change stays on disk, and is appended before
// anything else may be changed.
void gw_audit_end(struct gw_core *core, uint16_t tenant, struct base_str text,
                  const struct gw_answer *answer);
uint64_t gw_audit_failures(struct gw_core *core); // any thread
// What was begun came to nothing worth an entry; nothing was submitted meanwhile.
void gw_audit_cancel(struct gw_core *core);

struct gw_audit_view {
    uint64_t seq;
    uint16_t tenant;
    struct wire_sha256 hash;
    struct wire_sha256 text_hash;
    struct base_str text; // borrowed during the visit
};
// Entries behind `after`, in order, until `visit` returns false. CORRUPT: one is damaged; `error`
// says which.
typedef bool (*gw_audit_visit_fn)(void *ctx, const struct gw_audit_view *view);
BASE_NODISCARD enum base_status gw_audit_list(struct gw_core *core, uint64_t after,
                                              gw_audit_visit_fn visit, void *ctx,
                                              struct base_error *error);
// The last entry: 0 and zero when there is none.
void gw_audit_head(struct gw_core *core, uint64_t *out_seq, struct wire_sha256 *out_hash);

// The chain's rule; pure.
void gw_audit_chain(uint64_t seq, uint16_t tenant, const struct wire_sha256 *before,
                    const struct wire_sha256 *text, struct wire_sha256 *out);
// A stored row: CORRUPT when it is malformed. The text is borrowed from the row.
BASE_NODISCARD enum base_status gw_audit_decode(const uint8_t *bytes, size_t size,
                                                struct gw_audit_view *out);

#endif

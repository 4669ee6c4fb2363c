// The latest records of an upload that were refused, so that an operator sees what is wrong with
// them. Kept in memory, a few of each upload: what is gone is still counted (struct
// gw_upload_entry).
//
// SHARED: one mutex; taken for a refused record and by readers, never for one that is taken.
#ifndef GW_REFUSED_H
#define GW_REFUSED_H

#include "tunnel/schema/schema.h"
#include "wire/batch.h"

#include <stdatomic.h>

#define GW_REFUSED_KEPT  4u   // records of one upload
#define GW_REFUSED_BYTES 512u // kept of each

struct gw_refused_record {
    uint64_t device;
    uint64_t received_ms;
    enum base_status status;
    enum wire_record_format format;
    char why[GW_SCHEMA_WHY_MAX + 1]; // which field; empty: the status says all
    uint32_t size;                   // of all of it
    uint32_t kept;                   // of `bytes`
    uint8_t bytes[GW_REFUSED_BYTES];
};

struct gw_refused;

// Copies the record, over the oldest that is kept. *at begins as NULL and is made at the first one;
// without memory nothing is kept. `like` has all but size, kept and bytes. Any thread.
void gw_refused_keep(struct gw_refused *_Atomic *at, const struct gw_refused_record *like,
                     const uint8_t *bytes, size_t size);
// Calls `visit` for each that is kept, newest first; the mutex is held. Accepts NULL. Any thread.
void gw_refused_walk(struct gw_refused *refused,
                     void (*visit)(void *ctx, const struct gw_refused_record *record), void *ctx);
void gw_refused_free(struct gw_refused *refused); // accepts NULL

#endif

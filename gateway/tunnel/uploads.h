// What tasks declared that they upload: task, upload and schema version to tenant, class and
// schema. A batch's uploads are looked up here; what is not declared is refused or let through, as
// the operator wishes (gw_tunnel_options.refuse_unknown).
//
// SHARED: a read-write lock over the index. Uploads live as long as the table; one that is declared
// again with another schema is replaced, and the old one stays for who looks at it just now.
#ifndef GW_UPLOADS_H
#define GW_UPLOADS_H

#include "base/keyed_hash.h"
#include "svc/tunnel_seam.h"
#include "tunnel/refused.h"
#include "tunnel/schema/schema.h"
#include "wire/batch.h"

#include <stdatomic.h>

#define GW_UPLOADS_MAX 65536u

struct gw_uploads;

struct gw_upload_entry {
    struct gw_upload_entry *next; // in the bucket
    uint64_t hash;
    uint32_t tenant;
    uint16_t version;
    uint8_t class_id;
    uint8_t task_size;
    uint8_t upload_size;
    struct gw_schema *schema; // NULL: every record is fine
    _Atomic uint64_t records;
    _Atomic uint64_t rejected;
    struct gw_refused *_Atomic refused; // the latest of them; NULL: none
    char names[];                       // task, upload
};

BASE_NODISCARD enum base_status gw_uploads_new(const struct base_hash_key *key,
                                               struct gw_uploads **out);
void gw_uploads_free(struct gw_uploads *uploads); // accepts NULL
// Any thread. INVALID (the schema; `error` says what), CONFLICT: another tenant's; LIMIT, NOMEM.
BASE_NODISCARD enum base_status gw_uploads_declare(struct gw_uploads *uploads,
                                                   const struct gw_upload *upload,
                                                   struct base_error *error);
// NULL: not declared. Any thread.
struct gw_upload_entry *gw_uploads_find(struct gw_uploads *uploads,
                                        const struct wire_upload_key *key);
struct base_str gw_upload_entry_task(const struct gw_upload_entry *upload);
struct base_str gw_upload_entry_name(const struct gw_upload_entry *upload);
// Calls `visit` for each of a tenant, in no order; the lock is held.
void gw_uploads_walk(struct gw_uploads *uploads, uint32_t tenant,
                     void (*visit)(void *ctx, const struct gw_upload_entry *upload), void *ctx);

#endif

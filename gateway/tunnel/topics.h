// What tasks declared that they upload: task, upload and schema version to tenant, class and
// schema. A batch's topics are looked up here; what is not declared is refused or let through, as
// the operator wishes (gw_tunnel_options.refuse_unknown).
//
// SHARED: a read-write lock over the index. Topics live as long as the table; one that is declared
// again with another schema is replaced, and the old one stays for who looks at it just now.
#ifndef GW_TOPICS_H
#define GW_TOPICS_H

#include "base/keyed_hash.h"
#include "svc/tunnel_seam.h"
#include "tunnel/refused.h"
#include "tunnel/schema/schema.h"
#include "wire/batch.h"

#include <stdatomic.h>

#define GW_TOPICS_MAX 65536u

struct gw_topics;

struct gw_topic {
    struct gw_topic *next; // in the bucket
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

BASE_NODISCARD enum base_status gw_topics_new(const struct base_hash_key *key,
                                              struct gw_topics **out);
void gw_topics_free(struct gw_topics *topics); // accepts NULL
// Any thread. INVALID (the schema; `error` says what), CONFLICT: another tenant's; LIMIT, NOMEM.
BASE_NODISCARD enum base_status gw_topics_declare(struct gw_topics *topics,
                                                  const struct gw_upload *upload,
                                                  struct base_error *error);
// NULL: not declared. Any thread.
struct gw_topic *gw_topics_find(struct gw_topics *topics, const struct wire_topic *topic);
struct base_str gw_topic_task(const struct gw_topic *topic);
struct base_str gw_topic_upload(const struct gw_topic *topic);
// Calls `visit` for each of a tenant, in no order; the lock is held.
void gw_topics_walk(struct gw_topics *topics, uint32_t tenant,
                    void (*visit)(void *ctx, const struct gw_topic *topic), void *ctx);

#endif

// What the files of operators share. Only operators.c, tenants.c and access.c include this.
#ifndef GW_OPERATORS_PRIVATE_H
#define GW_OPERATORS_PRIVATE_H

#include "svc/core_private.h"

#include "policy/ratelimit.h"
#include "svc/access/peer_limits.h"

struct gw_operators {
    pthread_mutex_t lock;
    struct gw_token **tokens; // by ascending id; GW_TOKENS_MAX of room
    uint32_t token_count;
    struct gw_tenant tenants[GW_TENANTS_MAX]; // the id is the index
    uint32_t tenant_count;
    struct gw_peer_limits *failures;           // of operators' tokens
    struct gw_peer_limits *enrolment_failures; // of enrolment tokens
    struct pol_ratelimit enrolments;
    bool enrolments_begun;
    struct pol_ratelimit notes; // of refused strangers in the audit log
    bool notes_begun;
};

// With the lock held: the token's place, or where it would be.
uint32_t gw_operators_position(const struct gw_operators *operators, uint64_t id);
struct gw_token *gw_operators_token(const struct gw_operators *operators, uint64_t id);
// Puts a row of a table and waits; in the same transaction goes what the audit log has open.
BASE_NODISCARD enum base_status gw_operators_put(struct gw_core *core, enum gw_table table,
                                                 struct gw_key key, const void *row, size_t size);
BASE_NODISCARD enum base_status gw_tenants_load(struct gw_core *core, struct gw_store_read *read);

#endif

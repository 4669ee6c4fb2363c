// Operators' tokens: making, revoking, listing, and keeping them. Control thread; the mutex is for
// the workers that authenticate (access.c). api_access.c calls for tokens, core.c at start,
// control_thread.c flushes when a token was last used. A change is in the store before it is in the
// table. The first two tokens of a new gateway are made here too, and kept in files by the program
// (http/secret/own_tokens.c) before they count.
#include "svc/access/operators.h"

#include "svc/access/audit.h"
#include "svc/core.h"
#include "svc/access/operators_private.h"

#include <stdlib.h>
#include <string.h>

enum base_status gw_operators_new(const struct base_hash_key *key,
                                  struct gw_operators **out_operators)
{
    struct gw_operators *operators = calloc(1, sizeof(*operators));
    if (operators == NULL) {
        return BASE_ERR_NOMEM;
    }
    static const struct pol_ratelimit_config limit = {
        .burst = GW_ACCESS_BURST, .refill = 1, .interval_us = GW_ACCESS_INTERVAL_US};
    pthread_mutex_init(&operators->lock, NULL);
    operators->tokens = calloc(GW_TOKENS_MAX, sizeof(operators->tokens[0]));
    if (operators->tokens == NULL ||
        gw_peer_limits_new(key, &limit, &operators->failures) != BASE_OK ||
        gw_peer_limits_new(key, &limit, &operators->enrolment_failures) != BASE_OK) {
        gw_operators_free(operators);
        return BASE_ERR_NOMEM;
    }
    operators->tenants[0] = (struct gw_tenant){.id = GW_TENANT_DEFAULT, .name = "default"};
    operators->tenant_count = 1;
    *out_operators = operators;
    return BASE_OK;
}

void gw_operators_free(struct gw_operators *operators)
{
    if (operators == NULL) {
        return;
    }
    for (uint32_t i = 0; i < operators->token_count; i++) {
        free(operators->tokens[i]);
    }
    free(operators->tokens);
    gw_peer_limits_free(operators->failures);
    gw_peer_limits_free(operators->enrolment_failures);
    pthread_mutex_destroy(&operators->lock);
    free(operators);
}

uint32_t gw_operators_position(const struct gw_operators *operators, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = operators->token_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (operators->tokens[middle]->view.id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct gw_token *gw_operators_token(const struct gw_operators *operators, uint64_t id)
{
    uint32_t at = gw_operators_position(operators, id);
    bool there = at < operators->token_count && operators->tokens[at]->view.id == id;
    return there ? operators->tokens[at] : NULL;
}

static void insert(struct gw_operators *operators, struct gw_token *token)
{
    uint32_t at = gw_operators_position(operators, token->view.id);
    memmove(&operators->tokens[at + 1], &operators->tokens[at],
            (operators->token_count - at) * sizeof(operators->tokens[0]));
    operators->tokens[at] = token;
    operators->token_count++;
}

// ---- Store

struct put_op {
    struct gw_store_op op;
    enum gw_table table;
    struct gw_key key;
    const void *row;
    size_t size;
};

static enum base_status put_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct put_op *put = (struct put_op *)self;
    return gw_store_txn_put(txn, put->table, &put->key, put->row, put->size);
}

enum base_status gw_operators_put(struct gw_core *core, enum gw_table table, struct gw_key key,
                                  const void *row, size_t size)
{
    struct put_op put = {.table = table, .key = key, .row = row, .size = size};
    put.op.apply = put_apply;
    return gw_audit_submit_wait(core, &put.op);
}

struct drop_op {
    struct gw_store_op op;
    struct gw_key key;
};

static enum base_status drop_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    return gw_store_txn_delete(txn, GW_TABLE_TOKENS, &((struct drop_op *)self)->key);
}

// Since when the token opens nothing; 0: it still does.
static uint64_t dead_since(const struct gw_token_view *view, uint64_t now_s)
{
    if (view->revoked_s != 0) {
        return view->revoked_s;
    }
    return view->expires_s != 0 && view->expires_s <= now_s ? view->expires_s : 0;
}

// Forgets the token that has been dead longest, of all or of the tenant's. False: all are alive, or
// the disk is full.
static bool make_room(struct gw_core *core, const uint16_t *tenant)
{
    struct gw_operators *operators = core->operators;
    uint64_t now_s = gw_core_now_s(core);
    uint64_t oldest = UINT64_MAX;
    uint32_t found = 0;
    for (uint32_t i = 0; i < operators->token_count; i++) {
        const struct gw_token_view *view = &operators->tokens[i]->view;
        uint64_t since = dead_since(view, now_s);
        if (since != 0 && since < oldest && (tenant == NULL || view->tenant == *tenant)) {
            oldest = since;
            found = i;
        }
    }
    if (oldest == UINT64_MAX) {
        return false;
    }
    struct gw_token *token = operators->tokens[found];
    struct drop_op drop = {.key = gw_key_u64(token->view.id)};
    drop.op.apply = drop_apply;
    if (gw_audit_submit_wait(core, &drop.op) != BASE_OK) {
        return false;
    }
    pthread_mutex_lock(&operators->lock);
    operators->token_count--;
    memmove(&operators->tokens[found], &operators->tokens[found + 1],
            (operators->token_count - found) * sizeof(operators->tokens[0]));
    pthread_mutex_unlock(&operators->lock);
    free(token);
    return true;
}

static enum base_status store_token(struct gw_core *core, const struct gw_token *token)
{
    uint8_t row[GW_TOKEN_ROW_MAX];
    size_t size = gw_token_encode(token, row);
    return gw_operators_put(core, GW_TABLE_TOKENS, gw_key_u64(token->view.id), row, size);
}

size_t gw_operators_token_row(struct gw_core *core, uint64_t id, uint8_t out[GW_TOKEN_ROW_MAX])
{
    struct gw_operators *operators = core->operators;
    pthread_mutex_lock(&operators->lock);
    const struct gw_token *token = gw_operators_token(operators, id);
    size_t size = token != NULL ? gw_token_encode(token, out) : 0;
    pthread_mutex_unlock(&operators->lock);
    return size;
}

// Writes the row of a token as it is when the writer comes to it.
struct live_op {
    struct gw_store_op op;
    struct gw_core *core;
    uint64_t id;
};

static enum base_status live_apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct live_op *live = (struct live_op *)self;
    uint8_t row[GW_TOKEN_ROW_MAX];
    size_t size = gw_operators_token_row(live->core, live->id, row);
    struct gw_key key = gw_key_u64(live->id);
    return gw_store_txn_put(txn, GW_TABLE_TOKENS, &key, row, size);
}

struct load {
    struct gw_core *core;
    enum base_status status;
};

static bool load_token(void *ctx, struct base_span key, struct base_span value)
{
    struct load *load = ctx;
    struct gw_operators *operators = load->core->operators;
    struct gw_token *token = malloc(sizeof(*token));
    load->status = token == NULL ? BASE_ERR_NOMEM : gw_token_decode(value.data, value.size, token);
    if (load->status == BASE_OK && operators->token_count == GW_TOKENS_MAX) {
        load->status = BASE_ERR_LIMIT;
    }
    if (load->status != BASE_OK || !gw_key_read_u64(key.data, key.size, 0, &token->view.id)) {
        load->status = load->status == BASE_OK ? BASE_ERR_CORRUPT : load->status;
        free(token);
        return false;
    }
    insert(operators, token);
    return true;
}

enum base_status gw_operators_load(struct gw_core *core, struct base_error *error)
{
    struct load load = {.core = core, .status = BASE_OK};
    struct gw_key from = gw_key_u64(0);
    struct gw_store_read *read;
    BASE_TRY(gw_store_read_begin(core->store, &read));
    enum base_status status = gw_tenants_load(core, read);
    if (status == BASE_OK) {
        status = gw_store_read_scan(read, GW_TABLE_TOKENS, &from, load_token, &load);
    }
    gw_store_read_end(read);
    if (status == BASE_OK) {
        status = load.status;
    }
    // A token that cannot be read might be one that was revoked: nothing is guessed.
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "cannot load tenants and tokens: %s",
                                              base_status_text(status));
}

// ---- Operations

static bool sees(const struct gw_actor *actor, const struct gw_token *token)
{
    bool near = token->view.tenant == actor->tenant ||
                (actor->every_tenant && token->view.tenant == GW_TENANT_EVERY);
    return near && gw_actor_holds(actor, &token->view);
}

static uint64_t draw_id(struct gw_core *core)
{
    uint64_t id = 0;
    while (id == 0 || gw_operators_token(core->operators, id) != NULL) {
        id = core->random.next(core->random.ctx);
    }
    return id;
}

static const char *prefix_of(enum gw_role role)
{
    return role == GW_ROLE_ENROL ? GW_SECRET_ENROLMENT : GW_SECRET_OPERATOR;
}

// Adds a token of `wish` whose secret is `text`.
static enum base_status add_token(struct gw_core *core, const struct gw_token_view *wish,
                                  const char *text, struct gw_token_view *out,
                                  struct base_error *error)
{
    struct gw_operators *operators = core->operators;
    struct gw_token *token = calloc(1, sizeof(*token));
    if (token == NULL) {
        return BASE_ERR_NOMEM;
    }
    token->view = *wish;
    token->view.id = draw_id(core);
    token->view.created_s = gw_core_now_s(core);
    token->view.revision = 1;
    (void)gw_secret_hash(base_str_of(text), prefix_of(wish->role), &token->hash);
    enum base_status status = store_token(core, token);
    if (status != BASE_OK) {
        free(token);
        return base_error_set(error, status, "the token could not be stored: %s",
                              base_status_text(status));
    }
    *out = token->view;
    pthread_mutex_lock(&operators->lock);
    insert(operators, token);
    pthread_mutex_unlock(&operators->lock);
    return BASE_OK;
}

// Whose tokens there are; what is dead makes room, a tenant's own when it has its share. LIMIT,
// CONFLICT.
static enum base_status place_for_token(struct gw_core *core, uint16_t tenant,
                                        struct base_error *error)
{
    const struct gw_operators *operators = core->operators;
    if (operators->token_count == GW_TOKENS_MAX) {
        (void)make_room(core, NULL);
    }
    struct gw_tenant_holding holding = {
        .tenant = tenant, .what = "tokens", .max = GW_TOKENS_MAX, .all = operators->token_count};
    for (uint32_t i = 0; i < operators->token_count; i++) {
        holding.own += operators->tokens[i]->view.tenant == tenant;
    }
    enum base_status status = gw_tenant_may_add(&holding, error);
    return status == BASE_ERR_CONFLICT && make_room(core, &tenant) ? BASE_OK : status;
}

enum base_status gw_token_create(struct gw_core *core, const struct gw_token_view *wish,
                                 struct gw_token_view *out, char out_text[GW_SECRET_TEXT_BYTES + 1],
                                 struct base_error *error)
{
    BASE_TRY(place_for_token(core, wish->tenant, error));
    if (gw_secret_make(&core->random, prefix_of(wish->role), out_text) != BASE_OK) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "this program has no randomness");
    }
    return add_token(core, wish, out_text, out, error);
}

// The text is kept before the token is: a crash in between leaves a file that opens nothing, which
// the next start replaces.
static enum base_status first_enrolment(struct gw_core *core, const struct gw_first_token *port,
                                        struct base_error *error)
{
    const struct gw_operators *operators = core->operators;
    const struct gw_token_view wish = {.role = GW_ROLE_ENROL, .name = GW_FIRST_TOKEN_NAME};
    struct gw_token_view made;
    char text[GW_SECRET_TEXT_BYTES + 1];
    bool any = false;
    for (uint32_t i = 0; i < operators->token_count; i++) {
        any = any || operators->tokens[i]->view.role == GW_ROLE_ENROL;
    }
    if (any || operators->token_count == GW_TOKENS_MAX) {
        return BASE_OK;
    }
    if (gw_secret_make(&core->random, GW_SECRET_ENROLMENT, text) != BASE_OK) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "this program has no randomness");
    }
    BASE_TRY(port->keep(port->ctx, false, text, error));
    return add_token(core, &wish, text, &made, error);
}

// Is there a token that administers the default tenant?
static bool has_admin(const struct gw_operators *operators, uint64_t now_s)
{
    for (uint32_t i = 0; i < operators->token_count; i++) {
        const struct gw_token_view *view = &operators->tokens[i]->view;
        if (view->role == GW_ROLE_ADMIN && dead_since(view, now_s) == 0 &&
            (view->tenant == GW_TENANT_DEFAULT || view->tenant == GW_TENANT_EVERY)) {
            return true;
        }
    }
    return false;
}

static enum base_status first_admin(struct gw_core *core, const struct gw_first_token *port,
                                    struct base_error *error)
{
    char text[GW_SECRET_TEXT_BYTES + 1];
    if (core->set.admin_token_bytes > 0 || has_admin(core->operators, gw_core_now_s(core))) {
        return BASE_OK;
    }
    if (gw_secret_make(&core->random, GW_SECRET_OPERATOR, text) != BASE_OK) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "this program has no randomness");
    }
    core->set.admin_token = malloc(GW_SECRET_TEXT_BYTES);
    if (core->set.admin_token == NULL) {
        return BASE_ERR_NOMEM;
    }
    memcpy(core->set.admin_token, text, GW_SECRET_TEXT_BYTES);
    core->set.admin_token_bytes = GW_SECRET_TEXT_BYTES;
    return port->keep(port->ctx, true, text, error);
}

enum base_status gw_operators_first(struct gw_core *core, const struct gw_first_token *port,
                                    struct base_error *error)
{
    if (port->keep == NULL) {
        return BASE_OK;
    }
    BASE_TRY(first_enrolment(core, port, error));
    return first_admin(core, port, error);
}

enum base_status gw_token_get(struct gw_core *core, const struct gw_actor *actor, uint64_t id,
                              struct gw_token_view *out)
{
    struct gw_operators *operators = core->operators;
    pthread_mutex_lock(&operators->lock);
    const struct gw_token *token = gw_operators_token(operators, id);
    bool there = token != NULL && sees(actor, token);
    if (there) {
        *out = token->view;
    }
    pthread_mutex_unlock(&operators->lock);
    return there ? BASE_OK : BASE_ERR_NOT_FOUND;
}

static void mark(struct gw_operators *operators, struct gw_token *token, uint64_t revoked_s,
                 uint32_t revision)
{
    pthread_mutex_lock(&operators->lock);
    token->view.revoked_s = revoked_s;
    token->view.revision = revision;
    pthread_mutex_unlock(&operators->lock);
}

// Marked first, and stored as it then is: uses that are under way write the token's row as well, on
// the writer's thread, and neither may lose what the other says.
static enum base_status revoke(struct gw_core *core, struct gw_token *token)
{
    uint32_t revision = token->view.revision;
    struct live_op live = {.core = core, .id = token->view.id};
    live.op.apply = live_apply;
    live.op.sort_key = live.id;
    mark(core->operators, token, gw_core_now_s(core), revision + 1);
    enum base_status status = gw_audit_submit_wait(core, &live.op);
    if (status != BASE_OK) {
        mark(core->operators, token, 0, revision);
    }
    return status;
}

enum base_status gw_token_revoke(struct gw_core *core, const struct gw_actor *actor, uint64_t id,
                                 struct gw_token_view *out, struct base_error *error)
{
    struct gw_token *token = gw_operators_token(core->operators, id); // this thread alone adds some
    if (token == NULL || !sees(actor, token)) {
        return base_error_set(error, BASE_ERR_NOT_FOUND, "no such token");
    }
    if (token->view.revoked_s == 0) {
        enum base_status status = revoke(core, token);
        if (status != BASE_OK) {
            return base_error_set(error, status, "the revocation could not be stored: %s",
                                  base_status_text(status));
        }
    }
    return gw_token_get(core, actor, id, out);
}

void gw_token_list(struct gw_core *core, const struct gw_actor *actor, uint64_t after,
                   struct gw_token_view *out, struct gw_page *page)
{
    struct gw_operators *operators = core->operators;
    uint32_t limit = gw_page_room(page);
    uint32_t count = 0;
    bool more = false;
    pthread_mutex_lock(&operators->lock);
    for (uint32_t i = 0; i < operators->token_count && !more; i++) {
        const struct gw_token *token = operators->tokens[i];
        if (token->view.id <= after || !sees(actor, token)) {
            continue;
        }
        more = count == limit;
        if (!more) {
            out[count++] = token->view;
        }
    }
    pthread_mutex_unlock(&operators->lock);
    page->count = count;
    page->more = more;
}

void gw_operators_flush(struct gw_core *core)
{
    struct gw_operators *operators = core->operators;
    for (uint32_t i = 0; i < operators->token_count; i++) {
        struct gw_token *token = operators->tokens[i];
        pthread_mutex_lock(&operators->lock);
        uint64_t used_s = token->view.last_used_s;
        pthread_mutex_unlock(&operators->lock);
        struct live_op live = {.core = core, .id = token->view.id};
        live.op.apply = live_apply;
        live.op.sort_key = live.id;
        if (used_s >= token->stored_used_s + GW_TOKEN_SEEN_S &&
            gw_store_submit_wait(core->store, &live.op) == BASE_OK) {
            token->stored_used_s = used_s;
        }
    }
}

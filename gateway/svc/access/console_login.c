// Codes and sessions of the console, in memory alone: a start ends them all. Any thread; the mutex
// is held for a walk over a small table. api_login.c makes codes and sessions on the control
// thread, access.c asks on a worker who a request is from. Only hashes are kept. The code is used
// up in the same step in which its session begins, so it opens one at most.
#include "svc/access/console_login.h"

#include "svc/core_private.h"

#include <stdlib.h>
#include <string.h>

struct ticket {
    struct wire_sha256 hash;
    uint64_t token_id;
    uint64_t ends_s; // 0: free
};

struct gw_logins {
    pthread_mutex_t lock;
    struct ticket codes[GW_LOGIN_CODES_MAX];
    struct ticket sessions[GW_LOGIN_SESSIONS_MAX];
};

enum base_status gw_logins_new(struct gw_logins **out_logins)
{
    struct gw_logins *logins = calloc(1, sizeof(*logins));
    if (logins == NULL) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_init(&logins->lock, NULL);
    *out_logins = logins;
    return BASE_OK;
}

void gw_logins_free(struct gw_logins *logins)
{
    if (logins != NULL) {
        pthread_mutex_destroy(&logins->lock);
        free(logins);
    }
}

// Monotonic: a wall clock that is set does not make a code good for longer.
static uint64_t now_s(const struct gw_core *core)
{
    return core->clock.mono_us(core->clock.ctx) / 1000000;
}

// With the lock held: every ticket is compared, each in full. NULL: none that is good.
static struct ticket *find(struct ticket *tickets, uint32_t count, const struct wire_sha256 *hash,
                           uint64_t at_s)
{
    struct ticket *found = NULL;
    for (uint32_t i = 0; i < count; i++) {
        bool same = gw_secret_equal(tickets[i].hash.bytes, hash->bytes, WIRE_SHA256_BYTES);
        found = same && tickets[i].ends_s > at_s ? &tickets[i] : found;
    }
    return found;
}

// With the lock held: in the place of one that has ended, or of this token's own that ends first
// when it has `each` of them. BUSY: others have all there are; theirs stay.
static enum base_status add(struct ticket *tickets, uint32_t count, uint32_t each,
                            const struct ticket *ticket, uint64_t at_s)
{
    struct ticket *ended = NULL;
    struct ticket *oldest = NULL;
    uint32_t own = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct ticket *one = &tickets[i];
        if (one->ends_s <= at_s) {
            ended = ended != NULL ? ended : one;
        } else if (one->token_id == ticket->token_id) {
            own++;
            oldest = oldest != NULL && oldest->ends_s <= one->ends_s ? oldest : one;
        }
    }
    struct ticket *place = own >= each || ended == NULL ? oldest : ended;
    if (place == NULL) {
        return BASE_ERR_BUSY;
    }
    *place = *ticket;
    return BASE_OK;
}

enum base_status gw_login_code(struct gw_core *core, uint64_t token_id,
                               char out_text[GW_SECRET_TEXT_BYTES + 1])
{
    struct gw_logins *logins = core->logins;
    uint64_t at_s = now_s(core);
    struct ticket ticket = {.token_id = token_id, .ends_s = at_s + GW_LOGIN_CODE_S};
    BASE_TRY(gw_secret_make(&core->random, GW_SECRET_CODE, out_text));
    (void)gw_secret_hash(base_str_of(out_text), GW_SECRET_CODE, &ticket.hash);
    pthread_mutex_lock(&logins->lock);
    enum base_status status =
        add(logins->codes, GW_LOGIN_CODES_MAX, GW_LOGIN_CODES_EACH, &ticket, at_s);
    pthread_mutex_unlock(&logins->lock);
    return status;
}

enum base_status gw_login_open(struct gw_core *core, struct base_str code,
                               char out_text[GW_SECRET_TEXT_BYTES + 1])
{
    struct gw_logins *logins = core->logins;
    uint64_t at_s = now_s(core);
    struct wire_sha256 hash;
    struct ticket session = {.ends_s = at_s + GW_LOGIN_SESSION_S};
    if (!gw_secret_hash(code, GW_SECRET_CODE, &hash)) {
        return BASE_ERR_NOT_FOUND;
    }
    BASE_TRY(gw_secret_make(&core->random, GW_SECRET_SESSION, out_text));
    (void)gw_secret_hash(base_str_of(out_text), GW_SECRET_SESSION, &session.hash);
    pthread_mutex_lock(&logins->lock);
    struct ticket *used = find(logins->codes, GW_LOGIN_CODES_MAX, &hash, at_s);
    enum base_status status = used != NULL ? BASE_OK : BASE_ERR_NOT_FOUND;
    if (used != NULL) {
        session.token_id = used->token_id;
        status =
            add(logins->sessions, GW_LOGIN_SESSIONS_MAX, GW_LOGIN_SESSIONS_EACH, &session, at_s);
    }
    if (status == BASE_OK) {
        memset(used, 0, sizeof(*used));
    }
    pthread_mutex_unlock(&logins->lock);
    return status;
}

bool gw_login_find(struct gw_core *core, struct base_str given, bool code, uint64_t *out_token_id)
{
    struct gw_logins *logins = core->logins;
    struct wire_sha256 hash;
    if (!gw_secret_hash(given, code ? GW_SECRET_CODE : GW_SECRET_SESSION, &hash)) {
        return false;
    }
    pthread_mutex_lock(&logins->lock);
    const struct ticket *found =
        code ? find(logins->codes, GW_LOGIN_CODES_MAX, &hash, now_s(core))
             : find(logins->sessions, GW_LOGIN_SESSIONS_MAX, &hash, now_s(core));
    if (found != NULL) {
        *out_token_id = found->token_id;
    }
    pthread_mutex_unlock(&logins->lock);
    return found != NULL;
}

// Authentication of requests to the operator API and of enrolments. Workers' threads; the tables of
// operators.c behind their mutex.
//
// A token is looked at first: a good one always passes. One that is not costs its address a try, at
// the API and at enrolment apart; without tries left the answer is 429 in place of 401. That keeps
// a guesser's noise down; what keeps guesses from succeeding is that tokens are 32 random bytes.
// Nothing about a token, not even a part of it, is ever logged or answered.
#include "svc/access/operators_private.h"

#include "svc/access/console_login.h"
#include "svc/reply.h"
#include "svc/route.h"

#include <string.h>

// A token that is not good costs its address a try. False: it had none left.
static bool take_try(struct gw_core *core, struct gw_peer_limits *tries, uint64_t peer)
{
    atomic_fetch_add_explicit(&core->access_failures, 1, memory_order_relaxed);
    return gw_peer_limits_take(tries, peer, core->clock.mono_us(core->clock.ctx));
}

static bool bearer(const struct gw_request *request, struct base_str *out)
{
    struct base_str prefix = BASE_STR("Bearer ");
    if (!base_str_starts(request->authorization, prefix)) {
        return false;
    }
    *out = (struct base_str){request->authorization.data + prefix.size,
                             request->authorization.size - prefix.size};
    return true;
}

// The configured token, or the gateway's own: compared by hash, so that the time says nothing of
// it, its length included.
static bool is_admin_token(const struct gw_core *core, struct base_str given)
{
    struct wire_sha256 a;
    struct wire_sha256 b;
    if (core->set.admin_token_bytes == 0) {
        return false;
    }
    gw_sha256(given.data, given.size, &a);
    gw_sha256(core->set.admin_token, core->set.admin_token_bytes, &b);
    return gw_secret_equal(a.bytes, b.bytes, WIRE_SHA256_BYTES);
}

static bool is_alive(const struct gw_token *token, uint64_t now_s)
{
    return token->view.revoked_s == 0 &&
           (token->view.expires_s == 0 || token->view.expires_s > now_s);
}

// With the lock held: the living token with this hash. Every token is compared, each in full.
static struct gw_token *find_hash(struct gw_core *core, const struct wire_sha256 *hash,
                                  uint64_t now_s)
{
    const struct gw_operators *operators = core->operators;
    struct gw_token *found = NULL;
    for (uint32_t i = 0; i < operators->token_count; i++) {
        struct gw_token *token = operators->tokens[i];
        bool same = gw_secret_equal(token->hash.bytes, hash->bytes, WIRE_SHA256_BYTES);
        found = same && is_alive(token, now_s) ? token : found;
    }
    return found;
}

static void be_admin(struct gw_actor *out)
{
    out->token_id = 0;
    out->role = GW_ROLE_ADMIN;
    out->tenant = GW_TENANT_DEFAULT;
    out->every_tenant = true;
    out->scope_count = 0;
    memcpy(out->name, "admin", sizeof("admin"));
    memcpy(out->person, "admin", sizeof("admin"));
}

// With the lock held.
static void be(struct gw_actor *out, struct gw_token *token, uint64_t now_s)
{
    const struct gw_token_view *view = &token->view;
    token->view.last_used_s = now_s;
    out->token_id = view->id;
    out->role = view->role;
    out->every_tenant = view->tenant == GW_TENANT_EVERY;
    out->tenant = out->every_tenant ? GW_TENANT_DEFAULT : view->tenant;
    memcpy(out->name, view->name, sizeof(out->name));
    memcpy(out->person, view->owner[0] != 0 ? view->owner : view->name, sizeof(out->person));
    out->scope_count = view->scope_count;
    memcpy(out->scopes, view->scopes, sizeof(out->scopes));
}

static bool be_token(struct gw_core *core, struct base_str given, struct gw_actor *out)
{
    struct wire_sha256 hash;
    uint64_t now_s = gw_core_now_s(core);
    if (!gw_secret_hash(given, GW_SECRET_OPERATOR, &hash)) {
        return false;
    }
    pthread_mutex_lock(&core->operators->lock);
    struct gw_token *token = find_hash(core, &hash, now_s);
    if (token != NULL) {
        be(out, token, now_s);
    }
    pthread_mutex_unlock(&core->operators->lock);
    return token != NULL;
}

// A session of the console, or at its door the code that opens one: who asked for it, if its token
// still lives.
static bool be_login(struct gw_core *core, const struct gw_exchange *exchange,
                     struct base_str given, struct gw_actor *out)
{
    bool door = exchange->route != NULL && exchange->route->who == GW_FOR_LOGIN;
    uint64_t id = 0;
    uint64_t now_s = gw_core_now_s(core);
    if (!gw_login_find(core, given, door, &id)) {
        return false;
    }
    if (id == 0) {
        be_admin(out);
        return true;
    }
    pthread_mutex_lock(&core->operators->lock);
    struct gw_token *token = gw_operators_token(core->operators, id);
    bool alive = token != NULL && is_alive(token, now_s);
    if (alive) {
        be(out, token, now_s);
    }
    pthread_mutex_unlock(&core->operators->lock);
    return alive;
}

static bool refuse_limited(struct gw_exchange *exchange)
{
    gw_reply_problem(exchange, 429, "too many failed authentications from this address");
    gw_reply_header(&exchange->reply, BASE_STR("retry-after"), BASE_STR("3"));
    return false;
}

static bool refuse_unknown(struct gw_exchange *exchange)
{
    gw_reply_problem(exchange, 401, "bearer token missing or wrong");
    gw_reply_header(&exchange->reply, BASE_STR("www-authenticate"), BASE_STR("Bearer"));
    return false;
}

static bool refuse_failed(struct gw_core *core, struct gw_exchange *exchange,
                          struct gw_peer_limits *tries)
{
    bool had = take_try(core, tries, exchange->request.peer);
    return had ? refuse_unknown(exchange) : refuse_limited(exchange);
}

// An operator of every tenant says in which one it acts; others may name their own.
static bool choose_tenant(struct gw_core *core, struct gw_exchange *exchange, struct gw_actor *out)
{
    struct base_str name = exchange->request.tenant;
    uint16_t tenant = 0;
    if (name.size == 0) {
        return true;
    }
    bool known = gw_tenant_find(core, name, &tenant);
    if (!known || (!out->every_tenant && tenant != out->tenant)) {
        gw_reply_problem(exchange, 404, "walle-tenant: no such tenant");
        return false;
    }
    out->tenant = tenant;
    return true;
}

// An operator it is.
static bool admit(struct gw_core *core, struct gw_exchange *exchange, struct gw_actor *out)
{
    if (exchange->request.proven != NULL) {
        *exchange->request.proven = true;
    }
    return choose_tenant(core, exchange, out);
}

// Whether a browser sends this for a page of somebody else. What a browser says about itself in
// sec-fetch-site no page can change; one that does not say it names the page's origin, at least
// with what changes something. Programs send neither. An origin is scheme, host and port: a page
// that came in the clear, which anybody on the way could write, is none of a gateway's over TLS. A
// trusted hop may have ended TLS, so what comes in the clear through one may have either.
static bool is_foreign_page(const struct gw_request *request)
{
    if (request->fetch_site.size > 0) {
        return !base_str_equal(request->fetch_site, BASE_STR("same-origin")) &&
               !base_str_equal(request->fetch_site, BASE_STR("none"));
    }
    struct base_str host = request->origin;
    if (host.size == 0) {
        return false;
    }
    bool sealed = base_str_starts(host, BASE_STR("https://"));
    struct base_str scheme = sealed ? BASE_STR("https://") : BASE_STR("http://");
    if (!base_str_starts(host, scheme)) {
        return true; // "null", or no page of the web
    }
    if (sealed != request->secure && (request->secure || !request->hop)) {
        return true;
    }
    host.data += scheme.size;
    host.size -= scheme.size;
    return !base_str_equal(host, request->authority);
}

bool gw_access_check(struct gw_core *core, struct gw_exchange *exchange, struct gw_actor *out)
{
    const struct gw_request *request = &exchange->request;
    struct base_str given;
    if (is_foreign_page(request)) {
        gw_reply_problem(exchange, 403, "origin: a page of another site may not use this gateway");
        return false;
    }
    if (!bearer(request, &given)) {
        return refuse_unknown(exchange);
    }
    if (is_admin_token(core, given)) {
        be_admin(out);
    } else if (!be_token(core, given, out) && !be_login(core, exchange, given, out)) {
        return refuse_failed(core, exchange, core->operators->failures);
    }
    return admit(core, exchange, out);
}

// ---- Figures

static bool is_here(enum gw_metrics_access access, const struct gw_request *request)
{
    return access == GW_METRICS_LOOPBACK && request->loopback && !is_foreign_page(request);
}

bool gw_access_without_token(enum gw_metrics_access access, const struct gw_request *request)
{
    return request->authorization.size == 0 &&
           (access == GW_METRICS_OPEN || is_here(access, request));
}

enum gw_metrics_for gw_access_metrics(struct gw_core *core, struct gw_exchange *exchange,
                                      struct gw_actor *out_actor)
{
    const struct gw_request *request = &exchange->request;
    if (request->authorization.size == 0 && is_here(core->set.metrics_access, request)) {
        return GW_METRICS_FOR_ALL;
    }
    if (request->authorization.size == 0 && core->set.metrics_access == GW_METRICS_OPEN) {
        return GW_METRICS_FOR_STRANGER;
    }
    return gw_access_check(core, exchange, out_actor) ? GW_METRICS_FOR_ACTOR
                                                      : GW_METRICS_FOR_NOBODY;
}

bool gw_core_may_note_stranger(struct gw_core *core)
{
    static const struct pol_ratelimit_config config = {.burst = GW_ACCESS_NOTES_BURST,
                                                       .refill = GW_ACCESS_NOTES_BURST,
                                                       .interval_us = 60 * UINT64_C(1000000)};
    struct gw_operators *operators = core->operators;
    uint64_t now_us = core->clock.mono_us(core->clock.ctx);
    pthread_mutex_lock(&operators->lock);
    if (!operators->notes_begun) {
        operators->notes_begun = true;
        pol_ratelimit_init(&operators->notes, &config, now_us);
    }
    bool may = pol_ratelimit_take(&operators->notes, &config, 1, now_us);
    pthread_mutex_unlock(&operators->lock);
    return may;
}

// ---- Enrolment

// With the lock held.
static bool enrolment_rate(struct gw_core *core)
{
    struct gw_operators *operators = core->operators;
    const struct pol_ratelimit_config config = {.burst = core->set.enroll_rate_per_s,
                                                .refill = core->set.enroll_rate_per_s,
                                                .interval_us = 1000000};
    uint64_t now_us = core->clock.mono_us(core->clock.ctx);
    if (!operators->enrolments_begun) {
        operators->enrolments_begun = true;
        pol_ratelimit_init(&operators->enrolments, &config, now_us);
    }
    return pol_ratelimit_take(&operators->enrolments, &config, 1, now_us);
}

bool gw_access_enrolment(struct gw_core *core, struct gw_exchange *exchange, bool asked_again,
                         uint64_t *out_token_id, uint16_t *out_tenant)
{
    const struct gw_request *request = &exchange->request;
    struct wire_sha256 hash;
    struct base_str given;
    if (!bearer(request, &given) || !gw_secret_hash(given, GW_SECRET_ENROLMENT, &hash)) {
        return refuse_failed(core, exchange, core->operators->enrolment_failures);
    }
    uint64_t now_s = gw_core_now_s(core);
    pthread_mutex_lock(&core->operators->lock);
    struct gw_token *token = find_hash(core, &hash, now_s);
    bool found = token != NULL && token->view.role == GW_ROLE_ENROL;
    bool open = found && (asked_again || token->view.uses_max == 0);
    bool used_up = found && !open && token->view.uses >= token->view.uses_max;
    bool left = open || (found && token->view.uses + token->uses_taken < token->view.uses_max);
    bool now = left && enrolment_rate(core); // strangers take none of it
    if (now) {
        token->uses_taken += asked_again ? 0 : 1;
        token->view.last_used_s = now_s;
        *out_token_id = token->view.id;
        *out_tenant = token->view.tenant;
    }
    pthread_mutex_unlock(&core->operators->lock);
    if (!found) {
        return refuse_failed(core, exchange, core->operators->enrolment_failures);
    }
    if (used_up) {
        gw_reply_problem(exchange, 403, "the enrolment token is used up");
    } else if (!now) { // the last uses are under way, and may come to nothing
        gw_reply_problem(exchange, 429, "too many enrolments at once");
        gw_reply_header(&exchange->reply, BASE_STR("retry-after"), BASE_STR("2"));
    }
    return now;
}

void gw_access_enrolment_count(struct gw_core *core, uint64_t token_id)
{
    pthread_mutex_lock(&core->operators->lock);
    struct gw_token *token = gw_operators_token(core->operators, token_id);
    if (token != NULL && token->uses_taken > 0) {
        token->uses_taken--;
        token->view.uses++;
    }
    pthread_mutex_unlock(&core->operators->lock);
}

void gw_access_enrolment_undo(struct gw_core *core, uint64_t token_id, bool counted)
{
    pthread_mutex_lock(&core->operators->lock);
    struct gw_token *token = gw_operators_token(core->operators, token_id);
    uint32_t *uses = token == NULL ? NULL : counted ? &token->view.uses : &token->uses_taken;
    if (uses != NULL && *uses > 0) {
        (*uses)--;
    }
    pthread_mutex_unlock(&core->operators->lock);
}

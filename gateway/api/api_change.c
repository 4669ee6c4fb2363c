// A request that changes something: checked, done, answered, and noted in the audit log, whatever
// came of it. Control thread.
//
// Order matters. The key of a repeated request is looked at before the revision, since the first
// run has moved the revision on; and the entry is begun before the work, so that no change can be
// on disk without one.
#include "api/api_call.h"

#include "svc/access/answers.h"
#include "svc/access/audit.h"
#include "svc/reply.h"

#include <stdlib.h>
#include <string.h>

#define HASH_PARTS_MAX 4

// SHA-256 over texts, each behind its length, so that no two lists give the same bytes.
static bool hash_parts(struct base_arena *arena, const struct base_str *parts, size_t count,
                       struct wire_sha256 *out)
{
    size_t size = 0;
    for (size_t i = 0; i < count; ++i) {
        size += sizeof(uint64_t) + parts[i].size;
    }
    uint8_t *bytes = base_arena_alloc(arena, size);
    if (bytes == NULL) {
        return false;
    }
    uint8_t *at = bytes;
    for (size_t i = 0; i < count; ++i) {
        uint64_t length = parts[i].size;
        memcpy(at, &length, sizeof(length));
        at += sizeof(length);
        if (parts[i].size > 0) {
            memcpy(at, parts[i].data, parts[i].size);
        }
        at += parts[i].size;
    }
    gw_sha256(bytes, size, out);
    return true;
}

static bool key_ok(struct base_str key)
{
    for (size_t i = 0; i < key.size; ++i) {
        if (key.data[i] < ' ' || key.data[i] > '~') {
            return false;
        }
    }
    return key.size <= GW_IDEMPOTENCY_KEY_MAX;
}

// Hashes of the key and of the request. A blob's path names its content already.
static bool fill_key(struct gw_api_call *call, struct gw_answer *out)
{
    struct gw_exchange *exchange = gw_api_exchange(call);
    const struct gw_request *request = &exchange->request;
    struct wire_sha256 body = {{0}};
    uint8_t method = (uint8_t)request->method;
    struct base_str key[] = {{(const char *)&call->actor.token_id, sizeof(call->actor.token_id)},
                             {(const char *)&call->actor.tenant, sizeof(call->actor.tenant)},
                             request->idempotency_key};
    struct base_str whole[HASH_PARTS_MAX] = {{(const char *)&method, 1},
                                             request->path,
                                             request->query,
                                             {(const char *)body.bytes, WIRE_SHA256_BYTES}};

    memset(out, 0, sizeof(*out));
    out->tenant = call->actor.tenant;
    if (call->route->subject != GW_API_BLOB) {
        gw_sha256(request->body, request->body_bytes, &body);
    }
    return hash_parts(exchange->arena, key, 3, &out->key) &&
           hash_parts(exchange->arena, whole, HASH_PARTS_MAX, &out->request);
}

static struct base_str type_of(int status)
{
    return status >= 400 ? BASE_STR("application/problem+json") : BASE_STR("application/json");
}

// The first answer again. True: the request is done with.
static bool answered_before(struct gw_core *core, struct gw_api_call *call,
                            const struct gw_answer *asked)
{
    struct gw_exchange *exchange = gw_api_exchange(call);
    struct gw_answer kept;
    enum base_status status = gw_answers_find(core, &asked->key, exchange->arena, &kept);

    if (status == BASE_ERR_NOT_FOUND) {
        return false;
    }
    if (status != BASE_OK) {
        gw_reply_failure(exchange, status, "the kept answer cannot be read",
                         gw_core_retry_after_s(core));
    } else if (!wire_sha256_equal(&kept.request, &asked->request)) {
        gw_reply_problem(exchange, 422, "idempotency-key: it came with another request before");
    } else {
        gw_reply_body(exchange, kept.status, type_of(kept.status), kept.body.data, kept.body.size);
        gw_reply_header(&exchange->reply, BASE_STR("idempotency-replayed"), BASE_STR("true"));
        if (kept.etag.size > 0) {
            gw_reply_header(&exchange->reply, BASE_STR("etag"), kept.etag);
        }
    }
    return true;
}

// Is there a place to keep the answer? Else nothing is done, since a repeated request would do it
// again. False: the reply says so.
static bool has_place(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_exchange *exchange = gw_api_exchange(call);
    uint32_t full_s = gw_answers_full_s(core, call->actor.tenant);

    if (full_s > 0) {
        gw_reply_problem(exchange, 429,
                         "idempotency-key: the tenant has its share of the %u answers that are "
                         "kept; without a key it is done now",
                         GW_ANSWERS_MAX);
        gw_reply_retry_after(exchange, full_s);
    }
    return full_s == 0;
}

// What there is to keep of the answer.
static void fill_answer(const struct gw_api_call *call, struct gw_answer *out)
{
    const struct gw_reply *reply = &gw_api_exchange(call)->reply;

    out->status = reply->status;
    out->body = call->keep.size > 0
                    ? call->keep
                    : (struct base_str){(const char *)reply->body, reply->body_bytes};
    if (out->body.size > GW_ANSWER_BODY_MAX) {
        out->body = BASE_STR("{}");
    }
    for (uint32_t i = 0; i < reply->header_count; ++i) {
        if (base_str_equal(reply->headers[i].name, BASE_STR("etag"))) {
            out->etag = reply->headers[i].value;
        }
    }
}

static void note_who(struct gw_api_call *call)
{
    // A token speaks for its owner, whatever the body says; with the configured one a name in the
    // body is a remark.
    call->who.person = base_str_of(call->actor.person);
    call->rollout.who.person = call->who.person;
    if (call->actor.token_id != 0) {
        call->who.by = base_str_of(call->actor.name);
        call->rollout.who.by = call->who.by;
    }
}

// Begins the entry and does the work. False: nothing may be changed now, and the reply says so.
static bool do_work(struct gw_core *core, struct gw_api_call *call, const struct gw_answer *answer,
                    json_t **out_before)
{
    json_t *before = gw_api_subject_now(core, call);
    char *text = gw_api_entry_take(core, call, "interrupted", json_incref(before), NULL);
    struct gw_audit_open open = {
        .tenant = call->actor.tenant, .text = base_str_of(text), .answer = answer};
    enum base_status status = text != NULL ? gw_audit_begin(core, &open) : BASE_ERR_NOMEM;

    free(text);
    if (status != BASE_OK) {
        json_decref(before);
        gw_reply_failure(gw_api_exchange(call), status,
                         "the audit log cannot be written: nothing was changed",
                         gw_core_retry_after_s(core));
        return false;
    }
    note_who(call);
    call->route->work(core, call);
    *out_before = before;
    return true;
}

static void finish_entry(struct gw_core *core, struct gw_api_call *call, json_t *before,
                         struct gw_answer *answer)
{
    int status = gw_api_exchange(call)->reply.status;
    bool done = status < 400;
    json_t *after = done ? gw_api_subject_now(core, call) : NULL;
    const char *outcome = done ? "done" : status < 500 ? "refused" : "failed";
    char *text = gw_api_entry_take(core, call, outcome, before, after);

    if (answer != NULL) {
        fill_answer(call, answer);
    }
    // A failure leaves the open entry on disk when there was a change; it is appended later.
    gw_audit_end(core, call->actor.tenant, base_str_of(text != NULL ? text : "{}"),
                 status < 500 ? answer : NULL);
    gw_api_entry_log(core, call, outcome);
    free(text);
}

// A blob that was there changes nothing, and a push asks for hundreds.
static bool is_no_news(const struct gw_api_call *call)
{
    return call->route != NULL &&
           (call->route->subject == GW_API_BLOB || call->route->subject == GW_API_BLOBS) &&
           gw_api_exchange(call)->reply.status == 200;
}

void gw_api_change(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_exchange *exchange = gw_api_exchange(call);
    struct base_str key = exchange->request.idempotency_key;
    struct gw_answer answer;
    bool keyed = !call->settled && key.size > 0;
    json_t *before = NULL;

    memset(&answer, 0, sizeof(answer));
    call->settled = call->settled || !gw_api_permits(core, call);
    keyed = keyed && !call->settled;
    if (keyed && !key_ok(key)) {
        gw_reply_problem(exchange, 400, "idempotency-key: 1 to %u printable ASCII characters",
                         GW_IDEMPOTENCY_KEY_MAX);
        call->settled = true;
    } else if (keyed && !fill_key(call, &answer)) {
        gw_reply_busy(exchange, gw_core_retry_after_s(core));
        return;
    } else if (keyed && answered_before(core, call, &answer)) {
        if (exchange->reply.status != 422) {
            return; // nothing is changed and nothing new refused
        }
        call->settled = true;
    }
    keyed = keyed && !call->settled;
    if (keyed && !has_place(core, call)) {
        call->settled = true;
        keyed = false; // nor is this answer kept
    }
    call->settled = call->settled || !gw_api_matches(core, call);
    if (!call->settled && !do_work(core, call, keyed ? &answer : NULL, &before)) {
        return;
    }
    if (is_no_news(call)) {
        json_decref(before);
        gw_audit_cancel(core);
        return;
    }
    finish_entry(core, call, before, keyed ? &answer : NULL);
}

// GET and HEAD /v1/blob/{sha256} and /v1/blob/{sha256}/files, and gw_blob_put. Serving on the
// worker's thread; making a compressed variant is a call on the background thread, a delta on the
// thread of deltas, after which the exchange goes on.
//
// First the representation is chosen: a delta when the client holds a dictionary of ours (RFC
// 9842), zstd when no range is asked for, else the bytes as they are; each has its own strong ETag.
// Then conditions and ranges apply to it as in RFC 9110 (13 and 14): If-None-Match first, then
// If-Range, then Range. One range only; several are answered with the whole, as the RFC allows.
#include "svc/content/blob_cache.h"

#include "svc/content/exclusive.h"
#include "svc/access/credentials.h"
#include "svc/core_private.h"
#include "svc/reply.h"
#include "svc/route.h"
#include "svc/core_worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTENT_RANGE_MAX 80

// ---- Storing

// Its bytes have this hash.
static enum base_status check_hash(const struct gw_store_item *item, struct base_error *error)
{
    struct wire_sha256 real;
    char hex[WIRE_SHA256_HEX + 1];
    gw_sha256(item->bytes, item->size, &real);
    if (wire_sha256_equal(&real, &item->digest)) {
        return BASE_OK;
    }
    wire_sha256_hex(&real, hex);
    return base_error_set(error, BASE_ERR_HASH, "the bytes have the hash %s", hex);
}

static enum base_status say_stored(enum base_status status, struct base_error *error)
{
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "the blob could not be stored: %s",
                                              base_status_text(status));
}

enum base_status gw_blob_put(struct gw_core *core, const struct gw_store_item *item,
                             bool *out_created, struct base_error *error)
{
    BASE_TRY(check_hash(item, error));
    return say_stored(
        gw_store_blob_put(core->store, &item->digest, item->bytes, item->size, out_created), error);
}

enum base_status gw_blob_put_exclusive(struct gw_core *core, uint16_t tenant,
                                       const struct gw_store_item *item, bool *out_created,
                                       struct base_error *error)
{
    BASE_TRY(check_hash(item, error));
    return say_stored(gw_store_blob_put_exclusive(core->store, tenant, item, out_created), error);
}

bool gw_blob_held(struct gw_core *core, uint16_t tenant, const struct wire_sha256 *digest)
{
    uint64_t size;
    return gw_store_blob_held(core->store, tenant, digest, &size) == BASE_OK;
}

// ---- Header values

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

// Walks a comma-separated list: the next trimmed item, false at the end.
static bool next_item(struct base_str *list, struct base_str *out)
{
    while (list->size > 0 && (is_space(list->data[0]) || list->data[0] == ',')) {
        list->data++;
        list->size--;
    }
    if (list->size == 0) {
        return false;
    }
    size_t size = 0;
    while (size < list->size && list->data[size] != ',') {
        size++;
    }
    *out = (struct base_str){list->data, size};
    list->data += size;
    list->size -= size;
    while (out->size > 0 && is_space(out->data[out->size - 1])) {
        out->size--;
    }
    return true;
}

// Is the coding among those accepted, and not with q=0?
static bool accepts(struct base_str accept, struct base_str coding)
{
    struct base_str item;
    while (next_item(&accept, &item)) {
        size_t name = 0;
        while (name < item.size && item.data[name] != ';' && !is_space(item.data[name])) {
            name++;
        }
        if (!base_str_equal((struct base_str){item.data, name}, coding)) {
            continue;
        }
        bool refused = false;
        for (size_t i = name; i + 2 < item.size; i++) {
            if (item.data[i] == 'q' && item.data[i + 1] == '=') {
                refused = true; // q=0, 0., 0.0, 0.00, 0.000
                for (size_t k = i + 2; k < item.size; k++) {
                    refused = refused && (item.data[k] == '0' || item.data[k] == '.');
                }
            }
        }
        return !refused;
    }
    return false;
}

// If-None-Match against either variant (weak comparison).
static bool etag_listed(struct base_str list, struct base_str etag)
{
    struct base_str item;
    while (next_item(&list, &item)) {
        if (base_str_starts(item, BASE_STR("W/"))) {
            item.data += 2;
            item.size -= 2;
        }
        if (base_str_equal(item, BASE_STR("*")) || base_str_equal(item, etag)) {
            return true;
        }
    }
    return false;
}

enum range_result {
    RANGE_NONE, // absent, malformed, or several: the whole
    RANGE_PART,
    RANGE_OUTSIDE,
};

static enum range_result parse_range(struct base_str text, uint64_t size, uint64_t *out_from,
                                     uint64_t *out_count)
{
    struct base_str unit = BASE_STR("bytes=");
    if (!base_str_starts(text, unit)) {
        return RANGE_NONE;
    }
    struct base_str first = {text.data + unit.size, 0};
    size_t left = text.size - unit.size;
    while (first.size < left && first.data[first.size] != '-') {
        first.size++;
    }
    if (first.size == left) {
        return RANGE_NONE;
    }
    struct base_str last = {first.data + first.size + 1, left - first.size - 1};
    uint64_t a = 0;
    uint64_t b = size > 0 ? size - 1 : 0;
    if (first.size == 0) { // the last b bytes
        if (base_str_u64(last, &b) != BASE_OK) {
            return RANGE_NONE;
        }
        if (b == 0 || size == 0) {
            return RANGE_OUTSIDE;
        }
        *out_count = b < size ? b : size;
        *out_from = size - *out_count;
        return RANGE_PART;
    }
    if (base_str_u64(first, &a) != BASE_OK ||
        (last.size > 0 && (base_str_u64(last, &b) != BASE_OK || b < a))) {
        return RANGE_NONE;
    }
    if (a >= size) {
        return RANGE_OUTSIDE;
    }
    *out_from = a;
    *out_count = (b < size ? b + 1 : size) - a;
    return RANGE_PART;
}

// ---- Replies. Each takes over the caller's reference.

static void common_headers(struct gw_exchange *exchange, const struct gw_blob *blob, bool vary)
{
    struct gw_reply *reply = &exchange->reply;
    struct base_str etag = gw_blob_etag(blob);
    const char *copy = base_arena_text(exchange->arena, etag.data, etag.size);
    if (copy != NULL) {
        gw_reply_header(reply, BASE_STR("etag"), (struct base_str){copy, etag.size});
    }
    bool exclusive = exchange->route->who == GW_FOR_ONE_DEVICE;
    gw_reply_header(reply, BASE_STR("cache-control"),
                    exclusive               ? BASE_STR(GW_EXCLUSIVE_CACHING)
                    : gw_blob_lasting(blob) ? BASE_STR("public, max-age=31536000, immutable")
                                            : BASE_STR("no-store"));
    vary = vary && !exclusive;
    if (vary) {
        gw_reply_header(reply, BASE_STR("vary"), BASE_STR("accept-encoding, available-dictionary"));
    }
}

static void reply_blob(struct gw_exchange *exchange, int status, struct gw_blob *blob,
                       uint64_t from, uint64_t count)
{
    gw_reply_status(exchange, status);
    struct gw_reply *reply = &exchange->reply;
    gw_reply_header(reply, BASE_STR("content-type"), BASE_STR("application/octet-stream"));
    common_headers(exchange, blob, true);
    if (gw_blob_coding(blob).size > 0) {
        gw_reply_header(reply, BASE_STR("content-encoding"), gw_blob_coding(blob));
    }
    if (gw_blob_variant(blob) != GW_BLOB_ZSTD) {
        gw_reply_header(reply, BASE_STR("accept-ranges"), BASE_STR("bytes"));
    }
    if (status == 206) {
        char text[CONTENT_RANGE_MAX];
        int size = snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)from,
                            (unsigned long long)(from + count - 1),
                            (unsigned long long)gw_blob_size(blob));
        const char *copy = base_arena_text(exchange->arena, text, (size_t)size);
        if (copy != NULL) {
            gw_reply_header(reply, BASE_STR("content-range"),
                            (struct base_str){copy, (size_t)size});
        }
    }
    if (count == 0) {
        gw_blob_release(blob);
        return;
    }
    reply->kind = GW_REPLY_BLOB;
    reply->blob = blob;
    reply->blob_from = from;
    reply->blob_bytes = count;
}

static void reply_not_modified(struct gw_exchange *exchange, struct gw_blob *blob)
{
    gw_reply_status(exchange, 304);
    common_headers(exchange, blob, true);
    gw_blob_release(blob);
}

static void reply_outside(struct gw_exchange *exchange, struct gw_blob *blob)
{
    char text[CONTENT_RANGE_MAX];
    int size = snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)gw_blob_size(blob));
    gw_reply_problem(exchange, 416, "the range lies outside the blob");
    const char *copy = base_arena_text(exchange->arena, text, (size_t)size);
    if (copy != NULL) {
        gw_reply_header(&exchange->reply, BASE_STR("content-range"),
                        (struct base_str){copy, (size_t)size});
    }
    gw_blob_release(blob);
}

// Conditions and ranges on the chosen representation. Takes over the reference.
void gw_blob_serve(struct gw_exchange *exchange, struct gw_blob *blob)
{
    uint64_t from = 0;
    uint64_t count = gw_blob_size(blob);
    struct gw_request *request = &exchange->request;
    if (etag_listed(request->if_none_match, gw_blob_etag(blob))) {
        reply_not_modified(exchange, blob);
        return;
    }
    // If-Range compares strongly: a weak tag or another one means the whole.
    bool ranged =
        request->range.size > 0 &&
        (request->if_range.size == 0 || base_str_equal(request->if_range, gw_blob_etag(blob)));
    enum range_result result =
        ranged ? parse_range(request->range, count, &from, &count) : RANGE_NONE;
    if (result == RANGE_OUTSIDE) {
        reply_outside(exchange, blob);
    } else {
        reply_blob(exchange, result == RANGE_PART ? 206 : 200, blob, from, count);
    }
}

// ---- Compressed variants, made on the background thread

struct variant_call {
    struct gw_control_call call;
    struct wire_sha256 digest;
    struct gw_delta_name delta;
    struct gw_blob *identity; // the exchange's reference meanwhile
    struct gw_blob *made;     // NULL: the identity has to do
};

static void run_compress(struct gw_core *core, struct gw_control_call *self)
{
    struct variant_call *call = (struct variant_call *)self;
    if (gw_blob_make_zstd(core, &call->digest, &call->made) != BASE_OK) {
        call->made = NULL;
    }
}

static void run_delta(struct gw_core *core, struct gw_control_call *self)
{
    struct variant_call *call = (struct variant_call *)self;
    if (gw_deltas_stopping(core) ||
        gw_blob_make_delta(core, &call->delta, &call->made) != BASE_OK) {
        call->made = NULL;
    }
}

static void variant_done(struct gw_worker *worker, struct gw_control_call *self)
{
    struct variant_call *call = (struct variant_call *)self;
    (void)worker;
    if (call->made != NULL) {
        gw_blob_release(call->identity);
        gw_blob_serve(self->exchange, call->made);
    } else {
        gw_blob_serve(self->exchange, call->identity);
    }
    gw_exchange_finish(self->exchange);
}

// A call for this exchange, or NULL without memory.
static struct variant_call *variant_new(struct gw_exchange *exchange,
                                        const struct wire_sha256 *digest, struct gw_blob *identity)
{
    struct variant_call *call = base_arena_zalloc(exchange->arena, sizeof(*call));
    if (call != NULL) {
        call->digest = *digest;
        call->identity = identity;
        call->call.exchange = exchange;
        call->call.done = variant_done;
    }
    return call;
}

// True when the exchange is on its way: answered with the variant, or waiting for it.
static bool serve_zstd(struct gw_worker *worker, struct gw_exchange *exchange,
                       const struct wire_sha256 *digest, struct gw_blob *identity)
{
    if (!gw_blob_may_compress(identity)) {
        return false;
    }
    struct gw_blob *blob = gw_blob_cached_zstd(worker->core, digest);
    if (blob != NULL) {
        gw_blob_release(identity);
        gw_blob_serve(exchange, blob);
        gw_exchange_finish(exchange);
        return true;
    }
    struct variant_call *call = variant_new(exchange, digest, identity);
    if (call == NULL) {
        return false;
    }
    call->call.run = run_compress;
    return gw_background_post(worker, &call->call) == BASE_OK;
}

// Available-Dictionary is one byte sequence of RFC 8941, ":" base64 ":", of a SHA-256; its alphabet
// differs from base64url in two characters, and it is padded.
static bool parse_dictionary(struct base_str text, struct wire_sha256 *out)
{
    char url[BASE_B64_ENCODED(WIRE_SHA256_BYTES)];
    size_t size = 0;
    if (text.size != sizeof(url) + 3 || text.data[0] != ':' ||
        memcmp(text.data + text.size - 2, "=:", 2) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof(url); i++) {
        char c = text.data[1 + i];
        url[i] = (char)(c == '+' ? '-' : c == '/' ? '_' : c == '-' || c == '_' ? '!' : c);
    }
    return base_b64_decode((struct base_str){url, sizeof(url)}, out->bytes, WIRE_SHA256_BYTES,
                           &size) == BASE_OK &&
           size == WIRE_SHA256_BYTES;
}

// As serve_zstd, with the client's dictionary.
static bool serve_delta(struct gw_worker *worker, struct gw_exchange *exchange,
                        const struct gw_delta_name *name, struct gw_blob *identity)
{
    bool useless = false;
    struct gw_blob *blob = gw_blob_cached_delta(worker->core, name, &useless);
    if (blob != NULL) {
        gw_blob_release(identity);
        gw_blob_serve(exchange, blob);
        gw_exchange_finish(exchange);
        return true;
    }
    if (useless || gw_blob_size(identity) > GW_BLOB_DELTA_MAX) {
        return false;
    }
    struct variant_call *call = variant_new(exchange, &name->digest, identity);
    if (call == NULL) {
        return false;
    }
    call->delta = *name;
    call->call.run = run_delta;
    return gw_deltas_post(worker, &call->call) == BASE_OK;
}

// What delta the client could use, if any.
static bool parse_delta(const struct gw_request *request, const struct wire_sha256 *digest,
                        struct gw_delta_name *out)
{
    *out = (struct gw_delta_name){.digest = *digest};
    if (accepts(request->accept_encoding, BASE_STR("dcz"))) {
        out->codings |= GW_CODING_DCZ;
    }
    if (accepts(request->accept_encoding, BASE_STR("wdelta"))) {
        out->codings |= GW_CODING_WDELTA;
    }
    return out->codings != 0 && parse_dictionary(request->available_dictionary, &out->dictionary);
}

// ---- The handler

// Content is named by its hash, which a stranger cannot guess; who names a device must be it.
static bool is_admitted(struct gw_core *core, struct gw_exchange *exchange)
{
    uint64_t device_id = 0;
    uint16_t tenant;
    if (exchange->request.device.size == 0 && !core->set.device_auth_required) {
        return true;
    }
    if (wire_device_parse_own(exchange->request.device, &device_id) != BASE_OK) {
        gw_reply_problem(exchange, 400, "walle-device: " WIRE_DEVICE_OWN_EXPECTED);
        return false;
    }
    enum gw_admission admission = gw_device_admit(core, &exchange->request, device_id, &tenant);
    if (admission != GW_ADMITTED) {
        gw_admission_refuse(exchange, admission);
    }
    return admission == GW_ADMITTED;
}

// "HASH" or "HASH/files".
static enum base_status parse_name(struct base_str rest, struct wire_sha256 *out, bool *out_whole)
{
    struct base_str files = BASE_STR("/files");
    *out_whole = rest.size == WIRE_SHA256_HEX + files.size &&
                 memcmp(rest.data + WIRE_SHA256_HEX, files.data, files.size) == 0;
    rest.size -= *out_whole ? files.size : 0;
    return wire_sha256_parse(rest, out);
}

static enum base_status open_public(struct gw_core *core, const struct wire_sha256 *digest,
                                    struct gw_blob **out_blob)
{
    struct gw_blob *blob = NULL;
    BASE_TRY(gw_blob_open(core, digest, &blob));
    if (gw_blob_exclusive(core, blob)) {
        gw_blob_release(blob);
        return BASE_ERR_NOT_FOUND;
    }
    *out_blob = blob;
    return BASE_OK;
}

void gw_blob_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    const struct gw_request *request = &exchange->request;
    struct wire_sha256 digest;
    struct gw_blob *blob = NULL;
    bool whole = false;
    gw_count(&worker->stats.blobs, 1);
    if (parse_name(gw_route_rest(exchange), &digest, &whole) != BASE_OK) {
        gw_reply_problem(exchange, 400, "a blob is named by 64 hex digits");
        gw_exchange_finish(exchange);
        return;
    }
    if (!is_admitted(worker->core, exchange)) {
        gw_exchange_finish(exchange);
        return;
    }
    enum base_status status = open_public(worker->core, &digest, &blob);
    if (status == BASE_OK && whole) {
        status = gw_blob_whole(worker->core, &digest, &blob);
    }
    if (status != BASE_OK) {
        gw_reply_failure(exchange, status, status == BASE_ERR_NOT_FOUND ? "no such blob" : NULL,
                         worker->core->set.retry_after_s);
        gw_exchange_finish(exchange);
        return;
    }
    struct gw_delta_name delta;
    if (whole) {
        gw_blob_serve(exchange, blob);
        gw_exchange_finish(exchange);
        return;
    }
    if (request->available_dictionary.size > 0 && parse_delta(request, &digest, &delta) &&
        serve_delta(worker, exchange, &delta, blob)) {
        return;
    }
    bool compressed =
        request->range.size == 0 && accepts(request->accept_encoding, BASE_STR("zstd"));
    if (compressed && serve_zstd(worker, exchange, &digest, blob)) {
        return;
    }
    gw_blob_serve(exchange, blob);
    gw_exchange_finish(exchange);
}

// What came through the tunnel: its records and its figures. The table in api.c names the routes;
// `prepare` reads the parameters on the worker's thread, the rest runs on the background thread,
// because records are read from files. The text of a record is tunnel/record_text.c's. A record is
// shown only when the actor covers its task. A page has GW_RECORD_PAGE_MAX records at most.
#include "api/api_call.h"

#include "svc/reply.h"
#include "svc/tunnel_seam.h"
#include "tunnel/record_text.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The request's parameters; lives in the arena.
struct gw_api_records {
    struct gw_record_query query;
};

static bool take(struct gw_api_call *call, struct base_str name, struct base_str text)
{
    struct gw_record_query *query = &call->records->query;
    struct base_str value;
    uint64_t number = 0;
    if (!gw_api_decode(call, text, &value)) {
        return gw_api_fail(call, BASE_ERR_INVALID, "query: a value cannot be read");
    }
    if (base_str_equal(name, BASE_STR("after"))) {
        query->from_start = false;
        return gw_record_place_parse(value, &query->place) == BASE_OK ||
               gw_api_fail(call, BASE_ERR_INVALID, "query: after is a place as `next` tells it");
    }
    if (base_str_equal(name, BASE_STR("task"))) {
        query->task = value;
        return true;
    }
    if (base_str_equal(name, BASE_STR("device"))) {
        return wire_device_parse(value, &query->device) == BASE_OK ||
               gw_api_fail(call, BASE_ERR_INVALID, "query: device is 16 lower-case hex digits");
    }
    if (base_str_equal(name, BASE_STR("since_ms"))) {
        return base_str_u64(value, &query->since_ms) == BASE_OK ||
               gw_api_fail(call, BASE_ERR_INVALID, "query: since_ms is a number");
    }
    if (base_str_equal(name, BASE_STR("limit"))) {
        bool good =
            base_str_u64(value, &number) == BASE_OK && number > 0 && number <= GW_RECORD_PAGE_MAX;
        query->limit = (uint32_t)number;
        return good || gw_api_fail(call, BASE_ERR_INVALID, "query: limit is 1 to 1000");
    }
    return gw_api_unknown(call, name, "the parameters are after, since_ms, task, device and limit");
}

bool gw_api_records_prepare(struct gw_api_call *call)
{
    struct base_str rest = gw_api_exchange(call)->request.query;
    call->records = base_arena_zalloc(gw_api_exchange(call)->arena, sizeof(*call->records));
    if (call->records == NULL) {
        return gw_api_fail(call, BASE_ERR_NOMEM, "no memory");
    }
    call->records->query.from_start = true;
    call->records->query.limit = GW_API_PAGE_DEFAULT;
    while (rest.size > 0) {
        const char *next = memchr(rest.data, '&', rest.size);
        size_t size = next != NULL ? (size_t)(next - rest.data) : rest.size;
        const char *equals = memchr(rest.data, '=', size);
        size_t name = equals != NULL ? (size_t)(equals - rest.data) : size;
        size_t value = equals != NULL ? name + 1 : size;
        if (!take(call, (struct base_str){rest.data, name},
                  (struct base_str){rest.data + value, size - value})) {
            return false;
        }
        size_t used = next != NULL ? size + 1 : size;
        rest = (struct base_str){rest.data + used, rest.size - used};
    }
    return true;
}

static bool covers(void *ctx, struct base_str task)
{
    return gw_actor_covers(ctx, task);
}

static void release(void *ctx)
{
    free(ctx);
}

// {"items": [...], "next": place, "more": ..., "skipped": ...}
static enum base_status write_page(struct gw_tunnel *tunnel, const struct gw_record_query *query,
                                   struct base_buffer *out)
{
    struct gw_record_page page;
    char next[GW_RECORD_PLACE_MAX];
    BASE_TRY(base_buffer_printf(out, "{\"items\":["));
    BASE_TRY(gw_record_read(tunnel, query, out, &page));
    gw_record_place_text(&page.next, next);
    return base_buffer_printf(out, "],\"next\":\"%s\",\"more\":%s,\"skipped\":%s}", next,
                              page.more ? "true" : "false", page.skipped ? "true" : "false");
}

void gw_api_records(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_exchange *exchange = gw_api_exchange(call);
    struct gw_record_query *query = &call->records->query;
    struct gw_tunnel *tunnel = gw_core_tunnel(core);
    struct base_buffer out;
    if (tunnel == NULL) {
        gw_reply_problem(exchange, 404, "the tunnel is not part of this program");
        return;
    }
    query->tenant = call->actor.tenant;
    query->covers = call->actor.scope_count > 0 ? covers : NULL;
    query->ctx = &call->actor;
    base_buffer_init(&out, base_alloc_heap(), 0);
    enum base_status status = write_page(tunnel, query, &out);
    size_t size = 0;
    uint8_t *text = base_buffer_steal(&out, &size);
    if (status == BASE_OK && base_arena_on_done(exchange->arena, release, text) != BASE_OK) {
        status = BASE_ERR_NOMEM;
    }
    if (status != BASE_OK) {
        free(text);
        gw_api_failed(core, call, status, NULL,
                      status == BASE_ERR_NOT_FOUND ? "query: no record begins there" : "records");
        return;
    }
    gw_reply_body(exchange, 200, BASE_STR("application/json"), (const char *)text, size);
}

// ---- Figures

// Text as far as it is UTF-8: what is refused may be anything, and is cut.
static json_t *text_of(const struct gw_refused_record *record)
{
    json_t *text = NULL;
    for (uint32_t cut = 0; text == NULL && cut < 4 && cut <= record->kept; cut++) {
        text = json_stringn((const char *)record->bytes, record->kept - cut);
    }
    return text != NULL ? text : json_null();
}

static void add_refused(void *ctx, const struct gw_refused_record *record)
{
    char device[17];
    (void)snprintf(device, sizeof(device), "%016llx", (unsigned long long)record->device);
    json_t *why =
        record->why[0] != 0 ? json_string(record->why) : NULL; // NULL, too: cut in a character
    (void)json_array_append_new(
        ctx,
        json_pack("{s:s, s:I, s:s, s:o, s:I, s:o}", "device", device, "received_ms",
                  (json_int_t)record->received_ms, "reason", base_status_text(record->status),
                  "why", why != NULL ? why : json_null(), "bytes", (json_int_t)record->size,
                  "record", record->format == WIRE_RECORD_JSON ? text_of(record) : json_null()));
}

struct uploads {
    json_t *list;
    const struct gw_actor *actor;
};

static void add_upload(void *ctx, const struct gw_upload_entry *upload)
{
    const struct uploads *uploads = ctx;
    struct base_str task = gw_upload_entry_task(upload);
    struct base_str name = gw_upload_entry_name(upload);
    json_t *refused = json_array();
    if (gw_actor_covers(uploads->actor, task)) { // what is in records is for who may read them
        gw_refused_walk(upload->refused, add_refused, refused);
    }
    (void)json_array_append_new(
        uploads->list,
        json_pack("{s:s%, s:s%, s:i, s:i, s:b, s:I, s:I, s:o}", "task", task.data, task.size,
                  "upload", name.data, name.size, "version", (int)upload->version, "class",
                  (int)upload->class_id, "schema", upload->schema != NULL, "records",
                  (json_int_t)atomic_load_explicit(&upload->records, memory_order_relaxed),
                  "rejected",
                  (json_int_t)atomic_load_explicit(&upload->rejected, memory_order_relaxed),
                  "refused", refused));
}

bool gw_api_tunnel_prepare(struct gw_api_call *call)
{
    return gw_api_no_query(call);
}

// Counters of the process are shown to operators of all tenants; uploads to their own tenant.
void gw_api_tunnel(struct gw_core *core, struct gw_api_call *call)
{
    struct gw_tunnel *tunnel = gw_core_tunnel(core);
    struct gw_tunnel_stats stats;
    char first[GW_RECORD_PLACE_MAX];
    char end[GW_RECORD_PLACE_MAX];
    if (tunnel == NULL) {
        gw_reply_problem(gw_api_exchange(call), 404, "the tunnel is not part of this program");
        return;
    }
    gw_tunnel_stats(tunnel, &stats);
    gw_record_place_text(&(struct gw_record_place){.position = stats.segments.first}, first);
    gw_record_place_text(&(struct gw_record_place){.position = stats.segments.end}, end);
    json_t *root = json_pack("{s:s, s:s, s:b}", "first", first, "end", end, "refusing",
                             (int)stats.segments.shut);
    struct uploads uploads = {json_array(), &call->actor};
    gw_uploads_walk(gw_tunnel_uploads(tunnel), call->actor.tenant, add_upload, &uploads);
    (void)json_object_set_new(root, "uploads", uploads.list);
    if (call->actor.every_tenant) {
        json_t *counters = json_object();
#define ADD(name, help)                                                                            \
    (void)json_object_set_new(counters, #name, json_integer((json_int_t)stats.name));
        GW_TUNNEL_COUNTERS(ADD)
#undef ADD
        (void)json_object_set_new(counters, "sessions", json_integer((json_int_t)stats.sessions));
        (void)json_object_set_new(counters, "devices_and_classes",
                                  json_integer((json_int_t)stats.marks));
        (void)json_object_set_new(counters, "segments",
                                  json_integer((json_int_t)stats.segments.segments));
        (void)json_object_set_new(root, "counters", counters);
    }
    gw_api_answer_take(call, 200, root);
}

// The director's answer to one device, and the metadata anybody may fetch. Worker's thread, from
// the immutable metadata the worker was handed. An answer is given only when there is something to
// say; here it costs a signature of its own, and together with others (trust/answer_batch.c) they
// share one.
#include "svc/trust/director_answer.h"

#include "wire/profile.h"
#include "svc/reply.h"
#include "svc/route.h"
#include "svc/trust/director_private.h"
#include "svc/core_worker.h"
#include "svc/core_private.h"

#include "base/check.h"

#include <string.h>

#define ROOT_PREFIX     "root/"
#define SNAPSHOT_PREFIX "snapshot/"
#define NEXT_PREFIX     "next/"

static bool entry_of(const uint8_t *bytes, size_t size, struct wire_director_entry *out)
{
    struct wire_envelope envelope;
    struct wire_release release;
    if (wire_envelope_parse(bytes, size, &envelope) != BASE_OK) {
        return false;
    }
    if (envelope.type == WIRE_ENVELOPE_TYPE_STOP) {
        *out = (struct wire_director_entry){0};
        return wire_stop_parse(envelope.payload, envelope.payload_bytes, &out->task_id) == BASE_OK;
    }
    if (envelope.type != WIRE_ENVELOPE_TYPE_RELEASE ||
        wire_release_parse(envelope.payload, envelope.payload_bytes, &release) != BASE_OK) {
        return false;
    }
    *out = (struct wire_director_entry){
        .task_id = wire_release_task_id(&release),
        .counter = release.release_counter,
        .manifest_bytes = release.manifest_bytes,
        .manifest = release.manifest,
    };
    return true;
}

// Entries ascend by task id; offers come in the order in which they are to fit.
static void entries_sort(struct wire_director *director)
{
    for (uint32_t i = 1; i < director->count; i++) {
        struct wire_director_entry entry = director->entries[i];
        uint32_t at = i;
        for (; at > 0 && director->entries[at - 1].task_id > entry.task_id; at--) {
            director->entries[at] = director->entries[at - 1];
        }
        director->entries[at] = entry;
    }
}

enum base_status gw_director_payload(const struct gw_worker *worker,
                                     const struct gw_answer_ask *ask,
                                     uint8_t out[WIRE_STATEMENT_BYTES_MAX], size_t *out_size)
{
    const struct gw_meta *meta = worker->meta;
    const struct wire_offers *offers = ask->offers;
    struct wire_director director = {
        .device_id = ask->device_id,
        .order = ask->ask->order + 1,
        .issued_s = gw_core_sure_s(worker->core),
        .timestamp_version = meta->timestamp_version,
        .lease_s = meta->lease_s,
    };
    if (offers->count >= WIRE_OFFERS_MAX) {
        return BASE_ERR_TOO_LARGE;
    }
    memcpy(director.nonce, ask->ask->nonce, WIRE_NONCE_BYTES);
    for (uint32_t i = 0; i < offers->count && director.count < WIRE_DIRECTOR_ENTRIES_MAX; i++) {
        director.count += entry_of(offers->items[i].envelope, offers->items[i].envelope_bytes,
                                   &director.entries[director.count])
                              ? 1
                              : 0;
    }
    entries_sort(&director);
    director.again_count = offers->again_count;
    memcpy(director.again, offers->again, offers->again_count * sizeof(offers->again[0]));
    return wire_director_encode(&director, out, WIRE_STATEMENT_BYTES_MAX, out_size);
}

void gw_director_put_first(struct wire_offers *offers, const uint8_t *bytes, size_t size)
{
    base_check(offers->count < WIRE_OFFERS_MAX);
    memmove(&offers->items[1], &offers->items[0], offers->count * sizeof(offers->items[0]));
    offers->items[0].envelope = bytes;
    offers->items[0].envelope_bytes = size;
    offers->count++;
}

void gw_director_counted(struct gw_core *core, uint32_t answers)
{
    struct gw_director *director = core->director;
    atomic_fetch_add_explicit(&director->answers, answers, memory_order_relaxed);
    atomic_fetch_add_explicit(&director->answer_signatures, answers > 0 ? 1 : 0,
                              memory_order_relaxed);
}

enum base_status gw_director_answer(struct gw_worker *worker, const struct gw_answer_ask *ask,
                                    uint8_t *out, struct wire_offers *offers)
{
    struct gw_core *core = worker->core;
    struct wire_envelope envelope;
    uint8_t payload[WIRE_STATEMENT_BYTES_MAX];
    size_t payload_bytes = 0;
    size_t size = 0;
    base_assert(ask->offers == offers);
    BASE_TRY(gw_director_payload(worker, ask, payload, &payload_bytes));
    BASE_TRY(gw_director_sign(core->director->signer, GW_ONLINE_DIRECTOR,
                              (struct base_span){payload, payload_bytes}, &envelope));
    BASE_TRY(wire_envelope_encode(&envelope, out, WIRE_STATEMENT_BYTES_MAX, &size));
    gw_director_put_first(offers, out, size);
    gw_director_counted(core, 1);
    return BASE_OK;
}

bool gw_director_concerns(const struct gw_meta *meta, const struct wire_profile *profile)
{
    struct base_reader reader;
    struct wire_profile_pair pair;
    if (meta->kill_count == 0 || profile->pairs == NULL) {
        return false;
    }
    base_reader_init(&reader, profile->pairs, profile->pairs_bytes);
    for (uint32_t i = 0; i < profile->task_count; i++) {
        if (wire_profile_pair_next(profile, &reader, &pair) != BASE_OK) {
            return false;
        }
        for (uint32_t k = 0; k < meta->kill_count && pair.version_id != 0; k++) {
            if (meta->kill_ids[k] == pair.version_id) {
                return true;
            }
        }
    }
    return false;
}

// ---- GET /v1/meta/...

// scenario_count: there is none.
static uint32_t find_scenario(const struct gw_meta *meta, struct base_str name)
{
    uint32_t at = 0;
    while (at < meta->scenario_count && !base_str_equal(base_str_of(meta->scenarios[at]), name)) {
        at++;
    }
    return at;
}

static struct gw_blob *find_snapshot(const struct gw_meta *meta, struct base_str name)
{
    uint32_t at = find_scenario(meta, name);
    return at < meta->scenario_count ? meta->snapshots[at] : NULL;
}

static struct gw_blob *root_of(const struct gw_meta *meta, uint64_t version)
{
    if (version < meta->root_first || version - meta->root_first >= meta->root_count) {
        return NULL;
    }
    return meta->roots[version - meta->root_first];
}

static struct gw_blob *find_root(const struct gw_meta *meta, struct base_str text)
{
    uint64_t version = 0;
    return base_str_u64(text, &version) == BASE_OK ? root_of(meta, version) : NULL;
}

// scenario_count: that of all but the snapshots.
static struct gw_blob *next_of(const struct gw_meta *meta, uint64_t root_version, uint32_t scenario)
{
    struct gw_blob *root = root_of(meta, root_version);
    if (root != NULL) {
        return root;
    }
    return scenario < meta->scenario_count ? meta->next[scenario] : meta->next_alone;
}

static struct base_str behind(struct base_str path, const char *prefix)
{
    size_t size = strlen(prefix);
    return (struct base_str){path.data + size, path.size - size};
}

// "N" or "N/SCENARIO": root N, or when it is the one that there is not yet, all that comes next.
static struct gw_blob *find_next(const struct gw_meta *meta, struct base_str text)
{
    const char *slash = text.size > 0 ? memchr(text.data, '/', text.size) : NULL;
    struct base_str version = text;
    uint32_t scenario = meta->scenario_count;
    uint64_t number = 0;
    if (slash != NULL) {
        version.size = (size_t)(slash - text.data);
        scenario = find_scenario(meta, (struct base_str){slash + 1, text.size - version.size - 1});
    }
    if (base_str_u64(version, &number) != BASE_OK) {
        return NULL;
    }
    return next_of(meta, number, scenario);
}

// Of the first release that is offered; scenario_count: there is none.
static uint32_t offered_scenario(const struct gw_meta *meta, const struct wire_offers *offers)
{
    struct wire_envelope envelope;
    struct wire_release release;
    for (uint32_t i = 0; i < offers->count; i++) {
        if (wire_envelope_parse(offers->items[i].envelope, offers->items[i].envelope_bytes,
                                &envelope) == BASE_OK &&
            envelope.type == WIRE_ENVELOPE_TYPE_RELEASE &&
            wire_release_parse(envelope.payload, envelope.payload_bytes, &release) == BASE_OK) {
            return find_scenario(meta, wire_scenario_of(release.task_name));
        }
    }
    return meta->scenario_count;
}

struct base_span gw_director_metadata(const struct gw_meta *meta, const struct wire_ask *ask,
                                      const struct wire_offers *offers)
{
    uint64_t root_version = ask->root_version + 1; // 0 behind the last: there is none
    bool newer =
        meta->timestamp_version > ask->timestamp_version || root_of(meta, root_version) != NULL;
    if ((ask->flags & WIRE_ASK_FLAG_METADATA) == 0 || !newer) {
        return (struct base_span){0};
    }
    struct base_span out = {0};
    struct gw_blob *next = next_of(meta, root_version, offered_scenario(meta, offers));
    out.data = gw_blob_bytes(next, 0, &out.size);
    return out.size <= WIRE_OFFERS_META_MAX ? out : (struct base_span){0};
}

void gw_meta_handle(struct gw_worker *worker, struct gw_exchange *exchange)
{
    const struct gw_meta *meta = worker->meta;
    struct base_str path = gw_route_rest(exchange);
    struct gw_reply *reply = &exchange->reply;
    struct gw_blob *found = NULL;
    if (meta != NULL && base_str_starts(path, BASE_STR(ROOT_PREFIX))) {
        found = find_root(meta, behind(path, ROOT_PREFIX));
    } else if (meta != NULL && base_str_starts(path, BASE_STR(SNAPSHOT_PREFIX))) {
        found = find_snapshot(meta, behind(path, SNAPSHOT_PREFIX));
    } else if (meta != NULL && base_str_starts(path, BASE_STR(NEXT_PREFIX))) {
        found = find_next(meta, behind(path, NEXT_PREFIX));
    } else if (meta != NULL && base_str_equal(path, BASE_STR("timestamp"))) {
        found = meta->timestamp;
    }
    if (found == NULL) {
        gw_reply_problem(exchange, 404, "no such metadata");
    } else {
        gw_reply_status(exchange, 200);
        gw_reply_header(reply, BASE_STR("content-type"), BASE_STR("application/octet-stream"));
        gw_reply_header(reply, BASE_STR("cache-control"), BASE_STR("no-cache"));
        reply->kind = GW_REPLY_BLOB;
        reply->blob = gw_blob_ref(found); // the metadata may be replaced before it is sent
        reply->blob_from = 0;
        reply->blob_bytes = gw_blob_size(found);
    }
    gw_exchange_finish(exchange);
}

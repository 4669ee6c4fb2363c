// From batches of the log to records as text. api_tunnel.c calls it on the background thread, since
// it reads files. A page goes through GW_RECORD_SCAN_BYTES of log at most and says where to go on;
// a damaged record is skipped, and the page says so. Only records of the query's tenant are shown,
// and of tasks that the asker covers. Payloads are decompressed again with a context of its own.
#include "tunnel/record_text.h"

#include "tunnel/tunnel_zstd.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX_DIGITS 16u
#define B64_CHUNK  768u // bytes, a multiple of 3

struct reading {
    struct gw_tunnel *tunnel;
    const struct gw_record_query *query;
    struct gw_segment_reader *reader;
    struct gw_tunnel_zstd *zstd;
    struct base_buffer *out;
    struct gw_record_page *page;
};

static const char *const formats[] = {"bytes", "json", "events"};
_Static_assert(sizeof(formats) / sizeof(formats[0]) == WIRE_RECORD_FORMAT_END, "one name each");

static const char *const reasons[] = {"none",  "quota",  "expired", "rejected",
                                      "split", "policy", "damaged", "starts"};
_Static_assert(sizeof(reasons) / sizeof(reasons[0]) == WIRE_TUNNEL_LOSS_END, "one name each");

void gw_record_place_text(const struct gw_record_place *place, char out[GW_RECORD_PLACE_MAX])
{
    (void)snprintf(out, GW_RECORD_PLACE_MAX, "%016" PRIx64 ".%" PRIu32, place->position,
                   place->record);
}

enum base_status gw_record_place_parse(struct base_str text, struct gw_record_place *out)
{
    uint8_t bytes[8];
    uint64_t record;
    if (text.size < HEX_DIGITS + 2 || text.data[HEX_DIGITS] != '.') {
        return BASE_ERR_INVALID;
    }
    BASE_TRY(base_hex_decode((struct base_str){text.data, HEX_DIGITS}, bytes, sizeof(bytes)));
    BASE_TRY(base_str_u64((struct base_str){text.data + HEX_DIGITS + 1, text.size - HEX_DIGITS - 1},
                          &record));
    if (record > WIRE_TUNNEL_RECORDS_MAX) {
        return BASE_ERR_INVALID;
    }
    out->position = 0;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        out->position = out->position << 8 | bytes[i];
    }
    out->record = (uint32_t)record;
    return BASE_OK;
}

// ---- Text

static enum base_status add_base64(struct base_buffer *out, const uint8_t *bytes, size_t size)
{
    char text[BASE_B64_ENCODED(B64_CHUNK)];
    for (size_t at = 0; at < size; at += B64_CHUNK) {
        size_t part = size - at < B64_CHUNK ? size - at : B64_CHUNK;
        size_t wrote = base_b64_encode(bytes + at, part, text);
        BASE_TRY(base_buffer_add(out, text, wrote));
    }
    return BASE_OK;
}

// What every item begins with.
static enum base_status add_head(const struct reading *reading, const struct gw_sink_batch *batch,
                                 const struct gw_record_place *place, uint64_t seq)
{
    char at[GW_RECORD_PLACE_MAX];
    gw_record_place_text(place, at);
    const struct wire_tunnel_loss_frame *loss = &batch->loss;
    uint32_t class_id = batch->is_loss ? loss->class_id : batch->batch.class_id;
    uint32_t epoch = batch->is_loss ? loss->epoch : batch->batch.epoch;
    uint64_t number = batch->is_loss ? loss->number : batch->batch.number;
    return base_buffer_printf(reading->out,
                              "%s{\"at\":\"%s\",\"device\":\"%016" PRIx64
                              "\",\"class\":%u,\"epoch\":%" PRIu32 ",\"batch\":%" PRIu64
                              ",\"seq\":%" PRIu64 ",\"received_ms\":%" PRIu64
                              ",\"device_ms\":%" PRIu64,
                              reading->page->count > 0 ? "," : "", at, batch->device, class_id,
                              epoch, number, seq, batch->received_ms, batch->device_ms);
}

// Names are checked when they come in, so they need no escapes.
static enum base_status add_record(const struct reading *reading, const struct wire_batch *view,
                                   const struct wire_record *record)
{
    const struct wire_upload_key *upload = &view->uploads[record->upload];
    BASE_TRY(base_buffer_printf(
        reading->out,
        ",\"task\":\"%.*s\",\"upload\":\"%.*s\",\"schema\":%u,\"wall_ms\":%" PRIu64
        ",\"format\":\"%s\",\"record\":",
        (int)upload->task.size, upload->task.data, (int)upload->name.size, upload->name.data,
        upload->schema, record->wall_ms, formats[record->format]));
    if (record->format == WIRE_RECORD_JSON) {
        BASE_TRY(base_buffer_add(reading->out, record->bytes, record->size));
        return base_buffer_add(reading->out, "}", 1);
    }
    BASE_TRY(base_buffer_add(reading->out, "\"", 1));
    BASE_TRY(add_base64(reading->out, record->bytes, record->size));
    return base_buffer_add(reading->out, "\"}", 2);
}

static bool is_full(const struct reading *reading)
{
    return reading->page->count >= reading->query->limit ||
           reading->out->size >= GW_RECORD_PAGE_BYTES;
}

static bool is_wanted(const struct reading *reading, struct base_str task)
{
    const struct gw_record_query *query = reading->query;
    return (query->task.size == 0 || base_str_equal(query->task, task)) &&
           (query->covers == NULL || query->covers(query->ctx, task));
}

// ---- Batches

static enum base_status open_batch(struct reading *reading, const struct wire_tunnel_batch *batch,
                                   const uint8_t **out)
{
    const struct gw_zstd_dict *dict = NULL;
    if (batch->codec == WIRE_TUNNEL_PLAIN) {
        *out = batch->bytes;
        return BASE_OK;
    }
    if (batch->codec == WIRE_TUNNEL_ZSTD_DICT) {
        dict = gw_tunnel_dict_wait(reading->tunnel, batch->dict);
        if (dict == NULL) {
            return BASE_ERR_NOT_FOUND;
        }
    }
    return gw_tunnel_zstd_open(reading->zstd, dict,
                               (struct base_span){batch->bytes, batch->sent_bytes},
                               batch->raw_bytes, out);
}

// Its records from place->record on; stops when the page is full, with the place there.
static enum base_status add_batch(struct reading *reading, const struct gw_sink_batch *batch,
                                  struct gw_record_place *place)
{
    const uint8_t *payload;
    struct wire_batch view;
    struct wire_record record;
    uint32_t bad;
    enum base_status status = open_batch(reading, &batch->batch, &payload);
    if (status == BASE_OK) {
        status = wire_batch_parse(payload, batch->batch.raw_bytes, &view, &bad);
    }
    if (status == BASE_ERR_NOMEM) {
        return status;
    }
    if (status != BASE_OK) { // a dictionary that is gone
        reading->page->skipped = true;
        return BASE_OK;
    }
    for (uint32_t index = 0; wire_batch_next(&view, &record); index++) {
        base_assert(record.upload < view.upload_count);
        if (index < place->record || !is_wanted(reading, view.uploads[record.upload].task)) {
            continue;
        }
        place->record = index;
        if (is_full(reading)) {
            return BASE_ERR_LIMIT;
        }
        BASE_TRY(add_head(reading, batch, place, batch->batch.first_seq + index));
        BASE_TRY(add_record(reading, &view, &record));
        reading->page->count++;
    }
    return BASE_OK;
}

// A loss is shown to whom all tasks are shown.
static enum base_status add_loss(struct reading *reading, const struct gw_sink_batch *batch,
                                 struct gw_record_place *place)
{
    const struct gw_record_query *query = reading->query;
    if (query->task.size > 0 || query->covers != NULL || place->record > 0) {
        return BASE_OK;
    }
    if (is_full(reading)) {
        return BASE_ERR_LIMIT;
    }
    BASE_TRY(add_head(reading, batch, place, batch->loss.first_seq));
    BASE_TRY(base_buffer_printf(
        reading->out, ",\"lost\":%" PRIu64 ",\"reason\":\"%s\"}", batch->loss.count,
        batch->loss.reason < WIRE_TUNNEL_LOSS_END ? reasons[batch->loss.reason] : "unknown"));
    reading->page->count++;
    return BASE_OK;
}

// One record of the log. NOT_FOUND: the end. LIMIT: the page is full.
static enum base_status step(struct reading *reading, struct gw_record_place *place)
{
    struct gw_sink_batch batch;
    uint64_t position;
    uint64_t next;
    enum base_status status = gw_segment_reader_next(reading->reader, &batch, &position, &next);
    if (status == BASE_ERR_CORRUPT) {
        reading->page->skipped = true;
        *place = (struct gw_record_place){.position = next};
        return gw_segment_reader_seek(reading->reader, next);
    }
    BASE_TRY(status);
    base_assert(next > position);      // or a page would not end
    if (position != place->position) { // across segments
        *place = (struct gw_record_place){.position = position};
    }
    bool mine = batch.tenant == reading->query->tenant &&
                (reading->query->device == 0 || reading->query->device == batch.device);
    if (mine) {
        BASE_TRY(batch.is_loss ? add_loss(reading, &batch, place)
                               : add_batch(reading, &batch, place));
    }
    *place = (struct gw_record_place){.position = next};
    return BASE_OK;
}

static enum base_status seek(struct reading *reading, struct gw_record_place *place)
{
    const struct gw_record_query *query = reading->query;
    struct gw_segment_stats stats;
    gw_segment_log_stats(gw_tunnel_log(reading->tunnel), &stats);
    if (query->from_start) {
        *place = (struct gw_record_place){.position = stats.first};
        return query->since_ms > 0 ? gw_segment_reader_seek_time(reading->reader, query->since_ms)
                                   : gw_segment_reader_seek(reading->reader, stats.first);
    }
    *place = query->place;
    if (place->position < stats.first) {
        reading->page->skipped = true;
        *place = (struct gw_record_place){.position = stats.first};
    }
    return gw_segment_reader_seek(reading->reader, place->position);
}

static enum base_status read_page(struct reading *reading)
{
    struct gw_record_place place;
    struct gw_segment_stats stats;
    gw_segment_log_stats(gw_tunnel_log(reading->tunnel), &stats);
    BASE_TRY(seek(reading, &place));
    uint64_t limit = UINT64_MAX;
    enum base_status status = BASE_OK;
    while (status == BASE_OK) {
        status = step(reading, &place);
        if (limit == UINT64_MAX) {
            limit = place.position + GW_RECORD_SCAN_BYTES;
        }
        if (status == BASE_OK && place.position >= limit) {
            status = BASE_ERR_LIMIT;
        }
    }
    reading->page->next = place;
    reading->page->more = status == BASE_ERR_LIMIT;
    return status == BASE_ERR_LIMIT || status == BASE_ERR_NOT_FOUND ? BASE_OK : status;
}

enum base_status gw_record_read(struct gw_tunnel *tunnel, const struct gw_record_query *query,
                                struct base_buffer *out, struct gw_record_page *out_page)
{
    struct reading reading = {.tunnel = tunnel, .query = query, .out = out, .page = out_page};
    *out_page = (struct gw_record_page){0};
    if (gw_tunnel_log(tunnel) == NULL) {
        return BASE_ERR_UNSUPPORTED;
    }
    enum base_status status = gw_segment_reader_open(gw_tunnel_log(tunnel), &reading.reader);
    if (status == BASE_OK) {
        status = gw_tunnel_zstd_new(&reading.zstd);
    }
    if (status == BASE_OK) {
        status = read_page(&reading);
    }
    gw_tunnel_zstd_free(reading.zstd);
    gw_segment_reader_close(reading.reader);
    return status;
}

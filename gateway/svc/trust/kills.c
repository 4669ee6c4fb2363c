// The kill list: its rows in the store, and the table of it in memory, which follows what is on
// disk. Control thread. kill_commands.c puts versions on and takes them off; the director tells
// devices of as many as a timestamp holds.
#include "svc/core_private.h"
#include "svc/row_text.h"
#include "svc/trust/director_private.h"

#include "svc/access/operators.h"

#include <string.h>

#define KILL_BYTES_MAX (16 + GW_TRUST_BY_MAX + GW_TRUST_REASON_MAX)

// ---- In memory

// Its place in the kill list, or where it would be.
static uint32_t kill_position(const struct gw_director *director,
                              const struct wire_sha256 *manifest)
{
    uint32_t low = 0;
    uint32_t high = director->kill_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (memcmp(director->kills[middle].manifest.bytes, manifest->bytes, WIRE_SHA256_BYTES) <
            0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct gw_kill *gw_kills_entry(struct gw_director *director, const struct wire_sha256 *manifest)
{
    uint32_t at = kill_position(director, manifest);
    bool there =
        at < director->kill_count && wire_sha256_equal(&director->kills[at].manifest, manifest);
    return there ? &director->kills[at] : NULL;
}

const struct gw_kill *gw_director_kill(const struct gw_director *director,
                                       const struct wire_sha256 *manifest)
{
    uint32_t at = kill_position(director, manifest);
    bool there =
        at < director->kill_count && wire_sha256_equal(&director->kills[at].manifest, manifest);
    return there ? &director->kills[at] : NULL;
}

bool gw_director_kills(const struct gw_core *core, const struct wire_sha256 *manifest)
{
    return gw_director_kill(core->director, manifest) != NULL;
}

static void kill_insert(struct gw_director *director, const struct gw_kill *kill)
{
    uint32_t at = kill_position(director, &kill->manifest);
    memmove(&director->kills[at + 1], &director->kills[at],
            (director->kill_count - at) * sizeof(director->kills[0]));
    director->kills[at] = *kill;
    director->kill_count++;
    director->kills_changed = true;
}

static void kill_remove(struct gw_director *director, const struct wire_sha256 *manifest)
{
    uint32_t at = kill_position(director, manifest);
    director->kill_count--;
    memmove(&director->kills[at], &director->kills[at + 1],
            (director->kill_count - at) * sizeof(director->kills[0]));
    director->kills_changed = true;
}

// ---- Rows

// A change of the kill list, and with it a timestamp's number that was never published: after a
// restart in between, no number stands for two lists. `kills` has one row, or that of an entry that
// gives way before it.
static enum base_status store_kills(struct gw_core *core, const struct gw_trust_row *kills,
                                    uint32_t count)
{
    struct gw_director *director = core->director;
    uint8_t state[GW_TRUST_STATE_BYTES_MAX];
    struct gw_trust_row rows[GW_TRUST_ROWS_MAX];
    memcpy(rows, kills, count * sizeof(rows[0]));
    if (director->signer != NULL) {
        rows[count] = (struct gw_trust_row){.key = gw_key_u64(GW_TRUST_ROW_STATE), .bytes = state};
        BASE_TRY(gw_director_state_encode(director, director->timestamp_version + 1, state,
                                          &rows[count].size));
        BASE_TRY(gw_trust_rows_put(core, rows, count + 1));
        director->timestamp_version++;
        return BASE_OK;
    }
    return gw_trust_rows_put(core, rows, count);
}

static enum base_status kill_encode(const struct gw_kill *kill, uint8_t out[KILL_BYTES_MAX],
                                    size_t *out_size)
{
    struct base_writer writer;
    base_writer_init(&writer, out, KILL_BYTES_MAX);
    base_writer_u8(&writer, GW_TRUST_ROW_VERSION);
    base_writer_u64(&writer, kill->time_us);
    gw_row_text_write(&writer, kill->by, GW_TRUST_BY_MAX);
    gw_row_text_write(&writer, kill->reason, GW_TRUST_REASON_MAX);
    *out_size = base_writer_size(&writer);
    return writer.status;
}

static enum base_status kill_decode(struct base_span key, struct base_span value,
                                    struct gw_kill *kill)
{
    struct base_reader reader;
    base_reader_init(&reader, value.data, value.size);
    if (base_reader_u8(&reader) != GW_TRUST_ROW_VERSION) {
        return BASE_ERR_CORRUPT;
    }
    memset(kill, 0, sizeof(*kill));
    kill->time_us = base_reader_u64(&reader);
    gw_row_text_read(&reader, kill->by, GW_TRUST_BY_MAX);
    gw_row_text_read(&reader, kill->reason, GW_TRUST_REASON_MAX);
    kill->told = GW_KILL_UNNEEDED;
    kill->tenant = GW_TENANT_EVERY; // gw_trust_finish_kills knows better
    memcpy(kill->manifest.bytes, key.data + 9, WIRE_SHA256_BYTES);
    return reader.status == BASE_OK ? BASE_OK : BASE_ERR_CORRUPT;
}

bool gw_kills_is_key(struct base_span key)
{
    return key.size == 9 + WIRE_SHA256_BYTES;
}

// Rows come in the order of their keys.
enum base_status gw_kills_read(struct gw_director *director, struct base_span key,
                               struct base_span value)
{
    return kill_decode(key, value, &director->kills[director->kill_count++]);
}

enum base_status gw_kills_add(struct gw_core *core, const struct gw_kill *kill,
                              const struct gw_kill *yields, struct base_error *error)
{
    uint8_t bytes[KILL_BYTES_MAX];
    struct gw_trust_row rows[2];
    uint32_t count = 0;
    struct gw_trust_row put = {.key = gw_key_u64_sha(GW_TRUST_ROW_KILL, &kill->manifest),
                               .bytes = bytes};
    enum base_status status = kill_encode(kill, bytes, &put.size);
    if (yields != NULL) {
        rows[count++] =
            (struct gw_trust_row){.key = gw_key_u64_sha(GW_TRUST_ROW_KILL, &yields->manifest)};
    }
    rows[count++] = put;
    status = status == BASE_OK ? store_kills(core, rows, count) : status;
    if (status != BASE_OK) {
        return base_error_set(error, status, "the kill could not be stored: %s",
                              base_status_text(status));
    }
    if (yields != NULL) {
        kill_remove(core->director, &yields->manifest);
    }
    kill_insert(core->director, kill);
    return BASE_OK;
}

enum base_status gw_kills_end(struct gw_core *core, const struct gw_kill *end,
                              struct base_error *error)
{
    uint8_t bytes[KILL_BYTES_MAX];
    struct gw_trust_row rows[] = {
        {.key = gw_key_u64_sha(GW_TRUST_ROW_KILL, &end->manifest)},
        {.key = gw_key_u64_sha(GW_TRUST_ROW_KILL_END, &end->manifest), .bytes = bytes}};
    enum base_status status = kill_encode(end, bytes, &rows[1].size);
    status = status == BASE_OK ? store_kills(core, rows, 2) : status;
    if (status != BASE_OK) {
        return base_error_set(error, status, "the change could not be stored: %s",
                              base_status_text(status));
    }
    kill_remove(core->director, &end->manifest);
    return BASE_OK;
}

void gw_trust_unkill_said(struct gw_core *core, const struct wire_sha256 *manifest)
{
    const struct gw_trust_row row = {.key = gw_key_u64_sha(GW_TRUST_ROW_KILL_END, manifest)};
    enum base_status status = gw_trust_rows_put(core, &row, 1);
    if (status != BASE_OK) { // the next start looks into the logs
        base_log_debug(core->log, "director", "the end of a kill stays noted: %s",
                       base_status_text(status));
    }
}

static bool read_end(void *ctx, struct base_span key, struct base_span value)
{
    struct gw_kill *end = ctx;
    uint64_t kind = 0;
    bool is_end = gw_key_read_u64(key.data, key.size, 0, &kind) && kind == GW_TRUST_ROW_KILL_END;
    if (!is_end || !gw_kills_is_key(key) || kill_decode(key, value, end) != BASE_OK) {
        end->time_us = 0;
    }
    return false;
}

// An end that the logs do not say yet. False: there is none.
bool gw_kills_next_end(struct gw_core *core, struct gw_kill *out)
{
    struct gw_key from = gw_key_u64(GW_TRUST_ROW_KILL_END);
    struct gw_store_read *read = NULL;
    out->time_us = 0;
    if (gw_store_read_begin(core->store, &read) != BASE_OK) {
        return false;
    }
    enum base_status status = gw_store_read_scan(read, GW_TABLE_TRUST, &from, read_end, out);
    gw_store_read_end(read);
    return status == BASE_OK && out->time_us != 0;
}

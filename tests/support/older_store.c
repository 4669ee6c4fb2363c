// older_store DIR LINES RELEASES TASK: makes the rollouts in a gateway's store those of a gateway
// of before. Lines of logs get the version LINES (3 to 5), releases of TASK the version RELEASES (8
// to 11). The gateway must not run. Exits with 1 and a word where something is not as expected.
#include "test_kit.h"

#include "core_rig.h"
#include "older_rollout.h"
#include "svc/rollout/rollout_state.h"
#include "svc/plan/stage_codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 512u
#define ROW_MAX  32768u
#define HEAD     28u // of a line: version, times, revision, kinds, command
#define COUNTS   18u // as of version 5
#define LINES    6   // as they are written now
#define RELEASES 12

struct row {
    enum gw_table table;
    struct gw_key key;
    size_t size;
    uint8_t bytes[ROW_MAX];
};

struct rewrite {
    struct gw_store_op op;
    uint8_t lines;
    struct older_rollout older;
    enum gw_table table; // under way
    uint32_t count;
    struct row *rows;
};

static void need(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "older_store: %s\n", what);
        exit(1);
    }
}

// A line of now without what older ones did not have.
static size_t rewrite_line(const struct rewrite *rewrite, struct base_span line, uint8_t *out)
{
    static struct gw_rollout_log_view view;
    static uint8_t behind[ROW_MAX];
    static const uint32_t have[] = {15, 16, COUNTS};
    struct base_writer writer;
    need(gw_rollout_line_decode(line.data, line.size, &view) == BASE_OK, "a line");
    base_writer_init(&writer, behind, sizeof(behind));
    gw_pol_trial_write(&writer, &view.record.counts.trial);
    if (view.record.kind == POL_RECORD_SLICES) {
        gw_pol_rises_write(&writer, &view.record.slices);
    }
    const uint8_t *bytes = line.data;
    size_t rest = HEAD + 8 * COUNTS;
    need(bytes[0] == LINES && line.size > rest + base_writer_size(&writer), "a line's size");
    size_t tail = line.size - rest - base_writer_size(&writer);
    base_writer_init(&writer, out, ROW_MAX);
    base_writer_u8(&writer, rewrite->lines);
    base_writer_bytes(&writer, bytes + 1, HEAD - 1);
    base_writer_bytes(&writer, bytes + HEAD, (size_t)8 * have[rewrite->lines - 3]);
    base_writer_bytes(&writer, bytes + rest, tail);
    need(writer.status == BASE_OK &&
             gw_rollout_line_decode(out, base_writer_size(&writer), &view) == BASE_OK,
         "an older line");
    return base_writer_size(&writer);
}

// Where the release begins, at the end of a rollout's row, behind its size in two bytes.
static size_t find_spec(const uint8_t *row, size_t size)
{
    for (size_t at = 2; at < size; at++) {
        struct base_reader reader;
        base_reader_init(&reader, row + at - 2, 2);
        if (row[at] == RELEASES && base_reader_varint(&reader) == size - at &&
            base_reader_finish(&reader) == BASE_OK) {
            return at;
        }
    }
    need(false, "a rollout without a release");
    return 0;
}

static size_t rewrite_rollout(const struct rewrite *rewrite, struct base_span row, uint8_t *out)
{
    static uint8_t spec[ROW_MAX];
    const uint8_t *bytes = row.data;
    size_t at = find_spec(bytes, row.size);
    struct base_writer inner;
    struct base_writer writer;
    base_writer_init(&inner, spec, sizeof(spec));
    older_spec(&inner, &rewrite->older, bytes + at, row.size - at);
    base_writer_init(&writer, out, ROW_MAX);
    base_writer_bytes(&writer, bytes, at - 2);
    base_writer_varint(&writer, base_writer_size(&inner));
    base_writer_bytes(&writer, spec, base_writer_size(&inner));
    need(writer.status == BASE_OK, "an older rollout");
    return base_writer_size(&writer);
}

static bool take(void *ctx, struct base_span key, struct base_span value)
{
    struct rewrite *rewrite = ctx;
    need(rewrite->count < ROWS_MAX && value.size <= ROW_MAX && key.size <= GW_STORE_KEY_MAX,
         "too much in the store");
    struct row *row = &rewrite->rows[rewrite->count++];
    row->table = rewrite->table;
    row->key.size = key.size;
    memcpy(row->key.bytes, key.data, key.size);
    row->size = rewrite->table == GW_TABLE_ROLLOUTS ? rewrite_rollout(rewrite, value, row->bytes)
                                                    : rewrite_line(rewrite, value, row->bytes);
    return true;
}

static void take_all(struct rewrite *rewrite, struct gw_store *store, enum gw_table table)
{
    struct gw_store_read *read = NULL;
    const struct gw_key first = gw_key_u64(0);
    rewrite->table = table;
    need(gw_store_read_begin(store, &read) == BASE_OK &&
             gw_store_read_scan(read, table, &first, take, rewrite) == BASE_OK,
         "the store cannot be read");
    gw_store_read_end(read);
}

static enum base_status put_all(struct gw_store_txn *txn, struct gw_store_op *op)
{
    const struct rewrite *rewrite = (const struct rewrite *)op;
    for (uint32_t i = 0; i < rewrite->count; i++) {
        const struct row *row = &rewrite->rows[i];
        BASE_TRY(gw_store_txn_put(txn, row->table, &row->key, row->bytes, row->size));
    }
    return BASE_OK;
}

int main(int argc, char **argv)
{
    static struct rewrite rewrite;
    struct gw_store *store = NULL;
    struct base_error error = {0};
    need(argc == 5, "usage: older_store DIR LINES RELEASES TASK");
    const struct gw_store_options options = {.dir = argv[1], .commit_delay_us = 1};
    rewrite.op.apply = put_all;
    rewrite.lines = (uint8_t)strtoul(argv[2], NULL, 10);
    rewrite.older.version = (uint8_t)strtoul(argv[3], NULL, 10);
    rewrite.older.task = argv[4];
    rewrite.rows = calloc(ROWS_MAX, sizeof(*rewrite.rows));
    need(rewrite.rows != NULL && rewrite.lines >= 3 && rewrite.lines <= 5 &&
             rewrite.older.version >= OLDER_FLOOR && rewrite.older.version < RELEASES,
         "versions");
    need(gw_store_open(&options, &store, &error) == BASE_OK, error.text);
    take_all(&rewrite, store, GW_TABLE_ROLLOUTS);
    take_all(&rewrite, store, GW_TABLE_ROLLOUT_LOG);
    need(gw_store_submit_wait(store, &rewrite.op) == BASE_OK, "the store cannot be written");
    printf("%u rows\n", rewrite.count);
    gw_store_close(store);
    free(rewrite.rows);
    return 0;
}

// Records of any table, as a store hands them to the gateway: what the pages and the seals of a
// file cannot tell is whether its bytes make sense. They are put into a store, sealed as they
// should be, and a gateway's core starts on it: it refuses with a text or serves, and then lists
// what it has, writes, and the store is whole.
//
// Input: records, each u8 table, u8 bytes of the key, the key, u16 bytes of the value, the value.
#include "fuzz_target.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/prng.h"
#include "svc/core_private.h"
#include "svc/access/device_user.h"
#include "svc/access/credentials.h"
#include "svc/device/devices.h"
#include "svc/rollout/device_views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDS_MAX 64
#define VIEWS       16

struct record {
    enum gw_table table;
    struct gw_key key;
    const uint8_t *value;
    size_t size;
};

struct put {
    struct gw_store_op op;
    const struct record *records;
    uint32_t count;
};

static char dir[64];

static uint64_t now(void *ctx)
{
    (void)ctx;
    return UINT64_C(1700000000000000);
}

static void remove_dir(void)
{
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    (void)!system(command);
}

static uint32_t read_records(const uint8_t *data, size_t size, struct record *out)
{
    struct base_reader reader;
    uint32_t count = 0;
    base_reader_init(&reader, data, size);
    while (count < RECORDS_MAX && base_reader_left(&reader) > 0) {
        struct record *record = &out[count];
        record->table = (enum gw_table)(base_reader_u8(&reader) % GW_TABLE_COUNT);
        record->key.size = 1 + base_reader_u8(&reader) % (GW_STORE_KEY_MAX - 1);
        base_reader_copy(&reader, record->key.bytes, record->key.size);
        record->size = base_reader_u16(&reader);
        record->value = base_reader_bytes(&reader, record->size);
        if (reader.status != BASE_OK) {
            break;
        }
        count++;
    }
    return count;
}

static enum base_status apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    const struct put *put = (const struct put *)self;
    for (uint32_t i = 0; i < put->count; i++) {
        const struct record *record = &put->records[i];
        uint64_t id;
        if (record->table == GW_TABLE_DEVICES &&
            (record->size == 0 || record->key.size != 9 ||
             !gw_key_read_u64(record->key.bytes, record->key.size, 0, &id))) {
            continue; // no record of a device lies in a store so
        }
        BASE_TRY(gw_store_txn_put(txn, record->table, &record->key, record->value, record->size));
    }
    return BASE_OK;
}

static void fill(const struct record *records, uint32_t count)
{
    const struct gw_store_options options = {
        .dir = dir, .map_bytes_first = 8 << 20, .map_bytes_max = 8 << 20, .commit_delay_us = 1};
    struct put put = {.records = records, .count = count};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    put.op.apply = apply;
    base_check(gw_store_open(&options, &store, &error) == BASE_OK);
    base_check(gw_store_submit_wait(store, &put.op) == BASE_OK);
    gw_store_close(store);
}

static void look(struct gw_core *core, const struct record *records, uint32_t count)
{
    static struct gw_device_view views[VIEWS];
    char user[WIRE_SUBJECT_MAX + 1];
    struct gw_credential credential;
    struct gw_page page = {.limit = VIEWS};
    base_check(gw_device_list(core, false, 0, views, &page) != BASE_OK || page.count <= VIEWS);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t id = 0;
        if (!gw_key_read_u64(records[i].key.bytes, records[i].key.size, 0, &id)) {
            continue;
        }
        base_check(gw_device_get(core, id, &views[0]) != BASE_OK || views[0].device_id == id);
        base_check(gw_device_user_get(core, 0, id, user) != BASE_OK || user[0] != '\0');
        base_check(gw_credential_get(core, id, &credential) != BASE_OK ||
                   credential.state < GW_CREDENTIAL_STATE_COUNT);
    }
    (void)gw_store_check(core->store, NULL, NULL);
}

static void start(const struct record *records, uint32_t count)
{
    struct base_prng prng;
    base_prng_seed(&prng, 1);
    const struct gw_core_options options = {
        .dir = dir,
        .commit_delay_us = 1,
        .clock = {NULL, now, now},
        .random = base_prng_port(&prng),
    };
    struct gw_core *core = NULL;
    struct base_error error = {0};
    if (gw_core_new(&options, &core, &error) != BASE_OK) {
        base_check(error.text[0] != '\0');
        return;
    }
    look(core, records, count);
    gw_core_free(core);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct record records[RECORDS_MAX];
    uint32_t count = read_records(data, size, records);
    if (count == 0) {
        return 0;
    }
    if (dir[0] == '\0') {
        (void)snprintf(dir, sizeof(dir), "/tmp/walle-fuzz-store-XXXXXX");
        base_check(mkdtemp(dir) != NULL);
        (void)atexit(remove_dir);
    }
    fill(records, count);
    start(records, count);
    remove_dir();
    base_check(mkdir(dir, 0700) == 0);
    return 0;
}

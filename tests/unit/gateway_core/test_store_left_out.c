// A group of operations of which some meet damage: those are left out and say so, up to
// GW_STORE_LEFT_OUT_MAX of them; of more, the whole group fails and nothing of it is there.
#include "store/store_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SOUND 3u

struct put {
    struct gw_store_op op;
    uint64_t id;
    bool meets_damage;
    uint32_t applied;
    uint32_t done;
    enum base_status status;
};

static enum base_status apply(struct gw_store_txn *txn, struct gw_store_op *self)
{
    struct put *put = (struct put *)self;
    struct gw_key key = gw_key_u64(put->id);
    put->applied++;
    enum base_status status = gw_store_txn_put(txn, GW_TABLE_DEVICES, &key, "x", 1);
    if (put->meets_damage) {
        txn->fault = MDB_CORRUPTED; // whatever the operation makes of it
    }
    return status;
}

static void on_done(struct gw_store_op *self, enum base_status status)
{
    struct put *put = (struct put *)self;
    put->done++;
    put->status = status;
}

static bool is_there(struct gw_store *store, uint64_t id)
{
    struct gw_store_read *read = NULL;
    struct base_span value;
    struct gw_key key = gw_key_u64(id);
    assert_int_equal(gw_store_read_begin(store, &read), BASE_OK);
    enum base_status status = gw_store_read_get(read, GW_TABLE_DEVICES, &key, &value);
    gw_store_read_end(read);
    assert_true(status == BASE_OK || status == BASE_ERR_NOT_FOUND);
    return status == BASE_OK;
}

static void group_of(uint32_t damaged)
{
    static struct put puts[GW_STORE_LEFT_OUT_MAX + 1 + SOUND];
    char dir[] = "/tmp/walle-left-out-XXXXXX";
    struct gw_store *store = NULL;
    struct base_error error = {0};
    const struct gw_store_options options = {.dir = mkdtemp(dir), .no_thread = true};
    const bool whole = damaged <= GW_STORE_LEFT_OUT_MAX;
    assert_non_null(options.dir);
    assert_int_equal(gw_store_open(&options, &store, &error), BASE_OK);
    memset(puts, 0, sizeof(puts));
    for (uint32_t i = 0; i < damaged + SOUND; i++) {
        puts[i] = (struct put){.op = {.apply = apply, .done = on_done, .sort_key = i},
                               .id = 1000 + i,
                               .meets_damage = i >= 1 && i <= damaged};
        assert_int_equal(gw_store_submit(store, &puts[i].op), BASE_OK);
    }
    assert_true(gw_store_step(store));
    for (uint32_t i = 0; i < damaged + SOUND; i++) {
        bool good = whole && !puts[i].meets_damage;
        assert_int_equal(puts[i].done, 1);
        assert_int_equal(puts[i].status, good ? BASE_OK : BASE_ERR_CORRUPT);
        assert_int_equal(is_there(store, puts[i].id), good);
        assert_true(!puts[i].meets_damage || puts[i].applied <= 1); // not again
    }
    gw_store_close(store);
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void test_as_many_as_are_left_out(void **state)
{
    (void)state;
    group_of(0);
    group_of(1);
    group_of(GW_STORE_LEFT_OUT_MAX);
    group_of(GW_STORE_LEFT_OUT_MAX + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_many_as_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

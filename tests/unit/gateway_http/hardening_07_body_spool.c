// A body comes back as it went in, whatever its size and pieces; beyond a bound it is in a file
// without a name; and every allocation that fails leaves nothing behind.
#include "http/guard/actor_table.h"
#include "http/memory/body_budget.h"
#include "http/memory/body_spool.h"
#include "http/guard/host_list.h"

#include "failing_heap.h"
#include "test_kit.h"

#include <dirent.h>
#include <unistd.h>

static char dir[] = "/tmp/walle-spool-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int drop_dir(void **state)
{
    (void)state;
    return rmdir(dir); // fails when a file was left
}

static void test_bodies_come_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, 4096, GW_SPOOL_MEMORY_MAX, GW_SPOOL_MEMORY_MAX + 1, 3 * GW_SPOOL_MEMORY_MAX};
    static const size_t pieces[] = {1000, 16384, GW_SPOOL_MEMORY_MAX + 1};
    uint8_t *content = malloc(3 * GW_SPOOL_MEMORY_MAX);
    assert_non_null(content);
    for (size_t i = 0; i < 3 * GW_SPOOL_MEMORY_MAX; i++) {
        content[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    for (size_t s = 0; s < TEST_COUNT(sizes); s++) {
        for (size_t p = 0; p < TEST_COUNT(pieces); p++) {
            struct gw_body_spool spool;
            const uint8_t *back = NULL;
            gw_body_spool_init(&spool);
            for (size_t at = 0; at < sizes[s];) {
                size_t size = sizes[s] - at < pieces[p] ? sizes[s] - at : pieces[p];
                assert_int_equal(gw_body_spool_add(&spool, dir, content + at, size), BASE_OK);
                at += size;
            }
            assert_int_equal(spool.bytes, sizes[s]);
            assert_int_equal(spool.fd >= 0, sizes[s] > GW_SPOOL_MEMORY_MAX);
            assert_true(spool.fd < 0 || spool.memory.size == 0);
            assert_int_equal(gw_body_spool_bytes(&spool, &back), BASE_OK);
            assert_true(sizes[s] == 0 || memcmp(back, content, sizes[s]) == 0);
            gw_body_spool_done(&spool);
        }
    }
    free(content);
}

static void test_a_folder_that_is_not_there(void **state)
{
    (void)state;
    struct gw_body_spool spool;
    static const uint8_t piece[GW_SPOOL_MEMORY_MAX];
    gw_body_spool_init(&spool);
    assert_int_equal(gw_body_spool_add(&spool, "/nonexistent/tmp", piece, sizeof(piece)), BASE_OK);
    assert_int_equal(gw_body_spool_add(&spool, "/nonexistent/tmp", piece, 1), BASE_ERR_IO);
    gw_body_spool_done(&spool);
    gw_body_spool_init(&spool);
    assert_int_equal(gw_body_spool_add(&spool, NULL, piece, sizeof(piece)), BASE_OK);
    assert_int_equal(gw_body_spool_add(&spool, NULL, piece, 1), BASE_OK); // nowhere to go: memory
    assert_int_equal(spool.fd, -1);
    gw_body_spool_done(&spool);
}

// All that is new and allocates, one after the other. OK, or the first failure.
static enum base_status walk(void)
{
    static const uint8_t piece[GW_SPOOL_MEMORY_MAX];
    const struct gw_budget_limits limits = {1 << 20, 1 << 20, 1 << 20};
    struct gw_actor_key key = {.kind = GW_ACTOR_DEVICE};
    struct gw_body_budget *budget = NULL;
    struct gw_host_list *hosts = NULL;
    struct gw_body_spool spool;
    const uint8_t *back = NULL;
    struct base_error error;
    enum base_status status = gw_host_list_new("a.example", &hosts, &error);
    gw_host_list_unref(hosts);
    gw_body_spool_init(&spool);
    status = status == BASE_OK ? gw_body_spool_add(&spool, dir, piece, 100) : status;
    status = status == BASE_OK ? gw_body_spool_add(&spool, dir, piece, sizeof(piece)) : status;
    status = status == BASE_OK ? gw_body_spool_bytes(&spool, &back) : status;
    gw_body_spool_done(&spool);
    status = status == BASE_OK ? gw_body_budget_new(&budget) : status;
    for (uint32_t i = 0; i < 100 && status == BASE_OK; i++) { // the table grows
        memcpy(key.bytes, &i, sizeof(i));
        status = gw_body_budget_take(budget, &key, GW_BUDGET_MEMORY, &limits, 1);
    }
    gw_body_budget_free(budget);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    assert_int_equal(walk(), BASE_OK);
    for (size_t allowed = 0;; allowed++) {
        long live = failing_heap_live();
        failing_heap_arm(allowed, false);
        enum base_status status = walk();
        bool failed = failing_heap_has_failed();
        (void)failing_heap_disarm();
        assert_int_equal(failing_heap_live(), live);
        assert_int_equal(status, failed ? BASE_ERR_NOMEM : BASE_OK);
        if (!failed) {
            assert_true(allowed >= 6);
            return;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies_come_back),
        cmocka_unit_test(test_a_folder_that_is_not_there),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}

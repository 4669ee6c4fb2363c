// The store of versions that operators push: what goes when they are removed, and what a kill in
// the middle of it leaves for the next start.
#include "core_rig.h"
#include "infer_kit.h"

#include "base/alloc.h"
#include "infer/release/release_book.h"
#include "svc/content/model_rows.h"

struct world {
    struct rig rig;
    struct infer_kit kit;
    struct gw_infer_service *service;
    struct gw_releases *releases;
};

static void open_book(struct world *world)
{
    struct base_error error = {0};
    const struct gw_infer_options options = {.models_dir = world->kit.dir, .threads = 1};
    rig_start(&world->rig);
    assert_int_equal(gw_infer_service_new(&options, &world->service, &error), BASE_OK);
    assert_int_equal(gw_release_open(world->rig.core, world->service, &world->releases, &error),
                     BASE_OK);
}

static void close_book(struct world *world)
{
    gw_release_close(world->releases);
    gw_infer_service_free(world->service);
}

static void begin(struct world *world)
{
    memset(world, 0, sizeof(*world));
    infer_kit_begin(&world->kit);
    rig_init(&world->rig);
    open_book(world);
}

static void restart(struct world *world)
{
    close_book(world);
    rig_stop(&world->rig);
    open_book(world);
}

static void end(struct world *world)
{
    close_book(world);
    rig_done(&world->rig);
    infer_kit_end(&world->kit);
}

#define LARGE 80000u // bytes that are a file of the store's, and no row

// y = relu(x + w) with w of this number, and a doc_string of so many bytes.
static struct base_span model_of(float number, uint32_t doc_bytes)
{
    static uint8_t file[LARGE + 4096];
    const float w[3] = {number, number, number};
    struct onnx_kit *kit = onnx_begin();
    onnx_input(kit, "x", ENG_F32, -1, 3);
    onnx_initializer(kit, "w", ENG_F32, ONNX_DIMS(3), w, sizeof(w));
    onnx_node(kit, "Add", "x w", "s");
    onnx_node(kit, "Relu", "s", "y");
    onnx_output(kit, "y", ENG_F32, -1, 3);
    const struct onnx_part *part = onnx_finish(kit, 13);
    assert_true(part->size + 4 + doc_bytes <= sizeof(file));
    memset(file, 'a', sizeof(file));
    memcpy(file, part->bytes, part->size);
    uint8_t *head = file + part->size;
    head[0] = 6 << 3 | 2; // ModelProto.doc_string, its length a varint of three bytes
    head[1] = (uint8_t)(0x80 | (doc_bytes & 0x7f));
    head[2] = (uint8_t)(0x80 | (doc_bytes >> 7 & 0x7f));
    head[3] = (uint8_t)(doc_bytes >> 14);
    return (struct base_span){file, part->size + 4 + doc_bytes};
}

static enum base_status push(struct world *world, const char *name, const char *version,
                             float number)
{
    struct base_error error = {0};
    const struct gw_release_push push = {.model = base_str_of(name),
                                         .version = base_str_of(version),
                                         .file = model_of(number, LARGE),
                                         .by = "ana"};
    return gw_release_push(world->releases, &push, &error);
}

static enum base_status drop(struct world *world, const char *name, const char *version)
{
    struct base_error error = {0};
    return gw_release_remove(world->releases, base_str_of(name), base_str_of(version), &error);
}

static void unload(struct world *world, const char *name)
{
    struct base_error error = {0};
    assert_int_equal(gw_infer_unload(world->service, base_str_of(name), &error), BASE_OK);
}

static uint32_t file_count;
static uint32_t row_count;

static int count_file(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)path;
    (void)about;
    (void)walk;
    file_count += kind == FTW_F;
    return 0;
}

static uint32_t files(const struct world *world)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/blobs", world->rig.dir);
    file_count = 0;
    assert_int_equal(nftw(path, count_file, 8, FTW_PHYS), 0);
    return file_count;
}

static bool count_row(void *ctx, struct base_str row)
{
    (void)ctx;
    (void)row;
    row_count++;
    return true;
}

static uint32_t rows(const struct world *world)
{
    row_count = 0;
    assert_int_equal(gw_model_rows_each(world->rig.core, count_row, NULL), BASE_OK);
    return row_count;
}

static size_t names(const struct world *world)
{
    struct base_arena arena;
    struct gw_infer_row *list = NULL;
    size_t count = 0;
    const struct gw_infer_call all = {.priority = 0};
    base_arena_init(&arena, base_alloc_heap(), 4096, 1u << 24);
    assert_int_equal(gw_infer_rows(world->service, &all, &arena, &list, &count), BASE_OK);
    base_arena_done(&arena);
    return count;
}

static void test_a_removed_version_frees_its_file(void **state)
{
    (void)state;
    static struct world world;
    begin(&world);
    assert_int_equal(push(&world, "m", "1", 0), BASE_OK);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(push(&world, "m", "2", (float)i + 1), BASE_OK);
        assert_int_equal(files(&world), 2);
        assert_int_equal(drop(&world, "m", "2"), BASE_OK);
        assert_int_equal(files(&world), 1);
    }
    // Two versions of the same bytes have one file, which goes with the second.
    assert_int_equal(push(&world, "m", "3", 9), BASE_OK);
    assert_int_equal(push(&world, "n", "1", 8), BASE_OK);
    assert_int_equal(push(&world, "n", "2", 9), BASE_OK);
    assert_int_equal(files(&world), 3);
    assert_int_equal(drop(&world, "m", "3"), BASE_OK);
    assert_int_equal(files(&world), 3);
    restart(&world);
    assert_int_equal(files(&world), 3);
    assert_int_equal(drop(&world, "n", "2"), BASE_OK);
    assert_int_equal(files(&world), 2);
    end(&world);
}

static void test_a_name_goes_with_its_last_version(void **state)
{
    (void)state;
    static struct world world;
    begin(&world);
    assert_int_equal(push(&world, "typo", "1", 1), BASE_OK);
    assert_int_equal(push(&world, "typo", "2", 2), BASE_OK);
    assert_int_equal(names(&world), 2);
    assert_int_equal(drop(&world, "typo", "1"), BASE_ERR_CONFLICT); // it serves
    unload(&world, "typo");
    assert_int_equal(drop(&world, "typo", "1"), BASE_OK);
    assert_int_equal(names(&world), 1);
    assert_int_equal(rows(&world), 1);
    assert_int_equal(drop(&world, "typo", "2"), BASE_OK);
    assert_int_equal(names(&world), 0);
    assert_int_equal(rows(&world), 0);
    assert_int_equal(files(&world), 0);
    assert_null(gw_release_model_view(world.releases, BASE_STR("typo")));
    assert_true(gw_infer_ready(world.service));
    restart(&world);
    assert_int_equal(names(&world), 0);
    end(&world);
}

// A place of those that there are is free again, in the book and in the service.
static void test_places_of_names_are_free_again(void **state)
{
    (void)state;
    static struct world world;
    begin(&world);
    for (uint32_t i = 0; i < GW_INFER_MODELS_MAX + 8; i++) {
        char name[16];
        struct base_error error = {0};
        snprintf(name, sizeof(name), "m%u", i);
        const struct gw_release_push small = {.model = base_str_of(name),
                                              .version = BASE_STR("1"),
                                              .file = model_of((float)i, 0),
                                              .by = "ana"};
        assert_int_equal(gw_release_push(world.releases, &small, &error), BASE_OK);
        unload(&world, name);
        assert_int_equal(drop(&world, name, "1"), BASE_OK);
    }
    assert_int_equal(names(&world), 0);
    end(&world);
}

// A kill between a file and its row.
static void test_what_a_kill_left_goes_at_the_next_start(void **state)
{
    (void)state;
    static struct world world;
    struct wire_sha256 digest;
    begin(&world);
    assert_int_equal(push(&world, "m", "1", 1), BASE_OK);
    assert_int_equal(gw_model_file_put(world.rig.core, model_of(2, LARGE), &digest), BASE_OK);
    assert_int_equal(gw_model_file_put(world.rig.core, model_of(3, LARGE), &digest), BASE_OK);
    assert_int_equal(files(&world), 3);
    restart(&world);
    assert_int_equal(files(&world), 1);
    struct gw_infer_call named = {.model = BASE_STR("m"), .version = BASE_STR("1")};
    assert_true(gw_infer_model_ready(world.service, named.model, named.version));
    end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_removed_version_frees_its_file),
        cmocka_unit_test(test_a_name_goes_with_its_last_version),
        cmocka_unit_test(test_places_of_names_are_free_again),
        cmocka_unit_test(test_what_a_kill_left_goes_at_the_next_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

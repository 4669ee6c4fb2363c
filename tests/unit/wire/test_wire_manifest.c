// Manifests: layout, names, doubles, entry, damage.
#include "wire_damage.h"
#include "wire_samples.h"

static struct wire_sample_manifest sample;
static uint8_t bytes[WIRE_MANIFEST_BYTES_MAX];

static enum base_status encode(size_t *out_size)
{
    return wire_manifest_encode(&sample.manifest, bytes, sizeof bytes, out_size);
}

static void make_plain(void)
{
    sample.manifest = (struct wire_manifest){
        .task_name = BASE_STR("t"),
        .version = BASE_STR("1.0.0"),
        .runtime_abi = 1,
        .entry = BASE_STR("go"),
        .heap_kib = 64,
        .time_ms = 100,
        .every_s = 0,
        .config = BASE_STR("{}"),
        .file_count = 2,
    };
    sample.manifest.files[0] = (struct wire_manifest_file){
        .kind = WIRE_FILE_SCRIPT, .name = BASE_STR("go.mpy"), .bytes = 5};
    sample.manifest.files[1] =
        (struct wire_manifest_file){.kind = WIRE_FILE_DATA, .name = BASE_STR("d/x"), .bytes = 0};
}

static void bytes_are_as_documented(void **state)
{
    (void)state;
    make_plain();
    size_t size = 0;
    assert_int_equal(encode(&size), BASE_OK);
    static const uint8_t head[] = {'W', 'L', 'M', '2', 1,   't', 5,   '1', '.', '0', '.',
                                   '0', 1,   0,   2,   'g', 'o', 64,  0,   0,   0,   100,
                                   0,   0,   0,   0,   0,   0,   0,   0,   2,   '{', '}',
                                   2,   1,   6,   'g', 'o', '.', 'm', 'p', 'y', 5};
    assert_memory_equal(bytes, head, sizeof head);
    assert_int_equal(size, sizeof head + 32 + 1 + 4 + 1 + 32);
    struct wire_manifest out;
    assert_int_equal(wire_manifest_parse(bytes, size, &out), BASE_OK);
    assert_true(base_str_equal(out.config, BASE_STR("{}")));
    assert_int_equal(out.file_count, 2);
    assert_int_equal(wire_manifest_encode(&sample.manifest, bytes, size - 1, &size),
                     BASE_ERR_TOO_LARGE);
}

static void file_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool ok;
    } rows[] = {
        {"a", true},     {"A-b_c.d", true}, {"a/b/c", true},   {".hidden", true},
        {"...", true},   {"a/..b", true},   {"", false},       {"/a", false},
        {"a/", false},   {"a//b", false},   {".", false},      {"..", false},
        {"../a", false}, {"a/..", false},   {"a/../b", false}, {"a/./b", false},
        {"a\\b", false}, {"a b", false},    {"a:b", false},    {"\xc3\xa4", false},
        {"a\n", false},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        make_plain();
        sample.manifest.files[1].name = base_str_of(rows[i].name);
        size_t size;
        enum base_status status = encode(&size);
        if (status != (rows[i].ok ? BASE_OK : BASE_ERR_INVALID)) {
            fail_msg("'%s': %s", rows[i].name, base_status_name(status));
        }
    }
    char longest[WIRE_FILE_NAME_MAX + 1];
    memset(longest, 'a', sizeof longest);
    make_plain();
    size_t size;
    sample.manifest.files[1].name = (struct base_str){longest, WIRE_FILE_NAME_MAX};
    assert_int_equal(encode(&size), BASE_OK);
    sample.manifest.files[1].name.size++;
    assert_int_equal(encode(&size), BASE_ERR_INVALID);
}

static void rules_of_the_whole(void **state)
{
    (void)state;
    size_t size;
    make_plain();
    sample.manifest.files[1].name = BASE_STR("go.mpy");
    assert_int_equal(encode(&size), BASE_ERR_INVALID); // doubled
    make_plain();
    sample.manifest.entry = BASE_STR("g");
    assert_int_equal(encode(&size), BASE_ERR_INVALID); // no such script
    make_plain();
    sample.manifest.files[0].kind = WIRE_FILE_DATA;
    assert_int_equal(encode(&size), BASE_ERR_INVALID); // the entry is no script
    make_plain();
    sample.manifest.files[1].kind = WIRE_FILE_SCRIPT;
    assert_int_equal(encode(&size), BASE_ERR_INVALID); // a script not called *.mpy
    sample.manifest.files[1].name = BASE_STR(".mpy");
    assert_int_equal(encode(&size), BASE_ERR_INVALID);
    make_plain();
    sample.manifest.files[1].kind = (enum wire_file_kind)4;
    assert_int_equal(encode(&size), BASE_ERR_INVALID);
    make_plain();
    sample.manifest.files[1].bytes = WIRE_FILE_BYTES_MAX + 1;
    assert_int_equal(encode(&size), BASE_ERR_INVALID);
    make_plain();
    sample.manifest.task_name = BASE_STR("T");
    assert_int_equal(encode(&size), BASE_ERR_INVALID);
    make_plain();
    sample.manifest.file_count = 0;
    assert_int_equal(encode(&size), BASE_ERR_INVALID);
    sample.manifest.file_count = WIRE_MANIFEST_FILES_MAX + 1;
    assert_int_equal(encode(&size), BASE_ERR_TOO_LARGE);
    static const char *const versions[] = {"", "1.0_0", "1/0", "1 0"};
    for (size_t i = 0; i < TEST_COUNT(versions); i++) {
        make_plain();
        sample.manifest.version = base_str_of(versions[i]);
        assert_int_equal(encode(&size), BASE_ERR_INVALID);
    }
    static char config[WIRE_MANIFEST_CONFIG_MAX + 1];
    make_plain();
    sample.manifest.config = (struct base_str){config, WIRE_MANIFEST_CONFIG_MAX};
    assert_int_equal(encode(&size), BASE_OK);
    sample.manifest.config.size++;
    assert_int_equal(encode(&size), BASE_ERR_TOO_LARGE);
}

static void exclusive_files_have_a_root(void **state)
{
    (void)state;
    static struct wire_manifest out;
    size_t plain = 0;
    size_t size = 0;
    make_plain();
    assert_int_equal(encode(&plain), BASE_OK);
    sample.manifest.exclusive_root.bytes[7] = 9;
    assert_int_equal(encode(&size), BASE_ERR_INVALID); // a root of nothing
    sample.manifest.exclusive = WIRE_EXCLUSIVE_REQUIRED;
    assert_int_equal(encode(&size), BASE_OK);
    assert_int_equal(size, plain + WIRE_SHA256_BYTES);
    assert_int_equal(wire_manifest_parse(bytes, size, &out), BASE_OK);
    assert_int_equal(out.exclusive, WIRE_EXCLUSIVE_REQUIRED);
    assert_int_equal(out.exclusive_root.bytes[7], 9);
    sample.manifest.exclusive = WIRE_EXCLUSIVE_COUNT;
    assert_int_equal(encode(&size), BASE_ERR_INVALID);
    sample.manifest.exclusive = WIRE_EXCLUSIVE_OPTIONAL;
    sample.manifest.exclusive_root.bytes[7] = 0;
    assert_int_equal(encode(&size), BASE_ERR_INVALID); // no root
}

static void other_magic_and_sizes_are_refused(void **state)
{
    (void)state;
    static struct wire_manifest out;
    make_plain();
    size_t size;
    assert_int_equal(encode(&size), BASE_OK);
    bytes[3] = '1';
    assert_int_equal(wire_manifest_parse(bytes, size, &out), BASE_ERR_UNSUPPORTED);
    assert_int_equal(out.file_count, 0);
    assert_int_equal(wire_manifest_parse(bytes, WIRE_MANIFEST_BYTES_MAX + 1, &out),
                     BASE_ERR_TOO_LARGE);
    assert_int_equal(wire_manifest_parse(bytes, 0, &out), BASE_ERR_TRUNCATED);
}

// What was judged once is read as before; what is cut short is no manifest, whoever judged it.
static void what_was_judged_is_read_again(void **state)
{
    (void)state;
    static struct wire_manifest first;
    static struct wire_manifest again;
    size_t size = 0;
    make_plain();
    assert_int_equal(encode(&size), BASE_OK);
    assert_int_equal(wire_manifest_parse(bytes, size, &first), BASE_OK);
    assert_int_equal(wire_manifest_again(bytes, size, &again), BASE_OK);
    assert_int_equal(again.file_count, first.file_count);
    assert_memory_equal(again.files, first.files, sizeof(first.files[0]) * first.file_count);
    assert_true(base_str_equal(again.config, first.config));
    assert_true(base_str_equal(again.entry, first.entry));
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_not_equal(wire_manifest_again(bytes, cut, &again), BASE_OK);
        assert_int_equal(again.file_count, 0);
    }
}

static void random_manifests_round_trip_and_survive_damage(void **state)
{
    (void)state;
    static struct wire_manifest back;
    struct base_prng prng;
    test_seed(&prng);
    for (unsigned round = 0; round < 30; round++) {
        uint32_t files = round < 5 ? 1 + round : 1 + (uint32_t)base_prng_below(&prng, 256);
        wire_sample_manifest(&prng, &sample, files);
        size_t size = 0;
        assert_int_equal(encode(&size), BASE_OK);
        assert_int_equal(wire_manifest_parse(bytes, size, &back), BASE_OK);
        assert_int_equal(back.file_count, files);
        assert_int_equal(back.heap_kib, sample.manifest.heap_kib);
        assert_int_equal(back.time_ms, sample.manifest.time_ms);
        assert_int_equal(back.every_s, sample.manifest.every_s);
        assert_int_equal(back.exclusive, sample.manifest.exclusive);
        assert_true(wire_sha256_equal(&back.exclusive_root, &sample.manifest.exclusive_root));
        for (uint32_t i = 0; i < files; i++) {
            const struct wire_manifest_file *a = &sample.manifest.files[i];
            const struct wire_manifest_file *b = &back.files[i];
            assert_int_equal(a->kind, b->kind);
            assert_true(base_str_equal(a->name, b->name) && a->bytes == b->bytes);
            assert_true(wire_sha256_equal(&a->digest, &b->digest));
        }
        if (round < 5) {
            wire_damage(&prng, bytes, size, wire_check_manifest);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_documented),
        cmocka_unit_test(file_names),
        cmocka_unit_test(rules_of_the_whole),
        cmocka_unit_test(exclusive_files_have_a_root),
        cmocka_unit_test(other_magic_and_sizes_are_refused),
        cmocka_unit_test(what_was_judged_is_read_again),
        cmocka_unit_test(random_manifests_round_trip_and_survive_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The cache of packed weights: one fill per entry, whoever asks and from however many threads.
#include "test_kit.h"

#include "backend/pack.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 8
#define KEYS    37
#define ROUNDS  20

struct source {
    uint64_t value; // what every word of the entry must be
    size_t words;
    atomic_uint fills;
};

static void fill_words(void *ctx, void *out)
{
    struct source *source = ctx;
    atomic_fetch_add(&source->fills, 1);
    uint64_t *words = out;
    for (size_t i = 0; i < source->words; i++) {
        words[i] = source->value;
    }
}

static struct eng_pack_content content_of(struct source *source)
{
    return (struct eng_pack_content){source->words * sizeof(uint64_t), fill_words, source};
}

static const uint64_t *get(struct eng_pack_cache *cache, struct source *source, uint64_t form)
{
    struct eng_pack_key key = {.identity = source, .form = form, .a = 3, .b = 4};
    const struct eng_pack_content content = content_of(source);
    const void *out = NULL;
    assert_int_equal(eng_pack_get(cache, &key, &content, &out), BASE_OK);
    return out;
}

static void an_entry_is_filled_once(void **state)
{
    (void)state;
    struct eng_pack_cache *cache = NULL;
    assert_int_equal(eng_pack_cache_new(&cache), BASE_OK);
    struct source one = {.value = 11, .words = 100};
    struct source two = {.value = 22, .words = 3};
    const uint64_t *a = get(cache, &one, 1);
    const uint64_t *b = get(cache, &two, 1);
    const uint64_t *c = get(cache, &one, 2);
    assert_int_equal((uintptr_t)a % 64, 0);
    assert_int_equal((uintptr_t)b % 64, 0);
    assert_ptr_not_equal(a, c); // another form of the same weights
    assert_ptr_equal(a, get(cache, &one, 1));
    assert_int_equal(one.fills, 2);
    assert_int_equal(two.fills, 1);
    assert_int_equal(a[99], 11);
    assert_int_equal(b[2], 22);
    assert_int_equal(eng_pack_bytes(cache), (100 + 3 + 100) * sizeof(uint64_t));
    assert_true(eng_pack_has(cache, &one));
    assert_true(eng_pack_has(cache, &two));
    assert_false(eng_pack_has(cache, &cache));
    eng_pack_cache_free(cache);
}

static void each_part_of_a_key_counts(void **state)
{
    (void)state;
    struct eng_pack_cache *cache = NULL;
    assert_int_equal(eng_pack_cache_new(&cache), BASE_OK);
    struct source source = {.value = 5, .words = 1};
    const struct eng_pack_key keys[] = {
        {.identity = &source, .form = 1, .a = 1, .b = 1},
        {.identity = &source, .form = 2, .a = 1, .b = 1},
        {.identity = &source, .form = 1, .a = 2, .b = 1},
        {.identity = &source, .form = 1, .a = 1, .b = 2},
        {.identity = &cache, .form = 1, .a = 1, .b = 1},
    };
    struct eng_pack_content content = content_of(&source);
    const void *seen[TEST_COUNT(keys)];
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        assert_int_equal(eng_pack_get(cache, &keys[i], &content, &seen[i]), BASE_OK);
        for (size_t j = 0; j < i; j++) {
            assert_ptr_not_equal(seen[i], seen[j]);
        }
    }
    assert_int_equal(source.fills, TEST_COUNT(keys));
    // The same key with another size is a mistake of the caller's, and memory stays what it was.
    const void *out = NULL;
    content.bytes = 16;
    assert_int_equal(eng_pack_get(cache, &keys[0], &content, &out), BASE_ERR_BUG);
    assert_null(out);
    eng_pack_cache_free(cache);
    eng_pack_cache_free(NULL);
}

static void absurd_sizes_give_nomem(void **state)
{
    (void)state;
    struct eng_pack_cache *cache = NULL;
    assert_int_equal(eng_pack_cache_new(&cache), BASE_OK);
    struct source source = {.value = 5, .words = 1};
    struct eng_pack_key key = {.identity = &source};
    struct eng_pack_content content = content_of(&source);
    content.bytes = SIZE_MAX;
    const void *out = NULL;
    assert_int_equal(eng_pack_get(cache, &key, &content, &out), BASE_ERR_NOMEM);
    assert_int_equal(source.fills, 0);
    assert_int_equal(eng_pack_bytes(cache), 0);
    source.words = 0;
    content.bytes = 0;
    assert_int_equal(eng_pack_get(cache, &key, &content, &out), BASE_OK);
    assert_non_null(out);
    eng_pack_cache_free(cache);
}

struct crowd {
    struct eng_pack_cache *cache;
    struct source *sources;
    pthread_barrier_t start;
    atomic_uint wrong;
};

static void *ask_for_all(void *ctx)
{
    struct crowd *crowd = ctx;
    (void)pthread_barrier_wait(&crowd->start);
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < KEYS; i++) {
            struct source *source = &crowd->sources[i];
            struct eng_pack_key key = {.identity = source, .form = round % 2};
            const struct eng_pack_content content = content_of(source);
            const void *out = NULL;
            if (eng_pack_get(crowd->cache, &key, &content, &out) != BASE_OK) {
                atomic_fetch_add(&crowd->wrong, 1);
                continue;
            }
            const uint64_t *words = out;
            for (size_t j = 0; j < source->words; j++) {
                if (words[j] != source->value) {
                    atomic_fetch_add(&crowd->wrong, 1);
                }
            }
        }
    }
    return NULL;
}

static void threads_share_what_one_packs(void **state)
{
    (void)state;
    struct crowd crowd = {0};
    assert_int_equal(eng_pack_cache_new(&crowd.cache), BASE_OK);
    static struct source sources[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        sources[i].value = i * 1000003;
        sources[i].words = 50 + i * 13;
    }
    crowd.sources = sources;
    assert_int_equal(pthread_barrier_init(&crowd.start, NULL, THREADS), 0);
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_for_all, &crowd), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(crowd.wrong, 0);
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(sources[i].fills, 2); // two forms
    }
    (void)pthread_barrier_destroy(&crowd.start);
    eng_pack_cache_free(crowd.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_filled_once),
        cmocka_unit_test(each_part_of_a_key_counts),
        cmocka_unit_test(absurd_sizes_give_nomem),
        cmocka_unit_test(threads_share_what_one_packs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

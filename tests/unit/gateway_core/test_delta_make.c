// Deltas as the gateway makes them and the device reads them: what comes out is the new content,
// for any two contents; they are the same each time, as small as they are meant to be, and made
// and read in bounded memory; a damaged one never crashes; without memory there is none.
#include "test_kit.h"

#include "failing_heap.h"

#include "device/port.h"
#include "svc/content/delta_make.h"
#include "wire/delta_piece.h"

#include <zstd.h>

#define SEED            20261123u
#define PAIRS           60u
#define DAMAGES         400u
#define FLOATS          (256u * 1024)
#define LARGE           (9u * 1024 * 1024)
#define LOW_MEMORY      (3u * 1024 * 1024)
#define LOW_ALLOCATIONS 64u

typedef enum base_status (*make_fn)(const struct gw_dictionary *dictionary, const uint8_t *bytes,
                                    size_t size, uint8_t **out_bytes, size_t *out_size);

struct content {
    uint8_t *bytes;
    size_t size;
};

static struct content content_new(size_t size)
{
    struct content content = {malloc(size > 0 ? size : 1), size};
    assert_non_null(content.bytes);
    return content;
}

static struct gw_dictionary dictionary_of(struct content old)
{
    return (struct gw_dictionary){.digest = {{1, 2, 3}}, .bytes = old.bytes, .size = old.size};
}

static struct dev_delta_input input_of(struct content old, struct content delta, size_t expected,
                                       uint64_t memory_max)
{
    return (struct dev_delta_input){.dictionary = {{1, 2, 3}},
                                    .old_bytes = old.bytes,
                                    .old_size = old.size,
                                    .bytes = delta.bytes,
                                    .size = delta.size,
                                    .expected = expected,
                                    .memory_max = memory_max};
}

// Decodes as the runtime does. The status of the first call that failed; OK only when `fresh` came
// out and nothing else.
static enum base_status decode(const struct dev_delta_input *input, const uint8_t *fresh)
{
    struct dev_delta_port port = dev_delta_zstd(input->memory_max);
    void *decoder = NULL;
    size_t at = 0;
    enum base_status status = port.begin(input, &decoder);
    if (status != BASE_OK) {
        return status;
    }
    for (;;) {
        const uint8_t *bytes = NULL;
        size_t size = 0;
        status = port.next(decoder, &bytes, &size);
        if (status != BASE_OK || size == 0) {
            break;
        }
        if (size > input->expected - at || memcmp(fresh + at, bytes, size) != 0) {
            status = BASE_ERR_HASH;
            break;
        }
        at += size;
    }
    port.end(decoder);
    return status == BASE_OK && at != input->expected ? BASE_ERR_CORRUPT : status;
}

// ---- Contents

static struct content weights(uint64_t seed, size_t count, size_t lead)
{
    struct base_prng prng;
    struct content out = content_new(lead + count * sizeof(float));
    base_prng_seed(&prng, seed);
    memset(out.bytes, 'h', lead);
    for (size_t i = 0; i < count; i++) {
        float value = 0;
        for (int k = 0; k < 4; k++) {
            value += (float)base_prng_below(&prng, 1u << 22) / (float)(1u << 24) - 0.125f;
        }
        memcpy(out.bytes + lead + i * sizeof(value), &value, sizeof(value));
    }
    return out;
}

// Every weight behind `lead` moved a little; `more` bytes come in front.
static struct content moved(struct content old, size_t lead, size_t more, uint64_t seed)
{
    struct base_prng prng;
    struct content out = content_new(old.size + more);
    base_prng_seed(&prng, seed);
    memset(out.bytes, 'n', more);
    memcpy(out.bytes + more, old.bytes, old.size);
    for (size_t at = lead; at + sizeof(float) <= old.size; at += sizeof(float)) {
        float value;
        memcpy(&value, old.bytes + at, sizeof(value));
        value += ((float)base_prng_below(&prng, 1u << 22) / (float)(1u << 21) - 1.0f) * 1e-4f;
        memcpy(out.bytes + more + at, &value, sizeof(value));
    }
    return out;
}

// Some content, and what became of it: changed in places, moved, cut, longer, or another.
static void random_pair(struct base_prng *prng, struct content *old, struct content *fresh)
{
    uint64_t kind = base_prng_below(prng, 5);
    size_t size = 200 + base_prng_below(prng, 40000);
    *old = weights(base_prng_next(prng), size / 4, base_prng_below(prng, 7));
    *fresh = kind == 0 ? weights(base_prng_next(prng), size / 8, 3)
                       : moved(*old, kind == 1 ? old->size : base_prng_below(prng, 9),
                               kind < 3 ? 0 : base_prng_below(prng, 300), base_prng_next(prng));
    for (uint64_t i = base_prng_below(prng, 30); i > 0; i--) {
        fresh->bytes[base_prng_below(prng, fresh->size)] = (uint8_t)i;
    }
    if (kind == 4) {
        fresh->size -= base_prng_below(prng, fresh->size / 2);
    }
}

// ---- Tests

// 0: it does not pay.
static size_t made_and_read(make_fn make, struct content old, struct content fresh)
{
    struct gw_dictionary dictionary = dictionary_of(old);
    struct content delta = {0};
    struct content again = {0};
    enum base_status status = make(&dictionary, fresh.bytes, fresh.size, &delta.bytes, &delta.size);
    if (status == BASE_ERR_UNSUPPORTED) {
        return 0;
    }
    assert_int_equal(status, BASE_OK);
    assert_true(delta.size <= fresh.size - fresh.size / 10);
    struct dev_delta_input input = input_of(old, delta, fresh.size, DEV_DELTA_MEMORY_BYTES);
    assert_int_equal(decode(&input, fresh.bytes), BASE_OK);
    assert_int_equal(make(&dictionary, fresh.bytes, fresh.size, &again.bytes, &again.size),
                     BASE_OK);
    assert_int_equal(again.size, delta.size);
    assert_memory_equal(again.bytes, delta.bytes, delta.size);
    free(delta.bytes);
    free(again.bytes);
    return delta.size;
}

static void every_pair_comes_back(void **state)
{
    (void)state;
    struct base_prng prng;
    uint32_t paid = 0;
    print_message("seed %u\n", SEED);
    base_prng_seed(&prng, SEED);
    for (uint32_t i = 0; i < PAIRS; i++) {
        struct content old;
        struct content fresh;
        random_pair(&prng, &old, &fresh);
        paid += made_and_read(gw_wdelta_make, old, fresh) > 0 ? 1 : 0;
        (void)made_and_read(gw_dcz_compress, old, fresh);
        free(old.bytes);
        free(fresh.bytes);
    }
    assert_true(paid > PAIRS / 2);
}

// Each weight moves by less than 1e-4 of values around 0.1: 15 of 32 bits are news, and no more
// than 17 are told. dcz finds nothing. A header that grew by an odd number changes that little.
static void weights_that_all_moved_are_told_by_their_difference(void **state)
{
    (void)state;
    static const struct {
        size_t lead;
        size_t more;
    } cases[] = {{0, 0}, {1003, 0}, {16, 37}, {1, 4096}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct content old = weights(i, FLOATS, cases[i].lead);
        struct content fresh = moved(old, cases[i].lead, cases[i].more, 100 + i);
        size_t size = made_and_read(gw_wdelta_make, old, fresh);
        print_message("%zu and %zu more: %zu of %zu\n", cases[i].lead, cases[i].more, size,
                      fresh.size);
        assert_true(size > 0 && size <= fresh.size * 17 / 32);
        free(old.bytes);
        free(fresh.bytes);
    }
}

// Half precision, by cutting each number: the upper halves of these floats are bfloat16.
static void halves_are_told_by_their_difference(void **state)
{
    (void)state;
    struct content old = weights(5, FLOATS, 0);
    struct content fresh = moved(old, 0, 0, 6);
    for (size_t i = 0; i < FLOATS; i++) {
        memmove(old.bytes + 2 * i, old.bytes + 4 * i + 2, 2);
        memmove(fresh.bytes + 2 * i, fresh.bytes + 4 * i + 2, 2);
    }
    old.size = 2 * FLOATS;
    fresh.size = 2 * FLOATS;
    size_t size = made_and_read(gw_wdelta_make, old, fresh);
    size_t dcz = made_and_read(gw_dcz_compress, old, fresh);
    print_message("%zu of %zu, dcz %zu\n", size, fresh.size, dcz);
    assert_true(size > 0 && (dcz == 0 || size < dcz / 2));
    free(old.bytes);
    free(fresh.bytes);
}

// One weight in a hundred is another: seven bits tell where, 27 what.
static void few_weights_are_told_alone(void **state)
{
    (void)state;
    struct base_prng prng;
    struct content old = weights(7, FLOATS, 0);
    struct content fresh = moved(old, old.size, 0, 0);
    struct content others = weights(8, FLOATS / 100, 0);
    base_prng_seed(&prng, 9);
    for (size_t i = 0; i < FLOATS / 100; i++) {
        memcpy(fresh.bytes + 4 * base_prng_below(&prng, FLOATS), others.bytes + 4 * i, 4);
    }
    size_t size = made_and_read(gw_wdelta_make, old, fresh);
    size_t dcz = made_and_read(gw_dcz_compress, old, fresh);
    print_message("%zu of %zu, dcz %zu\n", size, fresh.size, dcz);
    assert_true(size > 0 && size < FLOATS / 100 * 5 && size < dcz);
    free(old.bytes);
    free(fresh.bytes);
    free(others.bytes);
}

// Noise above 8 MiB with a few bytes changed, the last at the end: the old content has to be in
// reach all the way, in each coding.
static void large_content_keeps_the_old_in_reach(void **state)
{
    (void)state;
    struct base_prng prng;
    struct content old = content_new(LARGE);
    base_prng_seed(&prng, 10);
    for (size_t i = 0; i < LARGE; i += sizeof(uint64_t)) {
        uint64_t value = base_prng_next(&prng);
        memcpy(old.bytes + i, &value, sizeof(value));
    }
    struct content fresh = moved(old, old.size, 0, 0);
    for (size_t i = 0; i < 10; i++) {
        fresh.bytes[LARGE / 10 * (i + 1) - 1] ^= 0x5a;
    }
    size_t dcz = made_and_read(gw_dcz_compress, old, fresh);
    size_t pieces = made_and_read(gw_wdelta_make, old, fresh);
    print_message("dcz %zu, pieces %zu\n", dcz, pieces);
    assert_true(dcz > 0 && dcz < 4000);
    assert_true(pieces > 0 && pieces < 4000);
    free(old.bytes);
    free(fresh.bytes);
}

// RFC 9842, section 6: nobody has to hold a window above 1.25 times the dictionary, or 8 MiB.
static void windows_stay_within_the_rfc(void **state)
{
    (void)state;
    struct content fresh = content_new(LARGE + LARGE / 4);
    struct content old = {fresh.bytes, 1024 * 1024};
    struct gw_dictionary dictionary = dictionary_of(old);
    struct content delta = {0};
    memset(fresh.bytes, 'a', fresh.size);
    assert_int_equal(
        gw_dcz_compress(&dictionary, fresh.bytes, fresh.size, &delta.bytes, &delta.size), BASE_OK);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    assert_non_null(context);
    assert_false(ZSTD_isError(ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, 23)));
    assert_false(ZSTD_isError(ZSTD_DCtx_refPrefix(context, old.bytes, old.size)));
    ZSTD_inBuffer in = {delta.bytes + GW_DCZ_HEAD_BYTES, delta.size - GW_DCZ_HEAD_BYTES, 0};
    uint8_t byte;
    ZSTD_outBuffer out = {&byte, 1, 0};
    assert_false(ZSTD_isError(ZSTD_decompressStream(context, &out, &in)));
    ZSTD_freeDCtx(context);
    struct dev_delta_input input = input_of(old, delta, fresh.size, DEV_DELTA_MEMORY_BYTES);
    assert_int_equal(decode(&input, fresh.bytes), BASE_OK);
    free(delta.bytes);
    free(fresh.bytes);
}

// A device with little memory says so, and does not begin what needs more.
static void little_memory_is_enough_for_pieces(void **state)
{
    (void)state;
    struct dev_delta_port port = dev_delta_zstd(LOW_MEMORY);
    assert_int_equal(port.codings(&port, LARGE, LARGE), DEV_DELTA_PIECES);
    assert_int_equal(port.codings(&port, LARGE, 1024 * 1024), DEV_DELTA_PIECES | DEV_DELTA_DCZ);
    port = dev_delta_zstd(1024 * 1024);
    assert_int_equal(port.codings(&port, LARGE, LARGE), 0);
    port = dev_delta_zstd(DEV_DELTA_MEMORY_BYTES);
    assert_int_equal(port.codings(&port, 256u << 20, 256u << 20), DEV_DELTA_PIECES | DEV_DELTA_DCZ);

    struct content old = content_new(LARGE);
    memset(old.bytes, 'a', LARGE);
    struct gw_dictionary dictionary = dictionary_of(old);
    struct content delta = {0};
    assert_int_equal(gw_dcz_compress(&dictionary, old.bytes, old.size, &delta.bytes, &delta.size),
                     BASE_OK);
    struct dev_delta_input input = input_of(old, delta, old.size, LOW_MEMORY);
    assert_int_equal(decode(&input, old.bytes), BASE_ERR_LIMIT);
    free(delta.bytes);
    assert_int_equal(gw_wdelta_make(&dictionary, old.bytes, old.size, &delta.bytes, &delta.size),
                     BASE_OK);
    input = input_of(old, delta, old.size, LOW_MEMORY);
    assert_int_equal(decode(&input, old.bytes), BASE_OK);
    input.memory_max = 1024 * 1024;
    assert_int_equal(decode(&input, old.bytes), BASE_ERR_LIMIT);
    free(delta.bytes);
    free(old.bytes);
}

// Cut anywhere, or with a byte changed: it is refused, or makes other content, which its hash
// tells; and it never reads or writes where it may not.
static void damage_is_survived(void **state)
{
    (void)state;
    struct base_prng prng;
    static const make_fn makers[] = {gw_wdelta_make, gw_dcz_compress};
    base_prng_seed(&prng, SEED + 2);
    for (size_t m = 0; m < TEST_COUNT(makers); m++) {
        struct content old = weights(11, 6000, 5);
        struct content fresh = moved(old, 20000, 0, 12);
        struct gw_dictionary dictionary = dictionary_of(old);
        struct content delta = {0};
        assert_int_equal(makers[m](&dictionary, fresh.bytes, fresh.size, &delta.bytes, &delta.size),
                         BASE_OK);
        for (uint32_t i = 0; i < DAMAGES; i++) {
            size_t size = i % 2 == 0 ? base_prng_below(&prng, delta.size) : delta.size;
            struct content copy = content_new(size);
            memcpy(copy.bytes, delta.bytes, size);
            if (i % 2 == 1) {
                copy.bytes[base_prng_below(&prng, size)] ^=
                    (uint8_t)(1 + base_prng_below(&prng, 255));
            }
            struct dev_delta_input input = input_of(old, copy, fresh.size, DEV_DELTA_MEMORY_BYTES);
            enum base_status status = decode(&input, fresh.bytes);
            assert_true(i % 2 == 1 || status != BASE_OK);
            free(copy.bytes);
        }
        free(delta.bytes);
        free(old.bytes);
        free(fresh.bytes);
    }
}

static void without_memory_there_is_none(void **state)
{
    (void)state;
    static const make_fn makers[] = {gw_wdelta_make, gw_dcz_compress};
    struct content old = weights(13, 20000, 0);
    struct content fresh = moved(old, 40000, 0, 14);
    struct gw_dictionary dictionary = dictionary_of(old);
    for (size_t m = 0; m < TEST_COUNT(makers); m++) {
        size_t allowed = 0;
        for (;; allowed++) {
            struct content delta = {0};
            long live = failing_heap_live();
            failing_heap_arm(allowed, false);
            enum base_status status =
                makers[m](&dictionary, fresh.bytes, fresh.size, &delta.bytes, &delta.size);
            (void)failing_heap_disarm();
            assert_int_equal(failing_heap_live() - live, status == BASE_OK ? 1 : 0);
            free(delta.bytes);
            if (status == BASE_OK) {
                break;
            }
            assert_int_equal(status, BASE_ERR_NOMEM);
            assert_true(allowed < LOW_ALLOCATIONS);
        }
        assert_true(allowed > 0);
    }
    free(old.bytes);
    free(fresh.bytes);
}

static bool counts_down(void *ctx)
{
    uint32_t *left = ctx;
    return (*left)-- == 0;
}

// A process that ends does not wait for what is half made.
static void it_stops_on_the_way(void **state)
{
    (void)state;
    struct content old = weights(15, 2 * FLOATS, 0);
    struct content fresh = moved(old, 0, 0, 16);
    for (uint32_t asked = 0; asked < 6; asked++) {
        uint32_t left = asked;
        struct content delta = {0};
        struct gw_dictionary dictionary = dictionary_of(old);
        dictionary.stopping = counts_down;
        dictionary.ctx = &left;
        long live = failing_heap_live();
        enum base_status status =
            gw_wdelta_make(&dictionary, fresh.bytes, fresh.size, &delta.bytes, &delta.size);
        assert_int_equal(status, asked < 4 ? BASE_ERR_BUSY : BASE_OK); // 4 stretches of 512 KiB
        free(delta.bytes);
        assert_int_equal(failing_heap_live(), live);
    }
    free(old.bytes);
    free(fresh.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_comes_back),
        cmocka_unit_test(weights_that_all_moved_are_told_by_their_difference),
        cmocka_unit_test(halves_are_told_by_their_difference),
        cmocka_unit_test(few_weights_are_told_alone),
        cmocka_unit_test(large_content_keeps_the_old_in_reach),
        cmocka_unit_test(windows_stay_within_the_rfc),
        cmocka_unit_test(little_memory_is_enough_for_pieces),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(without_memory_there_is_none),
        cmocka_unit_test(it_stops_on_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

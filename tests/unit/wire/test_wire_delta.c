// Pieces of deltas: what was split joins again in every form, whatever the two contents are; heads
// that lie are refused, and so are gaps that lead astray.
#include "test_kit.h"

#include "wire/delta_piece.h"

#define BYTES_MAX 6000u
#define PAIRS     3000u
#define HEADS     200000u
#define SEED      20261123u

static const uint8_t forms[] = {
    WIRE_DELTA_COPY,
    WIRE_DELTA_BYTES,
    WIRE_DELTA_F16,
    WIRE_DELTA_BF16,
    WIRE_DELTA_F32,
    WIRE_DELTA_BYTES | WIRE_DELTA_WHOLE,
    WIRE_DELTA_F16 | WIRE_DELTA_WHOLE,
    WIRE_DELTA_F32 | WIRE_DELTA_WHOLE,
    WIRE_DELTA_BYTES | WIRE_DELTA_SPARSE,
    WIRE_DELTA_F16 | WIRE_DELTA_SPARSE,
    WIRE_DELTA_BF16 | WIRE_DELTA_SPARSE,
    WIRE_DELTA_F32 | WIRE_DELTA_SPARSE,
    WIRE_DELTA_BYTES | WIRE_DELTA_SPARSE | WIRE_DELTA_WHOLE,
    WIRE_DELTA_F32 | WIRE_DELTA_SPARSE | WIRE_DELTA_WHOLE,
};

static uint8_t payload[WIRE_DELTA_PIECE_BYTES_MAX];

// A copy as large as what it holds: a byte too far is seen.
static uint8_t *exactly(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    return copy;
}

// Old content and new: equal but for one byte in `rarity`.
static void make_pair(struct base_prng *prng, uint32_t rarity, size_t size, uint8_t *old,
                      uint8_t *fresh)
{
    for (size_t i = 0; i < size; i++) {
        old[i] = (uint8_t)base_prng_next(prng);
        bool changes = base_prng_below(prng, rarity) == 0;
        fresh[i] = changes ? (uint8_t)base_prng_next(prng) : old[i];
    }
}

static void there_and_back(uint8_t form, const uint8_t *old, const uint8_t *fresh, uint32_t size)
{
    struct wire_delta_piece piece = {.form = form, .bytes = size};
    struct wire_delta_piece back;
    uint8_t head[WIRE_DELTA_PIECE_HEAD_MAX];
    uint8_t made[BYTES_MAX];
    struct base_writer writer;
    struct base_reader reader;
    uint64_t sent = 7;
    uint64_t got = 7;
    piece.from = wire_delta_uses_old(form) ? 100 : 0;
    assert_int_equal(wire_delta_split(&piece, old, fresh, payload), BASE_OK);
    base_writer_init(&writer, head, sizeof(head));
    wire_delta_piece_write(&writer, &piece, &sent);
    assert_int_equal(writer.status, BASE_OK);
    for (size_t cut = 0; cut < base_writer_size(&writer); cut++) {
        base_reader_init(&reader, head, cut);
        assert_int_equal(wire_delta_piece_read(&reader, 100 + size, &got, &back),
                         BASE_ERR_TRUNCATED);
        assert_int_equal(base_reader_offset(&reader), 0);
    }
    base_reader_init(&reader, head, base_writer_size(&writer));
    assert_int_equal(wire_delta_piece_read(&reader, 100 + size, &got, &back), BASE_OK);
    assert_int_equal(base_reader_left(&reader), 0);
    assert_memory_equal(&back, &piece, sizeof(piece));
    assert_int_equal(sent, got);
    uint8_t *sealed = exactly(payload, wire_delta_payload_bytes(&piece));
    assert_int_equal(wire_delta_join(&back, old, sealed, made), BASE_OK);
    assert_memory_equal(made, form == WIRE_DELTA_COPY ? old : fresh, size);
    free(sealed);
}

static void every_pair_comes_back(void **state)
{
    (void)state;
    struct base_prng prng;
    uint8_t old[BYTES_MAX];
    uint8_t fresh[BYTES_MAX];
    print_message("seed %u\n", SEED);
    base_prng_seed(&prng, SEED);
    for (uint32_t i = 0; i < PAIRS; i++) {
        uint8_t form = forms[i % TEST_COUNT(forms)];
        uint32_t rarity = 1 + (uint32_t)base_prng_below(&prng, i % 3 == 0 ? 2 : 2000);
        uint32_t size = 4 + (uint32_t)base_prng_below(&prng, BYTES_MAX - 4);
        size -= size % wire_delta_width(form);
        make_pair(&prng, rarity, size, old, fresh);
        uint8_t *exact_old = exactly(old, size);
        uint8_t *exact_fresh = exactly(fresh, size);
        there_and_back(form, exact_old, exact_fresh, size);
        free(exact_old);
        free(exact_fresh);
    }
}

// All that changed is told in place of more than there is room for.
static void too_many_changes_are_refused(void **state)
{
    (void)state;
    size_t size = WIRE_DELTA_PIECE_BYTES_MAX;
    uint8_t *old = calloc(1, size);
    uint8_t *fresh = malloc(size);
    assert_non_null(old);
    assert_non_null(fresh);
    memset(fresh, 1, size);
    struct wire_delta_piece piece = {.form = WIRE_DELTA_BYTES | WIRE_DELTA_SPARSE,
                                     .bytes = (uint32_t)size};
    assert_int_equal(wire_delta_split(&piece, old, fresh, payload), BASE_ERR_TOO_LARGE);
    memcpy(fresh, old, size);
    assert_int_equal(wire_delta_split(&piece, old, fresh, payload), BASE_OK);
    assert_int_equal(piece.changed, 0);
    free(old);
    free(fresh);
}

// Numbers stand by the exponent of the old element, and otherwise in order.
static void numbers_are_sorted_by_exponent(void **state)
{
    (void)state;
    static const float old[] = {4.0f, 0.5f, 4.5f, 0.25f};
    static const float fresh[] = {4.0f, 0.5f, 4.5f, 0.25f};
    uint32_t moved[4];
    uint32_t ends[WIRE_DELTA_CLASSES];
    memcpy(moved, fresh, sizeof(moved));
    for (uint32_t i = 0; i < 4; i++) {
        moved[i] += i + 1;
    }
    struct wire_delta_piece piece = {.form = WIRE_DELTA_F32, .bytes = sizeof(moved)};
    assert_int_equal(
        wire_delta_split(&piece, (const uint8_t *)old, (const uint8_t *)moved, payload), BASE_OK);
    static const uint8_t wanted[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 4, 2, 6};
    assert_memory_equal(payload, wanted, sizeof(wanted));
    wire_delta_class_ends(&piece, (const uint8_t *)old, payload, ends);
    assert_int_equal(ends[125 - 1], 0);
    assert_int_equal(ends[125], 1); // 0.25
    assert_int_equal(ends[126], 2); // 0.5
    assert_int_equal(ends[129], 4); // 4 to 8
    assert_int_equal(ends[255], 4);
}

struct hostile {
    const char *what;
    struct wire_delta_piece piece;
    uint8_t gaps[4];
};

static void gaps_that_lead_astray_are_refused(void **state)
{
    (void)state;
    static const struct hostile cases[] = {
        {"behind the end", {WIRE_DELTA_SPARSE, 8, 0, 1, 1}, {8}},
        {"far behind", {WIRE_DELTA_SPARSE, 8, 0, 1, 4}, {255, 255, 255, 0}},
        {"more changed than said", {WIRE_DELTA_SPARSE, 8, 0, 1, 2}, {0, 0}},
        {"no end of a gap", {WIRE_DELTA_SPARSE, 8, 0, 1, 2}, {0, 255}},
        {"nothing but the beginning of one", {WIRE_DELTA_SPARSE, 8, 0, 0, 1}, {255}},
        {"the second behind the end", {WIRE_DELTA_SPARSE, 8, 0, 2, 2}, {7, 0}},
    };
    uint8_t old[8] = {0};
    uint8_t made[8];
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        uint8_t bytes[16] = {0};
        memcpy(bytes, cases[i].gaps, sizeof(cases[i].gaps));
        uint8_t *sealed = exactly(bytes, wire_delta_payload_bytes(&cases[i].piece));
        print_message("%s\n", cases[i].what);
        assert_int_equal(wire_delta_join(&cases[i].piece, old, sealed, made), BASE_ERR_CORRUPT);
        free(sealed);
    }
}

// Whatever a head says, a piece that is accepted stays within the old content and the room.
static void heads_that_lie_are_refused(void **state)
{
    (void)state;
    struct base_prng prng;
    uint32_t accepted = 0;
    base_prng_seed(&prng, SEED + 1);
    for (uint32_t i = 0; i < HEADS; i++) {
        uint8_t head[WIRE_DELTA_PIECE_HEAD_MAX];
        struct base_reader reader;
        struct wire_delta_piece piece;
        uint64_t old_size = base_prng_below(&prng, 3) * 1000;
        uint64_t cursor = base_prng_below(&prng, old_size + 1);
        for (size_t k = 0; k < sizeof(head); k++) {
            head[k] = (uint8_t)(base_prng_next(&prng) >> (base_prng_next(&prng) % 7));
        }
        head[0] = i % 2 == 0 ? forms[base_prng_below(&prng, TEST_COUNT(forms))] : head[0];
        base_reader_init(&reader, head, base_prng_below(&prng, sizeof(head) + 1));
        if (wire_delta_piece_read(&reader, old_size, &cursor, &piece) != BASE_OK) {
            continue;
        }
        accepted++;
        assert_true(piece.bytes > 0 && piece.bytes <= WIRE_DELTA_PIECE_BYTES_MAX);
        assert_true(wire_delta_payload_bytes(&piece) <= WIRE_DELTA_PIECE_BYTES_MAX);
        assert_true(!wire_delta_uses_old(piece.form) ||
                    (piece.from <= old_size && piece.bytes <= old_size - piece.from));
    }
    assert_true(accepted > HEADS / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_comes_back),
        cmocka_unit_test(too_many_changes_are_refused),
        cmocka_unit_test(numbers_are_sorted_by_exponent),
        cmocka_unit_test(gaps_that_lead_astray_are_refused),
        cmocka_unit_test(heads_that_lie_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

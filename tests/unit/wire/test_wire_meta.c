// Snapshot, timestamp, director and the question: round trips and damage, order, limits, look-ups.
#include "wire_damage.h"
#include "wire_samples.h"

static void entries_fill(struct base_prng *prng, struct wire_snapshot_entry *entries,
                         uint32_t count)
{
    uint64_t task = 1;
    uint64_t counter = 1;
    for (uint32_t i = 0; i < count; i++) {
        bool same = base_prng_below(prng, 3) == 0;
        task += same ? 0 : 1 + base_prng_below(prng, 1000);
        counter = same ? counter + 1 : 1 + base_prng_below(prng, 300);
        entries[i] = (struct wire_snapshot_entry){task, counter, wire_sample_sha(prng)};
    }
}

static void snapshots_round_trip_and_survive_damage(void **state)
{
    (void)state;
    static struct wire_snapshot_entry entries[300];
    static uint8_t bytes[20000];
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t count = 0; count <= 300; count += 1 + count / 4) {
        struct wire_snapshot snapshot = {
            .scenario = BASE_STR("shop"), .version = 4, .issued_s = 5, .expires_s = 6};
        struct wire_snapshot back;
        size_t size = 0;
        uint64_t highest = 0;
        entries_fill(&prng, entries, count);
        snapshot.count = count;
        assert_int_equal(wire_snapshot_encode(&snapshot, entries, bytes, sizeof bytes, &size),
                         BASE_OK);
        assert_int_equal(wire_snapshot_parse(bytes, size, &back), BASE_OK);
        assert_int_equal(back.count, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(wire_snapshot_lists(&back, &entries[i], &highest));
            assert_true(highest >= entries[i].counter);
            struct wire_snapshot_entry other = entries[i];
            other.manifest.bytes[0] ^= 1;
            assert_false(wire_snapshot_lists(&back, &other, &highest));
        }
        if (count > 0 && count < 6) {
            wire_damage(&prng, bytes, size, wire_check_snapshot);
        }
    }
}

static void snapshots_are_in_order(void **state)
{
    (void)state;
    struct wire_snapshot_entry entries[2] = {{2, 1, {{1}}}, {2, 1, {{2}}}};
    struct wire_snapshot snapshot = {
        .scenario = BASE_STR("shop"), .version = 1, .expires_s = 1, .count = 2};
    uint8_t bytes[300];
    size_t size = 0;
    assert_int_equal(wire_snapshot_encode(&snapshot, entries, bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID); // one counter twice
    entries[1].task_id = 1;
    assert_int_equal(wire_snapshot_encode(&snapshot, entries, bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID);
    entries[1] = (struct wire_snapshot_entry){3, 0, {{1}}};
    assert_int_equal(wire_snapshot_encode(&snapshot, entries, bytes, sizeof bytes, &size),
                     BASE_ERR_INVALID); // counter 0
    snapshot.count = WIRE_SNAPSHOT_ENTRIES_MAX + 1;
    assert_int_equal(wire_snapshot_encode(&snapshot, entries, bytes, sizeof bytes, &size),
                     BASE_ERR_TOO_LARGE);
}

static void scenarios_come_from_task_names(void **state)
{
    (void)state;
    const struct {
        const char *task;
        const char *scenario;
    } rows[] = {{"shop/page-view", "shop"},
                {"shop/a/b", "shop"},
                {"ipv", "default"},
                {"0.a_b-c/x", "0.a_b-c"},
                {"a23456789012345678901234567890123/x", ""}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct base_str scenario = wire_scenario_of(base_str_of(rows[i].task));
        assert_true(base_str_equal(scenario, base_str_of(rows[i].scenario)));
    }
}

static void timestamp_fill(struct base_prng *prng, struct wire_timestamp *out, uint32_t scenarios,
                           uint32_t kills)
{
    static char names[WIRE_TIMESTAMP_SCENARIOS_MAX][8];
    memset(out, 0, sizeof *out);
    out->version = 1 + base_prng_below(prng, 1000);
    out->issued_s = 10;
    out->expires_s = 20;
    out->scenario_count = scenarios;
    for (uint32_t i = 0; i < scenarios; i++) {
        (void)snprintf(names[i], sizeof names[i], "s%03u", (unsigned)i);
        out->scenarios[i].name = base_str_of(names[i]);
        out->scenarios[i].version = 1 + i;
        out->scenarios[i].bytes = 1 + base_prng_below(prng, WIRE_SNAPSHOT_BYTES_MAX);
        out->scenarios[i].digest = wire_sample_sha(prng);
    }
    out->kill_count = kills;
    for (uint32_t i = 0; i < kills; i++) {
        out->kills[i] = wire_sample_sha(prng);
        out->kills[i].bytes[0] = (uint8_t)i;
    }
}

static void timestamps_round_trip_and_survive_damage(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t round = 0; round <= WIRE_TIMESTAMP_SCENARIOS_MAX; round++) {
        struct wire_timestamp timestamp;
        struct wire_timestamp back;
        uint8_t bytes[WIRE_META_BYTES_MAX];
        size_t size = 0;
        timestamp_fill(&prng, &timestamp, round, 2 * round);
        assert_int_equal(wire_timestamp_encode(&timestamp, bytes, sizeof bytes, &size), BASE_OK);
        assert_int_equal(wire_timestamp_parse(bytes, size, &back), BASE_OK);
        for (uint32_t i = 0; i < round; i++) {
            const struct wire_timestamp_scenario *found =
                wire_timestamp_scenario(&back, timestamp.scenarios[i].name);
            assert_non_null(found);
            assert_true(found->version == 1 + i);
            assert_true(wire_timestamp_kills(&back, &timestamp.kills[i]));
        }
        struct wire_sha256 other = wire_sample_sha(&prng);
        assert_false(wire_timestamp_kills(&back, &other));
        assert_null(wire_timestamp_scenario(&back, BASE_STR("other")));
        if (round < 4) {
            wire_damage(&prng, bytes, size, wire_check_timestamp);
        }
    }
}

// The most there may be fits the limit of an envelope, with eight signatures.
static void the_largest_fit(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    struct wire_timestamp timestamp;
    uint8_t bytes[WIRE_META_BYTES_MAX];
    size_t size = 0;
    timestamp_fill(&prng, &timestamp, WIRE_TIMESTAMP_SCENARIOS_MAX, WIRE_TIMESTAMP_KILLS_MAX);
    assert_int_equal(wire_timestamp_encode(&timestamp, bytes, sizeof bytes, &size), BASE_OK);
    size_t names = WIRE_TIMESTAMP_SCENARIOS_MAX * (WIRE_SCENARIO_MAX - 4);
    size_t frame = 9 + WIRE_STATEMENT_SIGNATURES * (WIRE_SHA256_BYTES + WIRE_SIGNATURE_BYTES);
    assert_true(size + names + frame <= WIRE_META_BYTES_MAX);

    struct wire_director director = {.issued_s = 1, .count = WIRE_DIRECTOR_ENTRIES_MAX};
    for (uint32_t i = 0; i < director.count; i++) {
        director.entries[i] = (struct wire_director_entry){
            UINT64_MAX - 100 + i, UINT64_MAX, WIRE_MANIFEST_BYTES_MAX, wire_sample_sha(&prng)};
    }
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_OK);
    assert_true(size + 9 + WIRE_SHA256_BYTES + WIRE_SIGNATURE_BYTES <= WIRE_STATEMENT_BYTES_MAX);

    // A mark takes a release's place, and less room; the first of them brings the byte of the
    // count.
    for (director.count--, director.again_count++; director.count > 0; director.count--) {
        director.again[director.again_count - 1] =
            (struct wire_again){director.again_count, UINT64_MAX, UINT8_MAX};
        size_t before = size;
        assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_OK);
        assert_true(size < before);
        assert_int_equal(wire_check_director(bytes, size), BASE_OK);
        director.again_count++;
    }
}

// An answer without marks is as it was before there were any; with marks it has at most as many
// entries in all.
static void marks_follow_the_entries(void **state)
{
    (void)state;
    struct wire_director director = {.issued_s = 1};
    struct wire_director back;
    uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
    size_t bare = 0;
    size_t size = 0;
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &bare), BASE_OK);
    assert_int_equal(bare, 69);
    assert_int_equal(wire_director_parse(bytes, bare, &back), BASE_OK);
    assert_int_equal(back.again_count, 0);
    bytes[bare] = 0; // a count of none
    assert_int_equal(wire_director_parse(bytes, bare + 1, &back), BASE_ERR_INVALID);

    director.again_count = 2;
    director.again[0] = (struct wire_again){7, 70, 1};
    director.again[1] = (struct wire_again){8, 80, 0};
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(size, bare + 1 + 2 * WIRE_AGAIN_BYTES);
    assert_int_equal(wire_director_parse(bytes, size, &back), BASE_OK);
    assert_int_equal(back.again_count, 2);
    assert_true(back.again[0].task_id == 7 && back.again[0].rollout_id == 70);
    assert_true(back.again[1].task_id == 8 && back.again[1].rollout_id == 80);
    assert_int_equal(back.again[0].attempt, 1);
    for (size_t cut = bare + 1; cut < size; cut++) {
        assert_int_equal(wire_director_parse(bytes, cut, &back), BASE_ERR_TRUNCATED);
    }
    for (size_t bit = 0; bit < 8 * size; bit++) {
        uint8_t *flipped = test_exact(bytes, size);
        flipped[bit / 8] ^= (uint8_t)(1u << bit % 8);
        (void)wire_check_director(flipped, size);
        free(flipped);
    }
    director.again[1].task_id = 7;
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
    director.again[1] = (struct wire_again){8, 0, 0};
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
    director.again[1].rollout_id = 80;
    director.count = WIRE_DIRECTOR_ENTRIES_MAX - 1;
    for (uint32_t i = 0; i < director.count; i++) {
        director.entries[i] = (struct wire_director_entry){.task_id = i};
    }
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size),
                     BASE_ERR_TOO_LARGE);
    director.again_count = 1;
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_OK);
    bytes[size - WIRE_AGAIN_BYTES - 1] = 2; // one mark more than there may be
    memcpy(bytes + size, bytes + size - WIRE_AGAIN_BYTES, WIRE_AGAIN_BYTES);
    bytes[size]++;
    assert_int_equal(wire_director_parse(bytes, size + WIRE_AGAIN_BYTES, &back),
                     BASE_ERR_TOO_LARGE);
}

static void directors_round_trip_and_survive_damage(void **state)
{
    (void)state;
    struct base_prng prng;
    test_seed(&prng);
    for (uint32_t count = 0; count <= WIRE_DIRECTOR_ENTRIES_MAX; count++) {
        struct wire_director director = {.device_id = base_prng_next(&prng),
                                         .order = wire_sample_u64(&prng),
                                         .issued_s = 1 + wire_sample_u64(&prng) / 2,
                                         .timestamp_version = wire_sample_u64(&prng),
                                         .lease_s = (uint32_t)base_prng_next(&prng),
                                         .count = count};
        struct wire_director back;
        uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
        size_t size = 0;
        struct wire_sha256 nonce = wire_sample_sha(&prng);
        memcpy(director.nonce, nonce.bytes, sizeof nonce.bytes);
        for (uint32_t i = 0; i < count; i++) {
            director.entries[i] =
                (struct wire_director_entry){10 * i, 1 + base_prng_below(&prng, 1000),
                                             base_prng_below(&prng, 1000), wire_sample_sha(&prng)};
        }
        if (count >= 4) { // cut behind the entries, one with marks is one without
            director.again_count =
                (uint32_t)base_prng_below(&prng, WIRE_DIRECTOR_ENTRIES_MAX - count + 1);
        }
        for (uint32_t i = 0; i < director.again_count; i++) {
            director.again[i] = (struct wire_again){10 * i, 1 + base_prng_below(&prng, 1000),
                                                    (uint8_t)base_prng_below(&prng, 256)};
        }
        assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_OK);
        assert_int_equal(wire_director_parse(bytes, size, &back), BASE_OK);
        assert_int_equal(back.again_count, director.again_count);
        assert_true(back.device_id == director.device_id);
        assert_memory_equal(back.nonce, director.nonce, sizeof back.nonce);
        assert_true(back.order == director.order);
        assert_int_equal(back.count, count);
        if (count < 4) {
            wire_damage(&prng, bytes, size, wire_check_director);
        }
        if (count > 1) {
            director.entries[1].task_id = director.entries[0].task_id;
            assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size),
                             BASE_ERR_INVALID); // one task twice
        }
    }
}

// A STOP names a task and nothing else.
static void a_stop_among_entries_is_bare(void **state)
{
    (void)state;
    struct wire_director director = {.issued_s = 1, .count = 1};
    struct wire_director back;
    uint8_t bytes[WIRE_STATEMENT_BYTES_MAX];
    size_t size = 0;
    director.entries[0].task_id = 7;
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_OK);
    assert_int_equal(wire_director_parse(bytes, size, &back), BASE_OK);
    assert_true(back.entries[0].task_id == 7 && back.entries[0].counter == 0);
    director.entries[0].manifest_bytes = 1;
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
    director.entries[0].manifest_bytes = 0;
    director.entries[0].manifest.bytes[31] = 1;
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_ERR_INVALID);
    director.entries[0].counter = 1; // a release may say so
    assert_int_equal(wire_director_encode(&director, bytes, sizeof bytes, &size), BASE_OK);
}

static void questions_have_one_form(void **state)
{
    (void)state;
    struct wire_ask ask = {.flags = WIRE_ASK_FLAG_LEASE, .order = UINT64_C(0xfedcba9876543210)};
    struct wire_ask back;
    char text[WIRE_ASK_TEXT + 2];
    for (size_t i = 0; i < sizeof ask.nonce; i++) {
        ask.nonce[i] = (uint8_t)(i * 37);
    }
    wire_ask_text(&ask, text);
    assert_int_equal(strlen(text), WIRE_ASK_TEXT);
    assert_int_equal(wire_ask_parse(base_str_of(text), &back), BASE_OK);
    assert_memory_equal(back.nonce, ask.nonce, sizeof ask.nonce);
    assert_true(back.flags == ask.flags && back.order == ask.order);
    for (size_t size = 0; size < WIRE_ASK_TEXT; size++) {
        assert_int_equal(wire_ask_parse((struct base_str){text, size}, &back), BASE_ERR_INVALID);
    }
    text[WIRE_ASK_TEXT] = 'A';
    assert_int_equal(wire_ask_parse((struct base_str){text, WIRE_ASK_TEXT + 1}, &back),
                     BASE_ERR_INVALID);
    text[0] = '/'; // flags nobody knows
    assert_int_equal(wire_ask_parse((struct base_str){text, WIRE_ASK_TEXT}, &back),
                     BASE_ERR_INVALID);
    text[0] = '!';
    assert_int_equal(wire_ask_parse((struct base_str){text, WIRE_ASK_TEXT}, &back),
                     BASE_ERR_INVALID);
}

// With METADATA it has the two versions behind, and never without.
static void questions_for_metadata(void **state)
{
    (void)state;
    struct wire_ask ask = {.flags = WIRE_ASK_FLAG_METADATA | WIRE_ASK_FLAG_TREE,
                           .order = 7,
                           .root_version = UINT64_C(0x0123456789abcdef),
                           .timestamp_version = UINT64_MAX};
    struct wire_ask back;
    char text[WIRE_ASK_TEXT_MAX + 2];
    memset(ask.nonce, 0x5a, sizeof ask.nonce);
    assert_int_equal(wire_ask_text(&ask, text), WIRE_ASK_TEXT_MAX);
    assert_int_equal(strlen(text), WIRE_ASK_TEXT_MAX);
    assert_int_equal(wire_ask_parse(base_str_of(text), &back), BASE_OK);
    assert_memory_equal(back.nonce, ask.nonce, sizeof ask.nonce);
    assert_true(back.flags == ask.flags && back.order == ask.order);
    assert_true(back.root_version == ask.root_version);
    assert_true(back.timestamp_version == ask.timestamp_version);
    for (size_t size = 0; size < WIRE_ASK_TEXT_MAX; size++) {
        assert_int_equal(wire_ask_parse((struct base_str){text, size}, &back), BASE_ERR_INVALID);
    }
    text[WIRE_ASK_TEXT_MAX] = 'A';
    assert_int_equal(wire_ask_parse((struct base_str){text, WIRE_ASK_TEXT_MAX + 1}, &back),
                     BASE_ERR_INVALID);
    text[0] = 'A'; // the versions without the flag
    assert_int_equal(wire_ask_parse((struct base_str){text, WIRE_ASK_TEXT_MAX}, &back),
                     BASE_ERR_INVALID);
    ask.flags = WIRE_ASK_FLAG_TREE;
    assert_int_equal(wire_ask_text(&ask, text), WIRE_ASK_TEXT);
    assert_int_equal(wire_ask_parse(base_str_of(text), &back), BASE_OK);
    assert_true(back.root_version == 0 && back.timestamp_version == 0);
    text[0] = 'B'; // the flag without the versions
    assert_int_equal(wire_ask_parse(base_str_of(text), &back), BASE_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshots_round_trip_and_survive_damage),
        cmocka_unit_test(snapshots_are_in_order),
        cmocka_unit_test(scenarios_come_from_task_names),
        cmocka_unit_test(timestamps_round_trip_and_survive_damage),
        cmocka_unit_test(the_largest_fit),
        cmocka_unit_test(marks_follow_the_entries),
        cmocka_unit_test(directors_round_trip_and_survive_damage),
        cmocka_unit_test(a_stop_among_entries_is_bare),
        cmocka_unit_test(questions_have_one_form),
        cmocka_unit_test(questions_for_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

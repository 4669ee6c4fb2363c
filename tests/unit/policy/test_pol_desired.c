// What a device should run: the table of docs/RELEASES.md, and a second description of the rules
// that knows nothing of claims, on random states.
#include "test_kit.h"

#include "base/prng.h"
#include "policy/desired.h"

#include <stdlib.h>

#define A UINT64_C(0xa)
#define B UINT64_C(0xb)
#define C UINT64_C(0xc)

// Shorthand for the table: a rollout that targets the device and lets it in, ...
#define IN(v, counter, s)                                                                          \
    {                                                                                              \
        .version = (v), .approved = (counter), .state = (s), .targeted = true, .admitted = true,   \
        .inside = true                                                                             \
    }
#define IN_FIRST(v, counter, s)                                                                    \
    {                                                                                              \
        .version = (v), .approved = (counter), .state = (s), .targeted = true, .admitted = true,   \
        .inside = true, .priority = 10                                                             \
    }
// ... that targets it, and has not come to its share yet, ...
#define OUT(v, counter, s)                                                                         \
    {                                                                                              \
        .version = (v), .approved = (counter), .state = (s), .targeted = true                      \
    }
#define OUT_FIRST(v, counter, s)                                                                   \
    {                                                                                              \
        .version = (v), .approved = (counter), .state = (s), .targeted = true, .priority = 10      \
    }
// ... whose target its attributes do not fit now, and that has its segment in quarantine.
#define SHUT(v, counter, s)                                                                        \
    {                                                                                              \
        .version = (v), .approved = (counter), .state = (s), .inside = true                        \
    }
#define HELD_OFF(v, counter, s)                                                                    \
    {                                                                                              \
        .version = (v), .approved = (counter), .state = (s), .targeted = true, .inside = true,     \
        .held_off = true                                                                           \
    }

// ... whose version failed there before, or whose statement it refuses.
#define REFUSED(v, counter, s)                                                                     \
    {                                                                                              \
        .version = (v), .approved = (counter), .state = (s), .targeted = true, .admitted = true,   \
        .inside = true, .refused = true                                                            \
    }

#define OPEN      POL_CLAIM_OPEN
#define PAUSED    POL_CLAIM_PAUSED
#define COMPLETED POL_CLAIM_COMPLETED
#define HELD      POL_CLAIM_HELD

struct row {
    const char *what;
    uint32_t count;
    struct pol_claim claims[4];
    struct pol_desired_device device;
    uint64_t version;
    enum pol_desired_rule rule;
};

static const struct row rows[] = {
    {"no rollout", 0, {{0}}, {A, 0, 0, 0}, 0, POL_DESIRED_NONE},
    {"let in", 2, {IN(A, 1, COMPLETED), IN(B, 2, OPEN)}, {0}, B, POL_DESIRED_FOLLOWED},
    {"not yet", 2, {IN(A, 1, COMPLETED), OUT(B, 2, OPEN)}, {0}, A, POL_DESIRED_BASELINE},
    {"not yet, no baseline", 1, {OUT(B, 2, OPEN)}, {0}, 0, POL_DESIRED_NONE},
    {"paused, does not have it",
     2,
     {IN(A, 1, COMPLETED), IN(B, 2, PAUSED)},
     {A, 0, 0, 0},
     A,
     POL_DESIRED_BASELINE},
    {"paused, has it",
     2,
     {IN(A, 1, COMPLETED), IN(B, 2, PAUSED)},
     {B, 0, 0, 0},
     B,
     POL_DESIRED_PAUSED},
    {"aborted: back", 1, {IN(A, 1, COMPLETED)}, {B, 0, 0, 0}, A, POL_DESIRED_BASELINE},
    {"first release aborted: nothing", 0, {{0}}, {B, 0, 0, 0}, 0, POL_DESIRED_NONE},
    {"of two, the higher priority",
     2,
     {IN(A, 1, OPEN), IN_FIRST(B, 2, OPEN)},
     {0},
     B,
     POL_DESIRED_FOLLOWED},
    {"of equals, the one approved first",
     2,
     {IN(B, 2, OPEN), IN(A, 1, OPEN)},
     {0},
     A,
     POL_DESIRED_FOLLOWED},
    {"follows one alone", 2, {OUT_FIRST(A, 1, OPEN), IN(B, 2, OPEN)}, {0}, 0, POL_DESIRED_NONE},
    {"stays with the one before",
     3,
     {IN(C, 1, COMPLETED), IN(A, 2, OPEN), OUT_FIRST(B, 3, OPEN)},
     {A, 0, 0, 0},
     A,
     POL_DESIRED_STAYS},
    {"younger completed first, then the older",
     2,
     {IN(A, 5, COMPLETED), IN(B, 6, COMPLETED)},
     {A, 0, 0, 0},
     B,
     POL_DESIRED_BASELINE},
    {"completed, its share alone",
     2,
     {IN(A, 1, COMPLETED), OUT(B, 2, COMPLETED)},
     {0},
     A,
     POL_DESIRED_BASELINE},
    {"baseline killed: the one before",
     1,
     {IN(A, 1, COMPLETED)},
     {B, 0, 0, 0},
     A,
     POL_DESIRED_BASELINE},
    {"same version twice, one aborted, outside the other's share",
     1,
     {OUT(B, 3, OPEN)},
     {B, 0, 0, 0},
     0,
     POL_DESIRED_NONE},
    {"failed there",
     2,
     {IN(A, 1, COMPLETED), IN(B, 2, OPEN)},
     {A, B, 0, 0},
     A,
     POL_DESIRED_BASELINE},
    {"baseline failed there",
     2,
     {IN(A, 1, COMPLETED), IN(B, 2, COMPLETED)},
     {A, B, 0, 0},
     A,
     POL_DESIRED_BASELINE},
    {"both failed there: nothing",
     2,
     {REFUSED(A, 1, COMPLETED), IN(B, 2, OPEN)},
     {0, B, 0, 0},
     0,
     POL_DESIRED_NONE},
    {"two failed there: the one before",
     3,
     {IN(A, 1, COMPLETED), REFUSED(B, 2, COMPLETED), IN(C, 3, OPEN)},
     {0, C, 0, 0},
     A,
     POL_DESIRED_BASELINE},
    {"another open one, refused: not followed",
     3,
     {IN(A, 1, COMPLETED), REFUSED(B, 2, OPEN), IN(C, 3, OPEN)},
     {A, 0, 0, 0},
     A,
     POL_DESIRED_BASELINE},
    {"quarantined: back",
     2,
     {IN(A, 1, COMPLETED), HELD_OFF(B, 2, OPEN)},
     {B, 0, 0, 0},
     A,
     POL_DESIRED_BASELINE},
    {"quarantined, no baseline", 1, {HELD_OFF(B, 2, OPEN)}, {B, 0, 0, 0}, 0, POL_DESIRED_NONE},
    {"attributes changed, nothing else",
     1,
     {SHUT(A, 1, COMPLETED)},
     {A, 0, 0, 0},
     A,
     POL_DESIRED_KEEPS},
    {"attributes changed, and it came by that",
     2,
     {SHUT(A, 1, COMPLETED), SHUT(A, 2, OPEN)},
     {A, 0, 0, 1},
     A,
     POL_DESIRED_KEEPS},
    {"what it came by is gone: another rollout of the version that shuts it out keeps nothing",
     1,
     {SHUT(A, 2, OPEN)},
     {A, 0, 0, 1},
     0,
     POL_DESIRED_NONE},
    {"what it came by is gone: another rollout of the version lets it in",
     1,
     {IN(A, 2, COMPLETED)},
     {A, 0, 0, 1},
     A,
     POL_DESIRED_BASELINE},
    {"attributes changed, another baseline",
     2,
     {IN(A, 1, COMPLETED), SHUT(B, 2, COMPLETED)},
     {B, 0, 0, 0},
     A,
     POL_DESIRED_BASELINE},
    {"below the floor",
     2,
     {IN(A, 1, COMPLETED), OUT(B, 5, OPEN)},
     {0, 0, 2, 0},
     0,
     POL_DESIRED_NONE},
    {"below the floor, but it has it",
     2,
     {IN(A, 1, COMPLETED), OUT(B, 5, OPEN)},
     {A, 0, 2, 0},
     A,
     POL_DESIRED_BASELINE},
    {"open, below the floor",
     2,
     {IN(A, 1, OPEN), IN(B, 5, COMPLETED)},
     {0, 0, 2, 0},
     B,
     POL_DESIRED_BASELINE},
    {"held, does not have it",
     2,
     {IN(A, 1, COMPLETED), IN(B, 2, HELD)},
     {A, 0, 0, 0},
     A,
     POL_DESIRED_BASELINE},
    {"held, has it",
     2,
     {IN(A, 1, COMPLETED), IN(B, 2, HELD)},
     {B, 0, 0, 0},
     B,
     POL_DESIRED_BASELINE},
    {"held, nothing else", 1, {IN(B, 2, HELD)}, {0}, 0, POL_DESIRED_NONE},
    {"held, another is open",
     2,
     {IN(B, 2, HELD), IN(C, 3, OPEN)},
     {B, 0, 0, 0},
     C,
     POL_DESIRED_FOLLOWED},
    {"has it, approved again below the floor",
     1,
     {IN(A, 1, COMPLETED)},
     {A, 0, 2, 0},
     A,
     POL_DESIRED_BASELINE},
};

static void table(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct pol_desired got = pol_desired(rows[i].claims, rows[i].count, &rows[i].device);
        if (got.version != rows[i].version || got.rule != rows[i].rule) {
            fail_msg("%s: version %llx by rule %s", rows[i].what, (unsigned long long)got.version,
                     pol_desired_rule_name(got.rule));
        }
        assert_true(got.rule == POL_DESIRED_NONE
                        ? got.claim == rows[i].count
                        : rows[i].claims[got.claim].version == got.version);
    }
}

// ---- The second description: candidates get a rank, the highest rank wins.

static int by_rank(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return x[0] != y[0] ? (x[0] > y[0] ? -1 : 1) : (x[1] > y[1] ? -1 : x[1] < y[1]);
}

// Opens sorted by how early a device asks them.
static int by_turn(const void *a, const void *b)
{
    const struct pol_claim *x = *(const struct pol_claim *const *)a;
    const struct pol_claim *y = *(const struct pol_claim *const *)b;
    uint64_t u = ((uint64_t)(65535 - x->priority) << 32) + x->approved;
    uint64_t v = ((uint64_t)(65535 - y->priority) << 32) + y->approved;
    return u < v ? -1 : u > v;
}

static uint64_t above_floor(const struct pol_claim *claims, uint32_t count,
                            const struct pol_desired_device *device)
{
    const struct pol_claim *turns[8];
    uint64_t ranked[32][3]; // rank, order within it, version
    uint32_t turn_count = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (claims[i].state != POL_CLAIM_COMPLETED && claims[i].state != POL_CLAIM_HELD) {
            turns[turn_count++] = &claims[i];
        }
    }
    qsort(turns, turn_count, sizeof(turns[0]), by_turn);
    bool asked = false;
    for (uint32_t i = 0; i < turn_count; i++) {
        const struct pol_claim *claim = turns[i];
        bool good = claim->version != device->refused && !claim->refused &&
                    claim->approved >= device->floor;
        bool has = device->have == claim->version;
        if (claim->targeted && !asked) {
            asked = true;
            if (good && claim->admitted && (claim->state == POL_CLAIM_OPEN || has)) {
                ranked[n][0] = 4;
                ranked[n][1] = 0;
                ranked[n++][2] = claim->version;
            }
        }
        if (good && has && claim->admitted) {
            ranked[n][0] = 3;
            ranked[n][1] = 0;
            ranked[n++][2] = claim->version;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct pol_claim *claim = &claims[i];
        if (claim->version == device->refused || claim->refused ||
            claim->approved < device->floor) {
            continue;
        }
        bool base = claim->state == POL_CLAIM_COMPLETED ||
                    (claim->state == POL_CLAIM_HELD && claim->version == device->have);
        if (base && claim->admitted) {
            ranked[n][0] = 2;
            ranked[n][1] = claim->approved;
            ranked[n++][2] = claim->version;
        } else if (claim->version == device->have && claim->inside && !claim->held_off &&
                   (device->approved == claim->approved || device->approved == 0)) {
            ranked[n][0] = 1;
            ranked[n][1] = 0;
            ranked[n++][2] = claim->version;
        }
    }
    qsort(ranked, n, sizeof(ranked[0]), by_rank);
    return n > 0 ? ranked[0][2] : 0;
}

// A floor is asked only for what would have to be followed.
static uint64_t second_opinion(const struct pol_claim *claims, uint32_t count,
                               const struct pol_desired_device *device)
{
    const struct pol_desired_device anything = {
        .have = device->have, .refused = device->refused, .approved = device->approved};
    uint64_t version = above_floor(claims, count, &anything);
    return version == device->have ? version : above_floor(claims, count, device);
}

// By one of them, by one that is gone, or it does not say.
static uint64_t came_by(struct base_prng *prng, const struct pol_claim *claims, uint32_t count)
{
    uint64_t dice = base_prng_below(prng, count + 2);
    return dice < count ? claims[dice].approved : dice == count ? 100 : 0;
}

static void random_states(void **state)
{
    struct base_prng prng;
    uint32_t seen[POL_DESIRED_RULE_COUNT] = {0};
    (void)state;
    test_seed(&prng);
    for (uint32_t round = 0; round < 300000; round++) {
        struct pol_claim claims[8];
        uint32_t count = (uint32_t)base_prng_below(&prng, 8);
        for (uint32_t i = 0; i < count; i++) {
            struct pol_claim *claim = &claims[i];
            *claim = (struct pol_claim){.version = 1 + base_prng_below(&prng, 4),
                                        .approved = 1 + i + 8 * base_prng_below(&prng, 3),
                                        .priority = (uint16_t)base_prng_below(&prng, 3),
                                        .state = (enum pol_claim_state)base_prng_below(&prng, 4)};
            claim->targeted = base_prng_below(&prng, 2) == 0;
            claim->held_off = base_prng_below(&prng, 6) == 0;
            claim->inside = base_prng_below(&prng, 3) > 0;
            claim->refused = base_prng_below(&prng, 5) == 0;
            claim->admitted =
                claim->targeted && claim->inside && !claim->held_off && base_prng_below(&prng, 3);
        }
        struct pol_desired_device device = {.have = base_prng_below(&prng, 5),
                                            .refused = base_prng_below(&prng, 12),
                                            .floor = base_prng_below(&prng, 2) *
                                                     base_prng_below(&prng, 20),
                                            .approved = came_by(&prng, claims, count)};
        struct pol_desired got = pol_desired(claims, count, &device);
        assert_int_equal(got.version, second_opinion(claims, count, &device));
        seen[got.rule]++;
        // What it answers is where it stays.
        if (got.version != 0 && got.version != device.have) {
            device.have = got.version;
            device.approved = claims[got.claim].approved;
            assert_int_equal(pol_desired(claims, count, &device).version, got.version);
        }
    }
    for (uint32_t i = 0; i < POL_DESIRED_RULE_COUNT; i++) {
        assert_true(seen[i] > 100);
    }
}

// Claims come in any order.
static void order_is_no_matter(void **state)
{
    struct base_prng prng;
    (void)state;
    test_seed(&prng);
    for (uint32_t round = 0; round < 20000; round++) {
        struct pol_claim claims[6];
        for (uint32_t i = 0; i < TEST_COUNT(claims); i++) {
            uint64_t bits = base_prng_next(&prng);
            claims[i] = (struct pol_claim){1 + bits % 3,
                                           1 + i,
                                           (uint16_t)(bits >> 8 & 1),
                                           (enum pol_claim_state)((bits >> 16) % 4),
                                           (bits >> 32 & 1) != 0,
                                           (bits >> 32 & 3) == 3,
                                           (bits >> 34 & 1) != 0,
                                           false,
                                           (bits >> 36 & 7) == 0};
        }
        struct pol_desired_device device = {.have = base_prng_below(&prng, 4)};
        struct pol_desired before = pol_desired(claims, TEST_COUNT(claims), &device);
        uint64_t approved = before.rule == POL_DESIRED_NONE ? 0 : claims[before.claim].approved;
        for (uint32_t i = TEST_COUNT(claims) - 1; i > 0; i--) {
            uint32_t k = (uint32_t)base_prng_below(&prng, i + 1);
            struct pol_claim swap = claims[i];
            claims[i] = claims[k];
            claims[k] = swap;
        }
        struct pol_desired after = pol_desired(claims, TEST_COUNT(claims), &device);
        assert_int_equal(before.version, after.version);
        assert_int_equal(before.rule, after.rule);
        assert_int_equal(approved,
                         after.rule == POL_DESIRED_NONE ? 0 : claims[after.claim].approved);
    }
}

static void every_rule_has_a_name(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < POL_DESIRED_RULE_COUNT; i++) {
        assert_string_not_equal(pol_desired_rule_name((enum pol_desired_rule)i), "unknown");
        assert_string_not_equal(pol_desired_rule_text((enum pol_desired_rule)i), "unknown");
    }
    assert_string_equal(pol_desired_rule_name(POL_DESIRED_RULE_COUNT), "unknown");
    assert_string_equal(pol_desired_rule_text(POL_DESIRED_RULE_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(random_states),
        cmocka_unit_test(order_is_no_matter),
        cmocka_unit_test(every_rule_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Blocks of trials: what looks find does not depend on the order in which devices' parts come, nor
// on which looks were taken before.
#include "test_kit.h"

#include "base/prng.h"
#include "svc/tally/trial_blocks.h"

#include <stdlib.h>
#include <string.h>

#define SEED     20261126u
#define ENTRIES  600u
#define SECONDS  900u
#define BLOCK_S  30u
#define WINDOW_S 120u
#define SEGMENTS 5u

static struct gw_release *make_release(void)
{
    struct gw_release *release = calloc(1, sizeof(*release));
    assert_non_null(release);
    release->checkin_interval_s = 10 * BLOCK_S;
    release->stage_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        release->stages[i].window_s = WINDOW_S;
        release->stages[i].gate = (struct pol_gate){.rule = POL_GATE_LOGRANK,
                                                    .max_failure_ppm = 50000,
                                                    .max_rise_ppm = 20000,
                                                    .tolerated_rise_ppm = i == 1 ? 10000 : 0};
    }
    return release;
}

struct life {
    struct gw_trial_entry entered; // as it was offered
    struct gw_trial_entry later;   // with what became of it
    uint32_t known_s;              // when that is known
};

static void draw(struct base_prng *prng, struct life lives[ENTRIES])
{
    for (uint32_t i = 0; i < ENTRIES; i++) {
        uint32_t offered_s = 1 + (uint32_t)base_prng_below(prng, SECONDS);
        uint32_t heard_s = offered_s + (uint32_t)base_prng_below(prng, 2 * WINDOW_S);
        bool control = base_prng_below(prng, 3) > 0;
        bool alone = !control && base_prng_below(prng, 4) == 0;
        unsigned bits = GW_OUTCOME_OFFERED | GW_OUTCOME_PROVEN;
        bits |= base_prng_below(prng, 20) > 0 ? GW_OUTCOME_DRAWN : 0;
        bits |= control ? GW_OUTCOME_CONTROL : 0;
        bits |= alone ? GW_OUTCOME_ALONE : 0;
        lives[i].entered = (struct gw_trial_entry){.order = base_mix64(i + 1),
                                                   .segment = base_prng_below(prng, SEGMENTS),
                                                   .offered_s = offered_s,
                                                   .bits = (uint16_t)bits,
                                                   .stage = (uint8_t)base_prng_below(prng, 2)};
        struct gw_trial_entry *later = &lives[i].later;
        *later = lives[i].entered;
        lives[i].known_s = heard_s;
        uint64_t kind = base_prng_below(prng, 10);
        if (kind < 3) {
            later->bits |= GW_OUTCOME_FAILED;
            later->failed_s = heard_s;
        } else if (kind < 8) {
            later->bits |= GW_OUTCOME_RAN;
            later->answered_s = heard_s;
        } else if (kind < 9) {
            later->bits |= GW_OUTCOME_NOT_APPLICABLE;
        }
    }
}

static struct gw_trial_blocks *blocks_at(const struct gw_release *release,
                                         const struct life lives[ENTRIES], uint32_t now_s,
                                         bool reversed)
{
    struct gw_trial_blocks *blocks = gw_trial_blocks_new(release);
    assert_non_null(blocks);
    for (uint32_t k = 0; k < ENTRIES; k++) {
        const struct life *life = &lives[reversed ? ENTRIES - 1 - k : k];
        if (life->entered.offered_s <= now_s) {
            gw_trial_blocks_add(blocks, life->known_s <= now_s ? &life->later : &life->entered);
        }
    }
    return blocks;
}

static void expect_same_slices(const struct pol_slices *a, const struct pol_slices *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->completed, b->completed);
    assert_int_equal(a->failing_count, b->failing_count);
    for (uint32_t i = 0; i < a->failing_count; i++) {
        uint32_t k = 0;
        while (k < b->failing_count && b->failing[k].name != a->failing[i].name) {
            k++;
        }
        assert_true(k < b->failing_count);
        assert_int_equal(a->failing[i].seen.trials, b->failing[k].seen.trials);
        assert_int_equal(a->failing[i].seen.failures, b->failing[k].seen.failures);
        assert_true(a->failing[i].rise >= b->failing[k].rise &&
                    a->failing[i].rise <= b->failing[k].rise);
    }
}

static void expect_equal(struct gw_trial_blocks *a, struct gw_trial_blocks *b,
                         const struct gw_trial_look *look)
{
    static struct pol_slices slices[2];
    static const struct pol_held lifted = {.count = 0};
    struct pol_trial trials[2];
    gw_trial_blocks_judged(a, look, &trials[0]);
    gw_trial_blocks_judged(b, look, &trials[1]);
    assert_true(pol_trial_valid(&trials[0]));
    assert_memory_equal(&trials[0], &trials[1], sizeof(trials[0]));
    gw_trial_blocks_slices(a, look, &lifted, &slices[0]);
    gw_trial_blocks_slices(b, look, &lifted, &slices[1]);
    expect_same_slices(&slices[0], &slices[1]);
}

// One gateway lives through all of it and looks now and then; others begin from what is known.
static void looks_depend_on_what_is_known_alone(void **state)
{
    (void)state;
    static struct life lives[ENTRIES];
    struct base_prng prng;
    base_prng_seed(&prng, SEED);
    print_message("seed %u\n", SEED);
    for (uint32_t turn = 0; turn < 4; turn++) {
        struct gw_release *release = make_release();
        struct gw_trial_blocks *blocks = gw_trial_blocks_new(release);
        draw(&prng, lives);
        for (uint32_t now_s = 1; now_s < SECONDS + 3 * WINDOW_S; now_s++) {
            for (uint32_t i = 0; i < ENTRIES; i++) {
                const struct life *life = &lives[i];
                bool offered = life->entered.offered_s == now_s;
                bool known = life->known_s == now_s;
                if (known && !offered && i % 2 == 0) {
                    gw_trial_blocks_take(blocks, &life->entered);
                }
                if (offered) {
                    gw_trial_blocks_add(blocks, known ? &life->later : &life->entered);
                } else if (known) {
                    gw_trial_blocks_add(blocks, &life->later);
                }
                if (known && !offered && i % 2 == 1) { // the other way round
                    gw_trial_blocks_take(blocks, &life->entered);
                }
            }
            if (base_prng_below(&prng, 10) > 0) {
                continue;
            }
            struct pol_held held = {.count = (uint32_t)base_prng_below(&prng, 2), .names = {2}};
            struct gw_trial_look look = {.stage = (uint32_t)base_prng_below(&prng, 2),
                                         .heard_s = now_s,
                                         .offers_s = now_s - (uint32_t)base_prng_below(&prng, 2),
                                         .held = &held};
            struct gw_trial_blocks *fresh =
                blocks_at(release, lives, now_s, base_prng_below(&prng, 2) == 0);
            expect_equal(blocks, fresh, &look);
            gw_trial_blocks_free(fresh);
        }
        assert_int_equal(gw_trial_blocks_lost(blocks), 0);
        gw_trial_blocks_free(blocks);
        free(release);
    }
}

// Nothing is bet in a block before it ends, and all of what waited is then.
static void a_block_is_bet_on_when_it_is_over(void **state)
{
    (void)state;
    struct gw_release *release = make_release();
    struct gw_trial_blocks *blocks = gw_trial_blocks_new(release);
    struct pol_trial trial;
    const struct pol_held nobody = {.count = 0};
    for (uint32_t i = 0; i < 200; i++) {
        bool control = i % 2 == 0;
        unsigned bits = GW_OUTCOME_OFFERED | GW_OUTCOME_DRAWN | GW_OUTCOME_FAILED;
        const struct gw_trial_entry entry = {
            .order = i,
            .offered_s = 3,
            .failed_s = 5,
            .bits = (uint16_t)(bits | (control ? GW_OUTCOME_CONTROL : 0)),
        };
        if (!control || i < 20) {
            gw_trial_blocks_add(blocks, &entry);
        }
    }
    struct gw_trial_look look = {.heard_s = BLOCK_S - 1, .offers_s = BLOCK_S - 1, .held = &nobody};
    gw_trial_blocks_judged(blocks, &look, &trial);
    assert_int_equal(trial.all[POL_COHORT_UPDATED].offered, 100);
    assert_int_equal(trial.rise.wealth[0], 0);
    uint64_t waiting = trial.all[POL_COHORT_UPDATED].failed + trial.all[POL_COHORT_CONTROL].failed;
    assert_int_equal(waiting, POL_BLOCK_WAITING_MAX); // the others are looked at when it is over
    look.heard_s = BLOCK_S;
    gw_trial_blocks_judged(blocks, &look, &trial);
    assert_int_equal(trial.rise.wealth[0], 0); // not all offers are in
    look.offers_s = BLOCK_S;
    look.heard_s = BLOCK_S - 1;
    gw_trial_blocks_judged(blocks, &look, &trial);
    assert_int_equal(trial.rise.wealth[0], 0); // nor all reports
    look.heard_s = BLOCK_S;
    gw_trial_blocks_judged(blocks, &look, &trial);
    assert_int_equal(trial.all[POL_COHORT_UPDATED].failed, 100);
    assert_int_not_equal(trial.rise.wealth[0], 0);
    assert_int_equal(trial.over[POL_COHORT_UPDATED].offered, 0);
    look.heard_s = look.offers_s = BLOCK_S + WINDOW_S;
    gw_trial_blocks_judged(blocks, &look, &trial);
    assert_int_equal(trial.over[POL_COHORT_UPDATED].failed, 100);
    assert_int_equal(gw_trial_block_end_s(release, 3), BLOCK_S);
    assert_int_equal(gw_trial_block_end_s(release, BLOCK_S), 2 * BLOCK_S);
    gw_trial_blocks_free(blocks);
    free(release);
}

// What is heard of in the last second of a window counts, and no later.
static void a_window_has_its_last_second(void **state)
{
    (void)state;
    static const struct pol_held nobody = {.count = 0};
    struct gw_release *release = make_release();
    const uint32_t end_s = BLOCK_S + WINDOW_S;
    for (uint32_t late_s = 0; late_s < 2; late_s++) {
        struct gw_trial_blocks *blocks = gw_trial_blocks_new(release);
        for (uint32_t i = 0; i < 2; i++) {
            unsigned bits = GW_OUTCOME_OFFERED | GW_OUTCOME_DRAWN;
            bits |= i == 0 ? GW_OUTCOME_FAILED : GW_OUTCOME_RAN;
            gw_trial_blocks_add(blocks,
                                &(struct gw_trial_entry){.order = i,
                                                         .offered_s = 3,
                                                         .answered_s = i == 1 ? end_s + late_s : 0,
                                                         .failed_s = i == 0 ? end_s + late_s : 0,
                                                         .bits = (uint16_t)bits});
        }
        const struct gw_trial_look look = {
            .heard_s = end_s + 1, .offers_s = end_s + 1, .held = &nobody};
        struct pol_trial trial;
        gw_trial_blocks_judged(blocks, &look, &trial);
        const struct pol_outcomes *over = &trial.over[POL_COHORT_UPDATED];
        assert_int_equal(over->offered, 2);
        assert_int_equal(over->failed, late_s == 0);
        assert_int_equal(over->succeeded, late_s == 0);
        gw_trial_blocks_free(blocks);
    }
    free(release);
}

// A segment is one of those that are judged when somebody of it was updated.
static void a_segment_of_control_alone_is_none(void **state)
{
    (void)state;
    static const struct pol_held nobody = {.count = 0};
    static struct pol_slices slices;
    struct gw_release *release = make_release();
    struct gw_trial_blocks *blocks = gw_trial_blocks_new(release);
    for (uint32_t i = 0; i < 3; i++) {
        unsigned bits = GW_OUTCOME_OFFERED | GW_OUTCOME_DRAWN | GW_OUTCOME_FAILED;
        gw_trial_blocks_add(blocks, &(struct gw_trial_entry){
                                        .order = i,
                                        .segment = i == 0 ? 7 : 8,
                                        .offered_s = 3,
                                        .failed_s = 5,
                                        .bits = (uint16_t)(bits | (i < 2 ? GW_OUTCOME_CONTROL : 0)),
                                    });
    }
    const struct gw_trial_look look = {.heard_s = BLOCK_S, .offers_s = BLOCK_S, .held = &nobody};
    gw_trial_blocks_slices(blocks, &look, &nobody, &slices);
    assert_int_equal(slices.count, 1);
    assert_int_equal(slices.failing_count, 1);
    assert_int_equal(slices.failing[0].name, 8);
    assert_int_equal(slices.failing[0].seen.trials, 1);
    gw_trial_blocks_free(blocks);
    free(release);
}

// One block of 80 devices; the last of either cohort failed when it says so (0: not).
#define HALF 40u
static void fill_block(struct gw_trial_blocks *blocks, uint32_t control_s, uint32_t updated_s)
{
    for (uint32_t i = 0; i < 2 * HALF; i++) {
        uint32_t failed_s = i == 0 ? control_s : i == 1 ? updated_s : 0;
        unsigned bits = GW_OUTCOME_OFFERED | GW_OUTCOME_DRAWN;
        bits |= i % 2 == 0 ? GW_OUTCOME_CONTROL : 0;
        bits |= failed_s != 0 ? GW_OUTCOME_FAILED : 0;
        gw_trial_blocks_add(blocks, &(struct gw_trial_entry){.order = i + 1,
                                                             .segment = 1 + i % SEGMENTS / 4,
                                                             .offered_s = 3,
                                                             .failed_s = failed_s,
                                                             .bits = (uint16_t)bits});
    }
}

// The other one is heard of later, and failed earlier, than what was played already.
static void what_is_heard_late_is_played_in_its_place(void **state)
{
    (void)state;
    struct gw_release *release = make_release();
    struct gw_trial_blocks *blocks = gw_trial_blocks_new(release);
    struct gw_trial_blocks *fresh = gw_trial_blocks_new(release);
    const struct pol_held nobody = {.count = 0};
    struct gw_trial_look look = {
        .heard_s = BLOCK_S + 25, .offers_s = BLOCK_S + 25, .held = &nobody};
    struct gw_trial_entry entry = {
        .order = 2, .segment = 1, .offered_s = 3, .bits = GW_OUTCOME_OFFERED | GW_OUTCOME_DRAWN};
    struct pol_trial trial;
    static struct pol_slices slices;
    fill_block(blocks, BLOCK_S + 20, 0);
    fill_block(fresh, BLOCK_S + 20, BLOCK_S + 10);
    gw_trial_blocks_judged(blocks, &look, &trial);
    gw_trial_blocks_slices(blocks, &look, &nobody, &slices);
    assert_int_equal(trial.all[POL_COHORT_CONTROL].failed, 1);
    gw_trial_blocks_take(blocks, &entry);
    entry.bits |= GW_OUTCOME_FAILED;
    entry.failed_s = BLOCK_S + 10;
    gw_trial_blocks_add(blocks, &entry);
    expect_equal(blocks, fresh, &look);
    // And what was played is taken back: it is heard of the device as if it had not failed.
    gw_trial_blocks_take(blocks, &entry);
    entry.bits &= (uint16_t)~GW_OUTCOME_FAILED;
    entry.failed_s = 0;
    gw_trial_blocks_add(blocks, &entry);
    gw_trial_blocks_free(fresh);
    fresh = gw_trial_blocks_new(release);
    fill_block(fresh, BLOCK_S + 20, 0);
    expect_equal(blocks, fresh, &look);
    gw_trial_blocks_free(blocks);
    gw_trial_blocks_free(fresh);
    free(release);
}

// A look that may go less far than the one before finds what it would have found then.
static void an_earlier_look_sees_no_further(void **state)
{
    (void)state;
    struct gw_release *release = make_release();
    struct gw_trial_blocks *blocks = gw_trial_blocks_new(release);
    const struct pol_held nobody = {.count = 0};
    fill_block(blocks, BLOCK_S + 20, BLOCK_S + 10);
    for (uint32_t heard_s = BLOCK_S + 25; heard_s >= BLOCK_S; heard_s -= 5) {
        struct gw_trial_blocks *fresh = gw_trial_blocks_new(release);
        struct gw_trial_look look = {.heard_s = heard_s, .offers_s = heard_s, .held = &nobody};
        struct pol_trial trial;
        fill_block(fresh, BLOCK_S + 20, BLOCK_S + 10);
        expect_equal(blocks, fresh, &look);
        gw_trial_blocks_judged(blocks, &look, &trial);
        assert_int_equal(trial.all[POL_COHORT_CONTROL].failed, heard_s >= BLOCK_S + 20);
        assert_int_equal(trial.all[POL_COHORT_UPDATED].failed, heard_s >= BLOCK_S + 10);
        gw_trial_blocks_free(fresh);
    }
    gw_trial_blocks_free(blocks);
    free(release);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_depend_on_what_is_known_alone),
        cmocka_unit_test(what_is_heard_late_is_played_in_its_place),
        cmocka_unit_test(an_earlier_look_sees_no_further),
        cmocka_unit_test(a_block_is_bet_on_when_it_is_over),
        cmocka_unit_test(a_window_has_its_last_second),
        cmocka_unit_test(a_segment_of_control_alone_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// The engine against an oracle that tries all ways to match: random sets of random patterns over
// small alphabets, all strings of a length or random histories, after every event the set that
// fired, its embedding, and that no event cost more than the certificate says.
//
// Here is a fraction that takes seconds. More is asked for by WALLE_TRIGGER_SETS (sets of the
// exhaustive test, default 6), WALLE_TRIGGER_EVENTS (events of random histories, default 60,000),
// WALLE_TRIGGER_LONG (events of long histories, default 60,000) and WALLE_TRIGGER_SAMPLE (there the
// oracle is asked at one event in so many, default 64).
#include "test_kit.h"

#include "trigger_rig.h"

#define PATTERNS_MAX 24
#define EXTRAS_MAX   8 // patterns that come and go
#define EVENTS_MAX   320

struct world {
    struct oracle_pattern patterns[PATTERNS_MAX];
    struct oracle_policy policies[PATTERNS_MAX];
    char texts[PATTERNS_MAX][RIG_TEXT_MAX];
    uint32_t count;
    struct trig_rig rig;
    struct rig_event events[EVENTS_MAX];
    uint64_t fired;
    bool embed;
    bool changed; // other patterns came and went
};

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value;
    return text != NULL && base_str_u64(base_str_of(text), &value) == BASE_OK ? value : otherwise;
}

// Compiles the world's patterns in any order, with others between them; keys tell them apart.
static void compile_world(struct world *world, struct base_prng *prng, const struct oracle_mix *mix,
                          uint32_t extras)
{
    struct dev_trigger_source sources[PATTERNS_MAX + EXTRAS_MAX];
    static char texts[EXTRAS_MAX][RIG_TEXT_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->count; i++) {
        sources[count++] = (struct dev_trigger_source){i + 1, base_str_of(world->texts[i])};
    }
    for (uint32_t i = 0; i < extras; i++) {
        struct oracle_pattern pattern;
        oracle_random(prng, mix, &pattern);
        oracle_print(&pattern, texts[i]);
        sources[count++] = (struct dev_trigger_source){1000 + i, base_str_of(texts[i])};
    }
    for (uint32_t i = count; extras > 0 && i-- > 1;) {
        uint32_t other = (uint32_t)base_prng_below(prng, i + 1);
        struct dev_trigger_source moved = sources[i];
        sources[i] = sources[other];
        sources[other] = moved;
    }
    const struct dev_trigger_options options = {.secret = RIG_SECRET, .work_max = UINT32_MAX};
    struct dev_trigger_fault fault = {0};
    enum base_status status = trig_rig_try(&world->rig, sources, count, &options, &fault);
    if (status != BASE_OK) {
        print_error("[%s] %s\n", sources[fault.source].pattern.data, fault.error.text);
    }
    assert_int_equal(status, BASE_OK);
}

static void make_world(struct world *world, struct base_prng *prng, const struct oracle_mix *mix)
{
    world->count = 1 + (uint32_t)base_prng_below(prng, PATTERNS_MAX);
    world->changed = false;
    for (uint32_t i = 0; i < world->count; i++) {
        oracle_random(prng, mix, &world->patterns[i]);
        oracle_print(&world->patterns[i], world->texts[i]);
    }
    compile_world(world, prng, mix, 0);
}

// The process is killed and comes back with what was stored.
static void restart(struct world *world)
{
    size_t size = dev_trigger_encoded_max(world->rig.engine);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    size_t used;
    assert_int_equal(dev_trigger_encode(world->rig.engine, bytes, size, &used), BASE_OK);
    uint8_t *stored = test_exact(bytes, used);
    trig_rig_fresh(&world->rig);
    assert_int_equal(dev_trigger_decode(world->rig.engine, stored, used), BASE_OK);
    size_t again;
    uint8_t *bytes_again = malloc(size);
    assert_non_null(bytes_again);
    assert_int_equal(dev_trigger_encode(world->rig.engine, bytes_again, size, &again), BASE_OK);
    assert_int_equal(again, used);
    assert_memory_equal(bytes_again, stored, used);
    free(bytes);
    free(bytes_again);
    free(stored);
}

// Other patterns come and go between two events; what the world's own have matched lives on.
static void change_set(struct world *world, struct base_prng *prng, const struct oracle_mix *mix)
{
    struct trig_rig old = world->rig;
    compile_world(world, prng, mix, 1 + (uint32_t)base_prng_below(prng, EXTRAS_MAX));
    dev_trigger_carry(old.engine, world->rig.engine);
    world->changed = true;
    trig_rig_done(&old);
}

static void explain(const struct world *world, uint32_t n, uint32_t pattern, bool ours)
{
    printf("pattern %u [%s]: %s at event %u\n", pattern, world->texts[pattern],
           ours ? "fired wrongly" : "did not fire", n);
    for (uint32_t i = 0; i <= n; i++) {
        const struct rig_event *event = &world->events[i];
        printf("  seq %llu %s page %c item %u price %u visit %u mono %llu wall %llu boot %u\n",
               (unsigned long long)event->seq, dev_event_kind_name(event->kind),
               'a' + event->page - 1, event->item, event->price, event->visit,
               (unsigned long long)event->mono_us, (unsigned long long)event->wall_ms, event->boot);
    }
}

struct past {
    const struct world *world;
    struct rig_event_memory memory;
};

static enum base_status read_past(void *ctx, uint64_t before, struct dev_event *out)
{
    struct past *past = ctx;
    for (uint32_t i = EVENTS_MAX; i-- > 0;) {
        uint64_t seq = past->world->events[i].seq;
        if (past->world->events[i].kind != 0 && before - seq - 1 < INT64_MAX) {
            *out = rig_event_view(&past->world->events[i], &past->memory);
            return BASE_OK;
        }
    }
    return BASE_ERR_NOT_FOUND;
}

static void check_embedding(struct world *world, uint32_t from, uint32_t n,
                            const struct dev_trigger_fired *fired)
{
    const struct oracle_pattern *pattern = &world->patterns[fired->key - 1];
    struct rig_event_memory memory;
    struct dev_event last = rig_event_view(&world->events[n], &memory);
    struct past past = {.world = world};
    uint8_t item = 0;
    for (uint8_t i = 1; i < 8 && fired->item_hash != 0; i++) {
        char text = (char)('0' + i);
        item =
            dev_event_hash(RIG_SECRET, (struct base_str){&text, 1}) == fired->item_hash ? i : item;
    }
    struct oracle_embedding best = {0};
    assert_true(oracle_matches(pattern, world->events, from, n, item, &best));
    struct dev_trigger_embedding made = {0};
    enum base_status status = dev_trigger_embed(world->rig.set, fired, &last,
                                                (struct dev_trigger_past){read_past, &past}, &made);
    const uint64_t *seqs = made.seqs;
    uint32_t count = made.count;
    bool same = status == BASE_OK && count == best.count;
    for (uint32_t i = 0; same && i < count; i++) {
        same = seqs[i] == world->events[best.at[i]].seq;
    }
    if (!same) {
        explain(world, n, (uint32_t)fired->key - 1, true);
        printf("embedding: status %d, %u events for %u\n", status, count, best.count);
        for (uint32_t i = 0; i < count || i < best.count; i++) {
            printf("  %llu, oracle %llu\n", (unsigned long long)(i < count ? seqs[i] : 0),
                   (unsigned long long)(i < best.count ? world->events[best.at[i]].seq : 0));
        }
        fail();
    }
    if (pattern->tail == 0 && pattern->count > 0) {
        assert_true(fired->elapsed_ms <= pattern->within_ms || pattern->within_ms == 0);
    }
}

static void step(struct world *world, uint32_t n)
{
    struct rig_event_memory memory;
    struct dev_event event = rig_event_view(&world->events[n], &memory);
    uint32_t resets[PATTERNS_MAX];
    for (uint32_t i = 0; i < world->count; i++) {
        resets[i] = world->policies[i].reset_at;
    }
    uint32_t count;
    const struct dev_trigger_fired *fired = dev_trigger_on_event(world->rig.engine, &event, &count);
    const struct dev_trigger_fired *of_pattern[PATTERNS_MAX] = {0};
    for (uint32_t i = 0; i < count; i++) {
        assert_true(i == 0 || fired[i - 1].source < fired[i].source);
        if (fired[i].key < 1000) {
            assert_null(of_pattern[fired[i].key - 1]);
            of_pattern[fired[i].key - 1] = &fired[i];
        }
    }
    for (uint32_t i = 0; i < world->count; i++) {
        bool ours = of_pattern[i] != NULL;
        bool theirs = oracle_fires(&world->patterns[i], &world->policies[i], world->events, n);
        if (ours != theirs) {
            explain(world, n, i, ours);
            fail();
        }
        if (ours && world->embed) {
            assert_true(of_pattern[i]->token == dev_trigger_token(i + 1, event.seq));
            check_embedding(world, resets[i], n, of_pattern[i]);
        }
        world->fired += ours;
    }
}

static void check_costs(const struct world *world)
{
    struct dev_trigger_stats stats;
    dev_trigger_stats(world->rig.engine, &stats);
    assert_true(stats.work_seen_max <= world->rig.certificate.work || world->changed);
    assert_true(stats.live_transient <= world->rig.certificate.live_max);
    assert_true(stats.overruns == 0);
    assert_true(stats.lost_partials == 0 || world->changed);
    assert_true(stats.evicted_keys == 0);
    assert_true(dev_trigger_validate(world->rig.engine));
}

static void begin(struct world *world)
{
    memset(world->policies, 0, sizeof world->policies);
    memset(world->events, 0, sizeof world->events);
}

// Patterns over three symbols, no clauses, k <= 6: every string of length 8. A string shares its
// beginning with the one before; the engine starts afresh, the oracle is asked once per prefix.
static void all_strings(void **state)
{
    (void)state;
    static const struct oracle_mix mix = {
        .steps_max = 6, .kinds = 1, .pages = 3, .wild = 20, .gaps = 60};
    enum { LENGTH = 8, STRINGS = 6561 };
    struct base_prng prng;
    test_seed(&prng);
    static struct world world;
    static bool said[LENGTH][PATTERNS_MAX];
    uint64_t sets = number_from("WALLE_TRIGGER_SETS", 6);
    uint64_t strings = 0;
    for (uint64_t set = 0; set < sets; set++) {
        world.count = 0;
        begin(&world);
        make_world(&world, &prng, &mix);
        for (uint32_t string = 0; string < STRINGS; string++) {
            trig_rig_fresh(&world.rig);
            uint32_t from = LENGTH;
            uint32_t digits = string;
            for (uint32_t i = LENGTH; i-- > 0; digits /= 3) {
                uint8_t page = (uint8_t)(1 + digits % 3);
                from = world.events[i].page != page ? i : from;
                world.events[i] = (struct rig_event){
                    .seq = i + 1, .kind = DEV_EVENT_CUSTOM, .page = page, .visit = 1};
            }
            for (uint32_t n = 0; n < LENGTH; n++) {
                struct rig_event_memory memory;
                struct dev_event event = rig_event_view(&world.events[n], &memory);
                uint32_t count;
                const struct dev_trigger_fired *fired =
                    dev_trigger_on_event(world.rig.engine, &event, &count);
                for (uint32_t i = 0, at = 0; i < world.count; i++) {
                    if (n >= from) {
                        said[n][i] =
                            oracle_matches(&world.patterns[i], world.events, 0, n, 0, NULL);
                    }
                    bool ours = at < count && fired[at].source == i;
                    if (ours != said[n][i]) {
                        explain(&world, n, i, ours);
                        fail();
                    }
                    at += ours;
                }
                world.fired += count;
            }
            strings++;
        }
        check_costs(&world);
        trig_rig_done(&world.rig);
    }
    printf("%llu strings, %llu matches, 0 differences\n", (unsigned long long)strings,
           (unsigned long long)world.fired);
    assert_true(world.fired > 1000);
}

// A history: visits open and close, clocks and boots step, seqs have gaps and wrap.
static struct rig_event next_event(struct base_prng *prng, const struct oracle_mix *mix,
                                   const struct rig_event *last, uint32_t *visits)
{
    struct rig_event event = {
        .seq = last->seq + 1,
        .boot = last->boot,
        .mono_us = last->mono_us + base_prng_below(prng, 2500),
        .wall_ms = last->wall_ms + base_prng_below(prng, 3),
        .kind = (uint8_t)(DEV_EVENT_CUSTOM - base_prng_below(prng, mix->kinds)),
        .page = (uint8_t)(1 + base_prng_below(prng, mix->pages)),
        .item = (uint8_t)(mix->items > 0 ? base_prng_below(prng, mix->items + 1) : 0),
        .price = (uint8_t)base_prng_below(prng, 4),
    };
    uint32_t draw = (uint32_t)base_prng_below(prng, 100);
    if (draw < 4) {
        event.seq += 1 + base_prng_below(prng, 3);
    } else if (draw < 7) {
        event.boot++;
        event.mono_us = base_prng_below(prng, 1000);
        event.wall_ms = draw == 4 && last->wall_ms > 10 ? last->wall_ms - 10 : event.wall_ms;
    }
    uint32_t slot = (uint32_t)base_prng_below(prng, 3); // two visits, or none
    event.visit = slot < 2 ? visits[slot] : 0;
    if (event.kind == DEV_EVENT_EXIT && slot < 2) {
        visits[slot] = (visits[0] > visits[1] ? visits[0] : visits[1]) + 1;
    }
    return event;
}

static void run_histories(struct base_prng *prng, const struct oracle_mix *mix, uint64_t events,
                          uint32_t length, struct world *world)
{
    for (uint64_t done = 0; done < events; done += length) {
        begin(world);
        make_world(world, prng, mix);
        uint32_t visits[2] = {1, 2};
        struct rig_event last = {
            .seq = done % 2 == 0 ? 0 : UINT64_MAX - 9, .wall_ms = 1000, .boot = 1};
        for (uint32_t n = 0; n < length; n++) {
            world->events[n] = last = next_event(prng, mix, &last, visits);
            step(world, n);
            uint32_t draw = (uint32_t)base_prng_below(prng, 100);
            if (draw < 4) {
                restart(world);
            } else if (draw < 8) {
                change_set(world, prng, mix);
            }
        }
        check_costs(world);
        trig_rig_done(&world->rig);
    }
}

static void random_histories(void **state)
{
    (void)state;
    static const struct oracle_mix mixes[] = {
        {.steps_max = 4, .kinds = 2, .pages = 2, .items = 2, .wild = 30, .gaps = 60, .extras = 30},
        {.steps_max = 3, .kinds = 3, .pages = 1, .items = 3, .wild = 60, .gaps = 70, .extras = 60},
        {.steps_max = 5, .kinds = 1, .pages = 3, .items = 0, .wild = 10, .gaps = 40, .extras = 20},
        {.steps_max = 2, .kinds = 2, .pages = 2, .items = 1, .wild = 20, .gaps = 90, .extras = 90},
    };
    struct base_prng prng;
    test_seed(&prng);
    static struct world world;
    world.embed = true;
    world.fired = 0;
    uint64_t events = number_from("WALLE_TRIGGER_EVENTS", 60000);
    for (size_t i = 0; i < TEST_COUNT(mixes); i++) {
        run_histories(&prng, &mixes[i], events / TEST_COUNT(mixes), 16, &world);
    }
    printf("%llu events, %llu starts, 0 differences\n", (unsigned long long)events,
           (unsigned long long)world.fired);
    assert_true(world.fired > events / 100);
}

// Long histories, where the oracle is asked now and then, of patterns without policies.
static void long_histories(void **state)
{
    (void)state;
    static const struct oracle_mix mixes[] = {
        {.steps_max = 3, .kinds = 2, .pages = 3, .items = 3, .wild = 30, .gaps = 60, .extras = 15},
        {.steps_max = 2, .kinds = 3, .pages = 3, .items = 5, .wild = 10, .gaps = 80, .extras = 40},
    };
    struct base_prng prng;
    test_seed(&prng);
    static struct world world;
    uint64_t events = number_from("WALLE_TRIGGER_LONG", 60000);
    uint64_t sample = number_from("WALLE_TRIGGER_SAMPLE", 64);
    uint64_t asked = 0;
    uint64_t matched = 0;
    for (uint64_t done = 0; done < events; done += EVENTS_MAX) {
        begin(&world);
        const struct oracle_mix *mix = &mixes[done / EVENTS_MAX % 2];
        make_world(&world, &prng, mix);
        uint32_t visits[2] = {1, 2};
        struct rig_event last = {.wall_ms = 1000, .boot = 1};
        for (uint32_t n = 0; n < EVENTS_MAX; n++) {
            world.events[n] = last = next_event(&prng, mix, &last, visits);
            struct rig_event_memory memory;
            struct dev_event event = rig_event_view(&world.events[n], &memory);
            uint32_t count;
            const struct dev_trigger_fired *fired =
                dev_trigger_on_event(world.rig.engine, &event, &count);
            if (base_prng_below(&prng, sample) != 0) {
                continue;
            }
            for (uint32_t i = 0, at = 0; i < world.count; i++) {
                while (at < count && fired[at].source < i) {
                    at++;
                }
                const struct oracle_pattern *pattern = &world.patterns[i];
                if (pattern->policy != DEV_PATTERN_EACH || pattern->cooldown_ms != 0 ||
                    pattern->per_day != 0) {
                    continue;
                }
                bool ours = at < count && fired[at].source == i;
                bool theirs = oracle_matches(pattern, world.events, 0, n, 0, NULL);
                if (ours != theirs) {
                    explain(&world, n, i, ours);
                    fail();
                }
                asked++;
                matched += ours;
            }
        }
        check_costs(&world);
        trig_rig_done(&world.rig);
    }
    printf("%llu events, %llu times asked, %llu matches, 0 differences\n",
           (unsigned long long)events, (unsigned long long)asked, (unsigned long long)matched);
    assert_true(matched > asked / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_strings),
        cmocka_unit_test(random_histories),
        cmocka_unit_test(long_histories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Which literals of a set an event matches: symbols are looked up from the most open to the most
// exact, each shape once, and only shapes that the set has. Called once for each event, by the
// engine (trigger_engine.c), and by trigger_embed.c for events of the past; pure. The key made here
// is the one that trigger_build.c puts into the set. Work is counted in the units of the
// certificate (trigger_certify.c).
#include "pipeline/trigger/trigger_match.h"
#include "pipeline/trigger/trigger_set.h"

#include "base/check.h"

static uint64_t chain(uint64_t hash, uint64_t value)
{
    return base_mix64(hash ^ value);
}

uint64_t trig_symbol_key(uint32_t shape, uint32_t kind, uint64_t name, uint64_t page, uint64_t item)
{
    return chain(chain(chain(base_mix64((uint64_t)shape << 8 | kind), name), page), item);
}

uint32_t trig_find_symbol(const struct dev_trigger_set *set, uint64_t key)
{
    uint32_t high = (uint32_t)(key >> 32);
    uint32_t at = trig_place(high, set->counts.symbol_span);
    while (set->symbols[at].first != TRIG_NONE && set->symbols[at].high <= high) {
        if (set->symbols[at].high == high && set->symbols[at].low == (uint32_t)key) {
            return at;
        }
        at++;
    }
    return TRIG_NONE;
}

struct dev_pattern_test trig_test_of(const struct dev_trigger_set *set, uint32_t index)
{
    base_assert(index < set->counts.tests);
    const struct trig_test *test = &set->tests[index];
    const char *text = set->texts + test->text_at;
    return (struct dev_pattern_test){
        .attr = {text, test->attr_size},
        .text = {text + test->attr_size, test->text_size},
        .digits = test->digits,
        .scale = test->scale,
        .op = test->op,
        .type = test->type,
    };
}

static bool tests_hold(const struct dev_trigger_set *set, uint32_t literal,
                       const struct dev_event *event, uint64_t *work)
{
    const struct trig_literal *at = &set->literals[literal];
    if ((trig_literal_flags(*at) & TRIG_LIT_ITEM) != 0 && event->item_hash == 0) {
        return false;
    }
    for (uint32_t i = trig_tests(*at); i < trig_tests(at[1]); i++) {
        ++*work;
        struct dev_pattern_test test = trig_test_of(set, i);
        if (!dev_pattern_test_holds(&test, event)) {
            return false;
        }
    }
    return true;
}

// The event's key for a shape, or false: it has not what the shape fixes.
static bool key_of(const struct dev_event *event, uint32_t shape, uint64_t *out)
{
    base_assert(shape < DEV_TRIGGER_SHAPES);
    uint32_t mode = shape / 4;
    bool has_name = event->kind == DEV_EVENT_CUSTOM;
    if ((mode == 2 && !has_name) || ((shape & 1) != 0 && event->item_hash == 0)) {
        return false;
    }
    *out = trig_symbol_key(
        shape, mode == 0 ? 0 : (uint32_t)event->kind, mode == 2 ? event->name_hash : 0,
        (shape & 2) != 0 ? event->page_hash : 0, (shape & 1) != 0 ? event->item_hash : 0);
    return true;
}

bool trig_literal_fixes(const struct dev_trigger_set *set, uint32_t literal,
                        const struct dev_event *event)
{
    base_assert(literal < set->counts.literals);
    for (uint32_t left = set->counts.shapes; left != 0; left &= left - 1) {
        uint64_t key;
        if (key_of(event, (uint32_t)__builtin_ctz(left), &key) &&
            trig_find_symbol(set, key) == set->literals[literal].symbol) {
            return true;
        }
    }
    return false;
}

struct trig_found trig_match_event(const struct dev_trigger_set *set, const struct dev_event *event,
                                   uint32_t *out_literals)
{
    struct trig_found found = {0};
    for (uint32_t left = set->counts.shapes; left != 0; left &= left - 1) {
        uint64_t key;
        found.work++;
        if (!key_of(event, (uint32_t)__builtin_ctz(left), &key)) {
            continue;
        }
        uint32_t symbol = trig_find_symbol(set, key);
        if (symbol == TRIG_NONE) {
            continue;
        }
        found.known = true;
        for (uint32_t i = set->symbols[symbol].first; set->literals[i].symbol == symbol; i++) {
            found.work++;
            if (tests_hold(set, i, event, &found.work)) {
                out_literals[found.count++] = i;
            }
        }
    }
    base_assert(found.count <= set->certificate.matched_max);
    return found;
}

// The trigger tests' rig, and the oracle: recursion over all ways to match, as slow as the
// definition is short. One thread.
#include "trigger_rig.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Sets

enum base_status trig_rig_try(struct trig_rig *rig, const struct dev_trigger_source *sources,
                              uint32_t count, const struct dev_trigger_options *options,
                              struct dev_trigger_fault *fault)
{
    *rig = (struct trig_rig){0};
    const struct dev_trigger_sources all = {sources, count};
    struct dev_trigger_scratch scratch;
    BASE_TRY(dev_trigger_scratch_bytes(&all, &scratch.bytes, fault));
    scratch.memory = malloc(scratch.bytes);
    base_check(scratch.memory != NULL);
    memset(scratch.memory, 0xa5, scratch.bytes);
    enum base_status status = dev_trigger_certify(&all, options, scratch, &rig->certificate, fault);
    if (status == BASE_OK) {
        rig->set_memory = malloc(rig->certificate.set_bytes);
        base_check(rig->set_memory != NULL);
        status = dev_trigger_compile(scratch.memory, rig->set_memory, rig->certificate.set_bytes,
                                     &rig->set);
    }
    free(scratch.memory);
    if (status != BASE_OK) {
        free(rig->set_memory);
        *rig = (struct trig_rig){0};
        return status;
    }
    trig_rig_fresh(rig);
    return BASE_OK;
}

void trig_rig_fresh(struct trig_rig *rig)
{
    free(rig->state_memory);
    size_t bytes = rig->certificate.state_bytes;
    rig->state_memory = malloc(bytes);
    base_check(rig->state_memory != NULL);
    memset(rig->state_memory, 0xa5, bytes);
    base_check(dev_trigger_init(rig->set, rig->state_memory, bytes, &rig->engine) == BASE_OK);
}

void trig_rig_init(struct trig_rig *rig, const char *const *patterns, uint32_t count)
{
    struct dev_trigger_source *sources = calloc(count + 1u, sizeof *sources);
    base_check(sources != NULL);
    for (uint32_t i = 0; i < count; i++) {
        sources[i] = (struct dev_trigger_source){i + 1, base_str_of(patterns[i])};
    }
    const struct dev_trigger_options options = {.secret = RIG_SECRET, .work_max = UINT32_MAX};
    struct dev_trigger_fault fault = {0};
    enum base_status status = trig_rig_try(rig, sources, count, &options, &fault);
    if (status != BASE_OK) {
        fprintf(stderr, "pattern %u, %u:%u: %s\n", fault.source, fault.error.line,
                fault.error.column, fault.error.text);
    }
    base_check(status == BASE_OK);
    free(sources);
}

void trig_rig_done(struct trig_rig *rig)
{
    free(rig->set_memory);
    free(rig->state_memory);
    *rig = (struct trig_rig){0};
}

// ---- Events

struct dev_event rig_event_view(const struct rig_event *event, struct rig_event_memory *memory)
{
    memory->page[0] = (char)('a' + event->page - 1);
    memory->item[0] = (char)('0' + event->item);
    struct dev_event view = {
        .seq = event->seq,
        .mono_us = event->mono_us,
        .wall_ms = event->wall_ms,
        .boot = event->boot,
        .visit = event->visit,
        .kind = event->kind,
        .name = event->kind == DEV_EVENT_CUSTOM ? BASE_STR("n") : (struct base_str){0},
        .page = {memory->page, 1},
        .item = {memory->item, event->item > 0 ? 1 : 0},
        .attrs = memory->attrs,
    };
    view.name_hash = dev_event_hash(RIG_SECRET, view.name);
    view.page_hash = dev_event_hash(RIG_SECRET, view.page);
    view.item_hash = dev_event_hash(RIG_SECRET, view.item);
    if (event->price > 0) {
        const struct dev_event_attr price = {
            .name = BASE_STR("price"), .type = DEV_ATTR_INTEGER, .integer = event->price};
        size_t size;
        base_check(dev_event_attrs_encode(&price, 1, memory->attrs, sizeof memory->attrs, &size) ==
                   BASE_OK);
        view.attrs_bytes = (uint32_t)size;
        view.attr_count = 1;
    }
    return view;
}

// ---- Random patterns and their text

static bool chance(struct base_prng *prng, uint32_t percent)
{
    return base_prng_below(prng, 100) < percent;
}

static struct oracle_literal random_literal(struct base_prng *prng, const struct oracle_mix *mix)
{
    struct oracle_literal literal = {
        .kind = (uint8_t)(DEV_EVENT_CUSTOM - base_prng_below(prng, mix->kinds)),
        .page = (uint8_t)(1 + base_prng_below(prng, mix->pages)),
    };
    if (mix->items > 0 && chance(prng, 25)) {
        literal.item = (uint8_t)(1 + base_prng_below(prng, mix->items));
    } else if (mix->items > 0 && chance(prng, 10)) {
        literal.any_item = true;
    }
    if (chance(prng, mix->wild)) {
        literal.page = 0;
    }
    bool bare = literal.page == 0 && literal.item == 0 && !literal.any_item;
    if (!bare && chance(prng, mix->wild)) {
        literal.kind = 0;
    }
    if (mix->extras > 0 && chance(prng, mix->extras / 2)) {
        literal.price = (uint8_t)(1 + base_prng_below(prng, 3));
    }
    return literal;
}

static void random_extras(struct base_prng *prng, const struct oracle_mix *mix,
                          struct oracle_pattern *out)
{
    if (mix->items > 0 && out->count >= 2 && chance(prng, mix->extras)) {
        uint32_t first = (uint32_t)base_prng_below(prng, out->count - 1);
        uint32_t second = first + 1 + (uint32_t)base_prng_below(prng, out->count - first - 1);
        out->steps[first].literal.marked = true;
        out->steps[second].literal.marked = true;
        for (uint32_t i = first + 1; i <= second; i++) {
            out->steps[i].not_literal.marked = out->steps[i].has_not && chance(prng, 30);
        }
    }
    out->page = chance(prng, mix->extras);
    out->within_ms = chance(prng, mix->extras) ? 1 + (uint32_t)base_prng_below(prng, 6) : 0;
    out->cooldown_ms = chance(prng, mix->extras / 2) ? 1 + (uint32_t)base_prng_below(prng, 6) : 0;
    out->per_day = (uint16_t)(chance(prng, mix->extras / 2) ? 1 + base_prng_below(prng, 2) : 0);
    if (chance(prng, mix->extras)) {
        out->policy = chance(prng, 50) ? DEV_PATTERN_RESET : DEV_PATTERN_ONCE_PER_VISIT;
    }
}

void oracle_random(struct base_prng *prng, const struct oracle_mix *mix, struct oracle_pattern *out)
{
    *out = (struct oracle_pattern){
        .count = 1 + (uint32_t)base_prng_below(prng, mix->steps_max),
    };
    for (uint32_t i = 0; i < out->count; i++) {
        struct oracle_step *step = &out->steps[i];
        step->literal = random_literal(prng, mix);
        if (!chance(prng, mix->gaps)) {
            continue;
        }
        switch (base_prng_below(prng, 5)) {
        case 0:
            step->ones = 1;
            break;
        case 1:
            step->ones = 2;
            break;
        case 2:
            step->spread = (uint8_t)(i > 0 ? 1 + base_prng_below(prng, 2) : 0);
            step->ones = (uint8_t)base_prng_below(prng, 2);
            break;
        case 3:
            step->ones = (uint8_t)base_prng_below(prng, 2);
            step->star = i > 0;
            break;
        default:
            step->star = i > 0;
            step->has_not = step->star && chance(prng, mix->extras);
            break;
        }
        if (step->has_not) {
            step->not_literal = random_literal(prng, mix);
        }
    }
    for (uint32_t i = 0, variants = 1; i < out->count; i++) { // no more than a pattern may have
        variants *= 1u + out->steps[i].spread;
        out->steps[i].spread = variants > DEV_PATTERN_VARIANTS_MAX ? 0 : out->steps[i].spread;
    }
    out->tail = (uint8_t)(chance(prng, mix->gaps / 4) ? 1 : 0);
    random_extras(prng, mix, out);
}

static void add(char *out, const char *text)
{
    size_t used = strlen(out);
    snprintf(out + used, RIG_TEXT_MAX - used, "%s", text);
}

static void print_literal(const struct oracle_literal *literal, char *out)
{
    char text[64];
    add(out, literal->kind == 0                  ? "any"
             : literal->kind == DEV_EVENT_CUSTOM ? "custom:n"
                                                 : dev_event_kind_name(literal->kind));
    const char *before = "(";
    if (literal->page > 0) {
        snprintf(text, sizeof text, "%s%c", before, 'a' + literal->page - 1);
        add(out, text);
        before = ", ";
    }
    if (literal->item > 0 || literal->any_item) {
        snprintf(text, sizeof text, "%sitem=%c", before,
                 literal->any_item ? '*' : '0' + literal->item);
        add(out, text);
        before = ", ";
    }
    if (literal->price > 0) {
        snprintf(text, sizeof text, "%sprice >= %u", before, literal->price);
        add(out, text);
        before = ", ";
    }
    if (before[0] == ',') {
        add(out, ")");
    }
    if (literal->marked) {
        add(out, " same(item)");
    }
}

void oracle_print(const struct oracle_pattern *pattern, char out[RIG_TEXT_MAX])
{
    char text[64];
    out[0] = '\0';
    for (uint32_t i = 0; i < pattern->count; i++) {
        const struct oracle_step *step = &pattern->steps[i];
        if (step->star && !step->has_not) {
            add(out, " *"); // before the ?: the parser is to sort that out
        }
        for (uint32_t k = 0; k < step->ones; k++) {
            add(out, " ?");
        }
        if (step->spread > 0) {
            snprintf(text, sizeof text, " *{0,%u}", step->spread);
            add(out, text);
        }
        if (step->has_not) {
            add(out, " not ");
            print_literal(&step->not_literal, out);
            add(out, " before next");
        }
        add(out, " ");
        print_literal(&step->literal, out);
    }
    add(out, pattern->tail > 0 ? " ? *" : " * *{0,3}");
    if (pattern->within_ms > 0) {
        snprintf(text, sizeof text, " within %ums", pattern->within_ms);
        add(out, text);
    }
    if (pattern->cooldown_ms > 0) {
        snprintf(text, sizeof text, " cooldown %ums", pattern->cooldown_ms);
        add(out, text);
    }
    if (pattern->per_day > 0) {
        snprintf(text, sizeof text, " max %u/day", pattern->per_day);
        add(out, text);
    }
    add(out, pattern->page ? " page" : "");
    add(out, pattern->policy == DEV_PATTERN_RESET            ? " reset"
             : pattern->policy == DEV_PATTERN_ONCE_PER_VISIT ? " once per visit"
                                                             : "");
}

// ---- The oracle

static bool literal_matches(const struct oracle_literal *literal, const struct rig_event *event)
{
    return (literal->kind == 0 || literal->kind == event->kind) &&
           (literal->page == 0 || literal->page == event->page) &&
           (literal->item == 0 || literal->item == event->item) &&
           (!(literal->any_item || literal->marked) || event->item != 0) &&
           (literal->price == 0 || (event->price != 0 && event->price >= literal->price));
}

uint64_t oracle_elapsed_ms(const struct rig_event *events, uint32_t from, uint32_t n)
{
    uint64_t us = 0;
    uint64_t at_from = 0;
    for (uint32_t i = 1; i <= n; i++) {
        bool same_boot = events[i].boot == events[i - 1].boot;
        uint64_t before = same_boot ? events[i - 1].mono_us : events[i - 1].wall_ms * 1000;
        uint64_t after = same_boot ? events[i].mono_us : events[i].wall_ms * 1000;
        if (after < before && i > from) {
            return UINT64_MAX;
        }
        us += after > before ? after - before : 0;
        at_from = i == from ? us : at_from;
    }
    return us / 1000 - at_from / 1000;
}

struct search {
    const struct oracle_pattern *pattern;
    const struct rig_event *events;
    uint32_t from;
    uint32_t n;
    uint8_t item;
    uint32_t literal_at[ORACLE_STEPS_MAX];
    struct oracle_embedding now;
    struct oracle_embedding best;
    bool found;
};

static bool is_whole(const struct search *search)
{
    const struct oracle_pattern *pattern = search->pattern;
    const struct rig_event *events = search->events;
    uint8_t item = 0;
    for (uint32_t i = 0; i < pattern->count; i++) {
        const struct oracle_step *step = &pattern->steps[i];
        uint32_t at = search->literal_at[i];
        if (step->literal.marked && item != 0 && events[at].item != item) {
            return false;
        }
        for (uint32_t x = i > 0 ? search->literal_at[i - 1] + 1 : 0; step->has_not && x < at; x++) {
            if (literal_matches(&step->not_literal, &events[x]) &&
                (!pattern->page || events[x].visit == events[search->n].visit) &&
                (!step->not_literal.marked || events[x].item == item)) {
                return false;
            }
        }
        item = step->literal.marked ? events[at].item : item;
    }
    for (uint32_t i = 0; pattern->page && i < search->now.count; i++) {
        uint32_t visit = events[search->now.at[i]].visit;
        if (visit == 0 || visit != events[search->n].visit) {
            return false;
        }
    }
    return (search->item == 0 || item == 0 || item == search->item) &&
           (pattern->within_ms == 0 ||
            oracle_elapsed_ms(events, search->literal_at[0], search->n) <= pattern->within_ms);
}

static bool is_later(const struct oracle_embedding *a, const struct oracle_embedding *b)
{
    for (uint32_t i = 0; i < a->count && i < b->count; i++) {
        if (a->at[i] != b->at[i]) {
            return a->at[i] > b->at[i];
        }
    }
    return a->count < b->count;
}

// Takes event `at` and as many after it as `events`, in one run. False: they are not all there.
static bool take(struct search *search, uint32_t at, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (at + i > search->n ||
            (i > 0 && search->events[at + i].seq != search->events[at + i - 1].seq + 1)) {
            return false;
        }
        search->now.at[search->now.count++] = at + i;
    }
    return true;
}

// Literal `step` and what stands before it; `at` is the first event that may be taken.
static void try_step(struct search *search, uint32_t step, uint32_t at)
{
    const struct oracle_pattern *pattern = search->pattern;
    uint32_t kept = search->now.count;
    if (step == pattern->count) {
        uint32_t last = search->literal_at[step - 1];
        if (take(search, last, 1u + pattern->tail) && last + pattern->tail == search->n) {
            search->now.count = kept;
            (void)take(search, last + 1, pattern->tail);
            if (is_whole(search) && (!search->found || is_later(&search->now, &search->best))) {
                search->best = search->now;
                search->found = true;
            }
        }
        search->now.count = kept;
        return;
    }
    const struct oracle_step *this = &pattern->steps[step];
    for (uint32_t extra = 0; extra <= this->spread; extra++) {
        uint32_t ones = this->ones + extra;
        // The run of ? begins right behind the step before, or anywhere when it is the first.
        uint32_t first_end = step == 0 ? search->n : at;
        for (uint32_t first = at; first <= first_end; first++) {
            for (uint32_t literal = first + ones;
                 literal <= (this->star ? search->n : first + ones); literal++) {
                search->now.count = kept;
                bool run =
                    step == 0 ? take(search, first, ones) : take(search, first - 1, ones + 1u);
                if (step > 0 && run) { // the step before was taken already
                    search->now.count = kept;
                    (void)take(search, first, ones);
                }
                bool adjacent = this->star || literal == 0 || (ones == 0 && step == 0) ||
                                (literal <= search->n && search->events[literal].seq ==
                                                             search->events[literal - 1].seq + 1);
                if (run && adjacent && literal <= search->n &&
                    literal_matches(&this->literal, &search->events[literal])) {
                    search->literal_at[step] = literal;
                    search->now.at[search->now.count++] = literal;
                    try_step(search, step + 1, literal + 1);
                }
            }
        }
    }
    search->now.count = kept;
}

bool oracle_matches(const struct oracle_pattern *pattern, const struct rig_event *events,
                    uint32_t from, uint32_t n, uint8_t item, struct oracle_embedding *out)
{
    struct search search = {
        .pattern = pattern, .events = events, .from = from, .n = n, .item = item};
    try_step(&search, 0, from);
    if (search.found && out != NULL) {
        *out = search.best;
    }
    return search.found;
}

bool oracle_fires(const struct oracle_pattern *pattern, struct oracle_policy *policy,
                  const struct rig_event *events, uint32_t n)
{
    if (!oracle_matches(pattern, events, policy->reset_at, n, 0, NULL)) {
        return false;
    }
    if (pattern->policy == DEV_PATTERN_RESET) {
        policy->reset_at = n + 1;
    }
    uint32_t visit = events[n].visit;
    for (uint32_t i = 0; pattern->policy == DEV_PATTERN_ONCE_PER_VISIT && i < policy->visit_count;
         i++) {
        if (policy->visits[i] == visit && visit != 0) {
            return false;
        }
    }
    // For policies a step back of the clock is no time at all.
    uint64_t now_ms = 0;
    for (uint32_t i = 1, us = 0; i <= n; i++) {
        bool same_boot = events[i].boot == events[i - 1].boot;
        uint64_t before = same_boot ? events[i - 1].mono_us : events[i - 1].wall_ms * 1000;
        uint64_t after = same_boot ? events[i].mono_us : events[i].wall_ms * 1000;
        us += (uint32_t)(after > before ? after - before : 0);
        now_ms = us / 1000;
    }
    if (pattern->cooldown_ms > 0 && policy->has_start &&
        now_ms - policy->start_ms < pattern->cooldown_ms) {
        return false;
    }
    if (policy->has_day && now_ms - policy->day_ms >= 24ull * 3600 * 1000) {
        policy->has_day = false;
        policy->count = 0;
    }
    if (pattern->per_day > 0 && policy->count >= pattern->per_day) {
        return false;
    }
    policy->day_ms = policy->has_day ? policy->day_ms : now_ms;
    policy->has_day = policy->has_start = true;
    policy->start_ms = now_ms;
    policy->count++;
    if (policy->visit_count < 64) {
        policy->visits[policy->visit_count++] = visit;
    }
    return true;
}

// Walks: events made to match the steps of a pattern, one after the other. What a step asks for
// (kind, name, page, item, attributes) is taken from its literal; attributes are tried until all
// tests of the literal hold. A pattern that cannot be satisfied so is walked as far as it goes, and
// the report then says which step saw no event. Called by sessions, on the shard's thread.
#include "behaviour/user_session.h"

#include "base/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STOPS_SHORT 4   // of so many walks one ends before the last step
#define SETTLE_MS   300 // between events, where the pattern does not ask for less
#define CANDIDATES  3   // of each number: itself, one less, one more

// ---- Literals

bool sim_literal_matches(const struct dev_pattern *pattern,
                         const struct dev_pattern_literal *literal, const struct dev_event *event)
{
    bool same = (literal->kind == 0 || literal->kind == event->kind) &&
                (literal->name.size == 0 || base_str_equal(literal->name, event->name)) &&
                (literal->page.size == 0 || base_str_equal(literal->page, event->page)) &&
                (literal->item.size == 0 || base_str_equal(literal->item, event->item)) &&
                (!literal->any_item || event->item.size > 0) &&
                (!literal->marked || event->item.size > 0);
    for (uint32_t i = 0; same && i < literal->test_count; i++) {
        same = dev_pattern_test_holds(&pattern->tests[literal->test_first + i], event);
    }
    return same;
}

static bool tests_hold(const struct dev_pattern *pattern, const struct dev_pattern_literal *literal,
                       const struct dev_event_attr *attr)
{
    uint8_t bytes[DEV_EVENT_ATTRS_BYTES];
    size_t size = 0;
    if (dev_event_attrs_encode(attr, 1, bytes, sizeof(bytes), &size) != BASE_OK) {
        return false;
    }
    struct dev_event event = {.attrs = bytes, .attrs_bytes = (uint32_t)size, .attr_count = 1};
    for (uint32_t i = 0; i < literal->test_count; i++) {
        const struct dev_pattern_test *test = &pattern->tests[literal->test_first + i];
        if (base_str_equal(test->attr, attr->name) && !dev_pattern_test_holds(test, &event)) {
            return false;
        }
    }
    return true;
}

// A value near the one the test speaks of: 0 the same, 1 less, 2 more.
static void candidate(const struct dev_pattern_test *test, uint32_t which, char *text,
                      struct dev_event_attr *out)
{
    double value = (double)test->digits / pow(10, test->scale);
    *out = (struct dev_event_attr){.name = test->attr, .type = (enum dev_attr_type)test->type};
    switch (out->type) {
    case DEV_ATTR_STRING:
        (void)snprintf(text, DEV_PATTERN_TEXT_MAX, "%.*s%s", (int)test->text.size, test->text.data,
                       which == 0 ? "" : "-");
        out->text = base_str_of(text);
        break;
    case DEV_ATTR_BOOLEAN:
        out->integer = which == 0 ? test->digits : 1 - test->digits;
        break;
    case DEV_ATTR_INTEGER:
        out->integer = which == 0 ? test->digits : test->digits + (which == 1 ? -1 : 1);
        break;
    case DEV_ATTR_REAL:
        out->real = which == 0 ? value : value + (which == 1 ? -0.5 : 0.5);
        break;
    }
}

// Attributes for which all tests of the literal hold, as far as candidates go.
static uint32_t attrs_make(struct sim_walk *walk, const struct dev_pattern_literal *literal)
{
    const struct dev_pattern *pattern = &walk->pattern;
    uint32_t count = 0;
    for (uint32_t i = 0; i < literal->test_count; i++) {
        const struct dev_pattern_test *test = &pattern->tests[literal->test_first + i];
        bool known = false;
        for (uint32_t k = 0; k < count; k++) {
            known |= base_str_equal(walk->attrs[k].name, test->attr);
        }
        for (uint32_t which = 0; !known && which < CANDIDATES * literal->test_count; which++) {
            // Of this test first, then of the others on the same attribute.
            uint32_t other = (i + which / CANDIDATES) % literal->test_count;
            const struct dev_pattern_test *from = &pattern->tests[literal->test_first + other];
            if (base_str_equal(from->attr, test->attr)) {
                candidate(from, which % CANDIDATES, walk->texts[count], &walk->attrs[count]);
                known = tests_hold(pattern, literal, &walk->attrs[count]);
                count += known ? 1 : 0;
            }
        }
    }
    return count;
}

// ---- Steps

static void step_add(struct sim_walk *walk, const struct sim_walk_step *step)
{
    if (walk->count < SIM_WALK_STEPS_MAX) {
        walk->steps[walk->count++] = *step;
    }
}

struct pages {
    struct base_str open[SIM_WALK_OPEN_MAX];
    uint32_t count;
    struct base_str last;
};

static bool is_open(const struct pages *pages, struct base_str page)
{
    for (uint32_t i = 0; i < pages->count; i++) {
        if (base_str_equal(pages->open[i], page)) {
            return true;
        }
    }
    return false;
}

static void page_track(struct pages *pages, enum dev_event_kind kind, struct base_str page)
{
    pages->last = page;
    if (kind == DEV_EVENT_ENTER && !is_open(pages, page) && pages->count < SIM_WALK_OPEN_MAX) {
        pages->open[pages->count++] = page;
    }
    for (uint32_t i = 0; kind == DEV_EVENT_EXIT && i < pages->count; i++) {
        if (base_str_equal(pages->open[i], page)) {
            pages->open[i] = pages->open[--pages->count];
        }
    }
}

// The page an event of the step is on: its own, else the one before, else any.
static struct base_str page_of(const struct pages *pages, const struct dev_pattern_literal *literal)
{
    if (literal->page.size > 0) {
        return literal->page;
    }
    return pages->last.size > 0 ? pages->last : BASE_STR("page");
}

static void literal_add(struct sim_walk *walk, struct pages *pages, uint32_t index)
{
    const struct dev_pattern_literal *literal = &walk->pattern.literals[index];
    enum dev_event_kind kind =
        literal->kind != 0 ? (enum dev_event_kind)literal->kind : DEV_EVENT_CLICK;
    struct base_str page = page_of(pages, literal);
    // An exit is of a page that was entered, and whatever happens, happens on an open page.
    if (kind != DEV_EVENT_ENTER && !is_open(pages, page)) {
        step_add(walk, &(struct sim_walk_step){.kind = DEV_EVENT_ENTER, .page = page});
        page_track(pages, DEV_EVENT_ENTER, page);
    }
    struct base_str name = literal->name;
    if (kind == DEV_EVENT_CUSTOM && name.size == 0) {
        name = BASE_STR("walk");
    }
    step_add(walk, &(struct sim_walk_step){.kind = kind,
                                           .name = name,
                                           .page = page,
                                           .has_item = true,
                                           .literal = (uint8_t)(index + 1)});
    page_track(pages, kind, page);
}

static void between_add(struct sim_walk *walk, struct pages *pages, uint32_t ones)
{
    struct base_str page = pages->last.size > 0 ? pages->last : BASE_STR("page");
    for (uint32_t i = 0; i < ones; i++) {
        step_add(walk, &(struct sim_walk_step){.kind = DEV_EVENT_SCROLL, .page = page});
    }
}

static void steps_make(struct sim_session *session)
{
    struct sim_walk *walk = &session->walk;
    const struct dev_pattern *pattern = &walk->pattern;
    struct pages pages = {0};
    uint32_t steps = pattern->step_count;
    steps -= steps > 1 && base_prng_below(&session->prng, STOPS_SHORT) == 0 ? 1 : 0;
    walk->count = 0;
    walk->at = 0;
    for (uint32_t i = 0; i < steps; i++) {
        between_add(walk, &pages, pattern->gaps[i].ones);
        literal_add(walk, &pages, i);
    }
    between_add(walk, &pages, pattern->tail);
    while (pages.count > 0) {
        struct base_str page = pages.open[pages.count - 1];
        step_add(walk, &(struct sim_walk_step){.kind = DEV_EVENT_EXIT, .page = page});
        pages.count--;
    }
    uint32_t fits = pattern->within_ms > 0 ? pattern->within_ms / (walk->count + 1) : SETTLE_MS;
    walk->gap_ms = fits < SETTLE_MS ? fits : SETTLE_MS;
    (void)snprintf(walk->item, sizeof(walk->item), "i-%u",
                   (unsigned)base_prng_below(&session->prng, 1000000));
}

// ---- Walks

// The next trigger that parses; false: no more.
static bool walk_next_trigger(struct sim_session *session)
{
    const struct sim_triggers *triggers = session->triggers;
    while (triggers != NULL && session->walk.trigger < triggers->count) {
        uint32_t i = session->walk.trigger++;
        struct base_str text = {triggers->text[i], triggers->size[i]};
        if (dev_pattern_parse(text, &session->walk.pattern, NULL) == BASE_OK) {
            steps_make(session);
            return true;
        }
    }
    return false;
}

void sim_walk_begin(struct sim_session *session)
{
    session->walk.trigger = 0;
    session->walk.at = 0;
    session->walk.count = 0;
}

bool sim_walk_next(struct sim_session *session, struct dev_recording *out, uint64_t *out_gap_us)
{
    struct sim_walk *walk = &session->walk;
    while (walk->at == walk->count) {
        if (!walk_next_trigger(session)) {
            return false;
        }
    }
    const struct sim_walk_step *step = &walk->steps[walk->at++];
    *out = (struct dev_recording){.kind = step->kind, .name = step->name, .page = step->page};
    if (step->literal > 0) {
        const struct dev_pattern_literal *literal = &walk->pattern.literals[step->literal - 1];
        out->item = literal->item.size > 0 ? literal->item : base_str_of(walk->item);
        out->attrs = walk->attrs;
        out->attr_count = attrs_make(walk, literal);
    }
    *out_gap_us = (uint64_t)walk->gap_ms * 1000;
    return true;
}

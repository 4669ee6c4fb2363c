// Agreement of two results value by value. Called by device_shadow.c when a shadow's run ended and
// its result is not the active version's to the letter. Pure, any thread.
//
// Scripts decide what results look like, so all is bounded: nesting by a stack of its own
// (DEV_COMPARE_DEPTH_MAX levels), and pairing members by DEV_COMPARE_WORK_MAX bytes read. Members
// in the same order are paired in one pass; from the first that is not, each is searched for in the
// other object. Beyond a bound, and for what is no JSON, the answer is UNKNOWN.
#include "core/run/result_compare.h"

#include "core/run/result_syntax.h"

#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#define SEED_LIST 1u // of a step of the path into a list
#define SEED_NAME 2u // ... into an object

// A list or object that both texts have here, and how far it is compared.
struct level {
    size_t active_open; // position of its bracket
    size_t shadow_open;
    size_t active; // behind what was compared last
    size_t shadow;
    struct base_str name; // of the member under way, as written
    uint32_t index;       // of the element under way
    bool object;
    bool begun;   // `index` is of an element
    bool in_step; // members came in the same order so far
};

struct comparison {
    struct base_str active;
    struct base_str shadow;
    const struct wire_tolerances *tolerances;
    struct dev_difference *difference;
    struct level levels[DEV_COMPARE_DEPTH_MAX];
    uint32_t depth;
    uint32_t work;
};

// ---- Saying where

static size_t put(char *out, size_t size, size_t capacity, const char *text, size_t bytes)
{
    size_t room = capacity - size;
    size_t part = bytes < room ? bytes : room;
    memcpy(out + size, text, part);
    return size + part;
}

// "no value" for one that is not there; texts and what is inside of lists and objects is not told.
static struct base_str value_text(struct base_str text, size_t at)
{
    switch (at < text.size ? text.data[at] : '\0') {
    case '\0':
        return BASE_STR("no value");
    case '"':
        return BASE_STR("a text");
    case '{':
        return BASE_STR("an object");
    case '[':
        return BASE_STR("a list");
    default:
        return (struct base_str){text.data + at, dev_json_token_end(text, at) - at};
    }
}

static size_t put_value(char *out, size_t size, struct base_str value)
{
    size_t bytes = value.size < DEV_DIFFERENCE_VALUE ? value.size : DEV_DIFFERENCE_VALUE;
    return put(out, size, DEV_DIFFERENCE_TEXT, value.data, bytes);
}

// ".scores[3]": one step for each level.
static size_t put_path(const struct comparison *comparison, char *out, size_t size)
{
    size_t capacity = size + DEV_DIFFERENCE_PATH;
    for (uint32_t i = 0; i < comparison->depth; i++) {
        const struct level *level = &comparison->levels[i];
        char index[16];
        int bytes = snprintf(index, sizeof(index), "[%u]", level->index);
        if (!level->object) {
            size = put(out, size, capacity, index, (size_t)bytes);
            continue;
        }
        size = put(out, size, capacity, ".", 1);
        size = put(out, size, capacity, level->name.data, level->name.size);
    }
    return comparison->depth == 0 ? put(out, size, capacity, ".", 1) : size;
}

static uint64_t place_of(const struct comparison *comparison)
{
    uint64_t place = SEED_LIST; // never 0 for long: that stands for no fingerprint
    for (uint32_t i = 0; i < comparison->depth; i++) {
        const struct level *level = &comparison->levels[i];
        uint64_t step = level->object
                            ? base_hash64_seed(level->name.data, level->name.size, SEED_NAME)
                            : SEED_LIST;
        const uint64_t both[2] = {place, step};
        place = base_hash64_seed(both, sizeof(both), SEED_NAME);
    }
    return place;
}

// They differ where the levels point to. A position past the end: there is no value.
static enum dev_agreement differ(struct comparison *comparison, size_t active, size_t shadow)
{
    static const char begin[] = "differs at ";
    struct dev_difference *out = comparison->difference;
    struct base_str one = value_text(comparison->active, active);
    struct base_str other = value_text(comparison->shadow, shadow);
    bool texts = base_str_equal(one, other);
    size_t size = put(out->text, 0, DEV_DIFFERENCE_TEXT, begin, sizeof(begin) - 1);
    size = put_path(comparison, out->text, size);
    size = put(out->text, size, DEV_DIFFERENCE_TEXT, ": ", 2);
    size = put_value(out->text, size, one);
    size = put(out->text, size, DEV_DIFFERENCE_TEXT, " vs ", 4);
    size = put_value(out->text, size, texts ? BASE_STR("another text") : other);
    out->text[size] = '\0';
    out->place = place_of(comparison);
    return DEV_AGREEMENT_DIFFER;
}

// ---- Members

// The next member or element at or behind `at`, which is behind the bracket or behind one; the
// closing bracket when there is none.
static size_t item_next(struct base_str text, size_t at)
{
    at = dev_json_space_end(text, at);
    return text.data[at] == ',' ? dev_json_space_end(text, at + 1) : at;
}

static bool is_close(struct base_str text, size_t at)
{
    return text.data[at] == ']' || text.data[at] == '}';
}

// Name of the member at `at`, without quotes; *out_value is the position of its value.
static struct base_str member(struct base_str text, size_t at, size_t *out_value)
{
    size_t end = dev_json_token_end(text, at);
    size_t colon = dev_json_space_end(text, end);
    *out_value = dev_json_space_end(text, colon + 1);
    return (struct base_str){text.data + at + 1, end - at - 2};
}

// How many members of this name the object that opens at `open` has before position `until`.
static uint32_t count_before(struct comparison *comparison, struct base_str text, size_t open,
                             struct base_str name, size_t until)
{
    uint32_t count = 0;
    size_t at = item_next(text, open + 1);
    while (at < until && !is_close(text, at)) {
        size_t value;
        count += base_str_equal(member(text, at, &value), name) ? 1 : 0;
        at = item_next(text, dev_json_value_end(text, value));
    }
    comparison->work += (uint32_t)(at - open);
    return count;
}

// Value of member number `nth` of this name; text.size: there is none.
static size_t member_find(struct comparison *comparison, struct base_str text, size_t open,
                          struct base_str name, uint32_t nth)
{
    size_t at = item_next(text, open + 1);
    size_t found = text.size;
    while (found == text.size && !is_close(text, at)) {
        size_t value;
        bool same = base_str_equal(member(text, at, &value), name);
        if (same && nth == 0) {
            found = value;
        }
        nth -= same ? 1 : 0;
        at = item_next(text, dev_json_value_end(text, value));
    }
    comparison->work += (uint32_t)(at - open);
    return found;
}

// An object of one of the two results.
struct object {
    struct base_str text; // the whole result
    size_t open;          // where the object opens in it
};

// The partner in `other` of the member of `object` at `at`.
static size_t partner(struct comparison *comparison, struct object object, size_t at,
                      struct object other)
{
    size_t value;
    struct base_str name = member(object.text, at, &value);
    uint32_t nth = count_before(comparison, object.text, object.open, name, at);
    return member_find(comparison, other.text, other.open, name, nth);
}

// ---- Values

static bool is_number(struct base_str text, size_t at)
{
    return text.data[at] == '-' || (text.data[at] >= '0' && text.data[at] <= '9');
}

static bool scalars_agree(const struct comparison *comparison, size_t active, size_t shadow)
{
    struct base_str a = comparison->active;
    struct base_str b = comparison->shadow;
    struct base_str one = {a.data + active, dev_json_token_end(a, active) - active};
    struct base_str other = {b.data + shadow, dev_json_token_end(b, shadow) - shadow};
    if (base_str_equal(one, other)) {
        return true;
    }
    if (!is_number(a, active) || !is_number(b, shadow)) {
        return false;
    }
    bool named = comparison->depth > 0 && comparison->levels[0].object;
    struct base_str field = named ? comparison->levels[0].name : BASE_STR("");
    const struct wire_tolerance *tolerance = wire_tolerances_find(comparison->tolerances, field);
    // Without a tolerance numbers are compared as written.
    return tolerance != NULL && (tolerance->absolute > 0 || tolerance->relative > 0) &&
           dev_number_within(one, other, tolerance->absolute, tolerance->relative);
}

// One value of each. A list or object is entered, its content comes later.
static enum dev_agreement pair(struct comparison *comparison, size_t active, size_t shadow)
{
    char one = comparison->active.data[active];
    char other = comparison->shadow.data[shadow];
    if (one != '{' && one != '[' && other != '{' && other != '[') {
        return scalars_agree(comparison, active, shadow) ? DEV_AGREEMENT_AGREE
                                                         : differ(comparison, active, shadow);
    }
    if (one != other) {
        return differ(comparison, active, shadow);
    }
    comparison->levels[comparison->depth++] = (struct level){
        .active_open = active,
        .shadow_open = shadow,
        .active = active + 1,
        .shadow = shadow + 1,
        .object = one == '{',
        .in_step = true,
    };
    return DEV_AGREEMENT_AGREE;
}

static enum dev_agreement element_step(struct comparison *comparison, struct level *level)
{
    struct base_str a = comparison->active;
    struct base_str b = comparison->shadow;
    size_t active = item_next(a, level->active);
    size_t shadow = item_next(b, level->shadow);
    level->index += level->begun ? 1 : 0;
    level->begun = true;
    bool active_end = is_close(a, active);
    bool shadow_end = is_close(b, shadow);
    if (active_end && shadow_end) {
        comparison->depth--;
        return DEV_AGREEMENT_AGREE;
    }
    if (active_end || shadow_end) {
        return differ(comparison, active_end ? a.size : active, shadow_end ? b.size : shadow);
    }
    level->active = dev_json_value_end(a, active);
    level->shadow = dev_json_value_end(b, shadow);
    return pair(comparison, active, shadow);
}

// All members of the active object have their partner: is there one of the shadow's that is
// nobody's?
static enum dev_agreement members_end(struct comparison *comparison, struct level *level)
{
    struct base_str b = comparison->shadow;
    size_t at = item_next(b, level->in_step ? level->shadow : level->shadow_open + 1);
    while (!is_close(b, at)) {
        size_t value;
        struct base_str name = member(b, at, &value);
        const struct object own = {b, level->shadow_open};
        const struct object other = {comparison->active, level->active_open};
        size_t found =
            level->in_step ? comparison->active.size : partner(comparison, own, at, other);
        if (comparison->work > DEV_COMPARE_WORK_MAX) {
            return DEV_AGREEMENT_UNKNOWN;
        }
        if (found == comparison->active.size) {
            level->name = name;
            return differ(comparison, found, value);
        }
        at = item_next(b, dev_json_value_end(b, value));
    }
    comparison->depth--;
    return DEV_AGREEMENT_AGREE;
}

static enum dev_agreement member_step(struct comparison *comparison, struct level *level)
{
    struct base_str a = comparison->active;
    struct base_str b = comparison->shadow;
    size_t active = item_next(a, level->active);
    if (is_close(a, active)) {
        return members_end(comparison, level);
    }
    size_t value;
    size_t other = b.size;
    level->name = member(a, active, &value);
    level->active = dev_json_value_end(a, value);
    if (level->in_step) {
        size_t shadow = item_next(b, level->shadow);
        level->in_step =
            !is_close(b, shadow) && base_str_equal(member(b, shadow, &other), level->name);
    }
    if (level->in_step) {
        level->shadow = dev_json_value_end(b, other);
    } else {
        other = partner(comparison, (struct object){a, level->active_open}, active,
                        (struct object){b, level->shadow_open});
    }
    if (comparison->work > DEV_COMPARE_WORK_MAX) {
        return DEV_AGREEMENT_UNKNOWN;
    }
    return other == b.size ? differ(comparison, value, other) : pair(comparison, value, other);
}

enum dev_agreement dev_result_compare(struct base_str active, struct base_str shadow,
                                      const struct wire_tolerances *tolerances,
                                      struct dev_difference *out)
{
    if (!dev_json_ok(active, DEV_COMPARE_DEPTH_MAX) ||
        !dev_json_ok(shadow, DEV_COMPARE_DEPTH_MAX)) {
        return DEV_AGREEMENT_UNKNOWN;
    }
    struct comparison comparison = {
        .active = active, .shadow = shadow, .tolerances = tolerances, .difference = out};
    enum dev_agreement agreement =
        pair(&comparison, dev_json_space_end(active, 0), dev_json_space_end(shadow, 0));
    while (agreement == DEV_AGREEMENT_AGREE && comparison.depth > 0) {
        struct level *level = &comparison.levels[comparison.depth - 1];
        agreement =
            level->object ? member_step(&comparison, level) : element_step(&comparison, level);
    }
    return agreement;
}

// Building the trie of a set in scratch memory: patterns are parsed one after the other, each
// variant of one is laid down as a path, equal prefixes are laid down once. Called by certify, on
// the device's thread and where tasks are published; its memory is the caller's.
#include "pipeline/trigger/trigger_build.h"
#include "pipeline/trigger/trigger_match.h"

#include "base/carve.h"
#include "base/check.h"
#include "base/ckd.h"
#include "base/hash.h"

#include <string.h>

static void sift(uint64_t *values, uint32_t at, uint32_t count)
{
    uint64_t moved = values[at];
    for (uint32_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && values[child + 1] > values[child]) {
            child++;
        }
        if (values[child] <= moved) {
            break;
        }
        values[at] = values[child];
        at = child;
    }
    values[at] = moved;
}

void trig_sort(uint64_t *values, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;) {
        sift(values, i, count);
    }
    for (uint32_t i = count; i-- > 1;) {
        uint64_t top = values[0];
        values[0] = values[i];
        values[i] = top;
        sift(values, 0, i);
    }
}

static enum base_status blame(struct dev_trigger_fault *fault, uint32_t source,
                              enum base_status status, const char *text)
{
    base_assert(status != BASE_OK);
    if (fault != NULL) {
        fault->source = source;
        return base_error_set(&fault->error, status, "%s", text);
    }
    return status;
}

static enum base_status parse(const struct dev_trigger_source *source, uint32_t index,
                              struct dev_pattern *out, struct dev_trigger_fault *fault)
{
    struct base_error error = {0};
    enum base_status status = dev_pattern_parse(source->pattern, out, &error);
    if (status != BASE_OK && fault != NULL) {
        *fault = (struct dev_trigger_fault){.source = index, .error = error};
    }
    return status;
}

// ---- How much scratch

static uint32_t steps_of(const struct dev_pattern *pattern)
{
    uint32_t steps = (uint32_t)pattern->literal_count + pattern->tail;
    for (uint32_t i = 0; i < pattern->step_count; i++) {
        steps += (uint32_t)pattern->gaps[i].ones + pattern->gaps[i].spread;
    }
    return steps;
}

static enum base_status measure(const struct dev_trigger_sources *sources, struct trig_counts *room,
                                struct dev_trigger_fault *fault)
{
    uint32_t count = sources->count;
    *room = (struct trig_counts){.sources = count, .nodes = 2};
    if (count > DEV_TRIGGER_SOURCES_MAX) {
        return blame(fault, UINT32_MAX, BASE_ERR_TOO_LARGE, "too many patterns");
    }
    for (uint32_t i = 0; i < count; i++) {
        struct dev_pattern pattern;
        BASE_TRY(parse(&sources->items[i], i, &pattern, fault));
        uint32_t variants = dev_pattern_variants(&pattern);
        base_assert(variants > 0 && pattern.literal_count >= pattern.step_count);
        room->nodes += variants * steps_of(&pattern) + 1;
        if (room->nodes > DEV_TRIGGER_NODES_MAX) {
            return blame(fault, i, BASE_ERR_TOO_LARGE, "the patterns have too many steps");
        }
        room->literals += pattern.literal_count;
        room->watches += variants * (uint32_t)(pattern.literal_count - pattern.step_count);
        room->accepts += variants;
        room->tests += pattern.test_count;
        for (uint32_t t = 0; t < pattern.test_count; t++) {
            room->texts += (uint32_t)(pattern.tests[t].attr.size + pattern.tests[t].text.size);
        }
    }
    return room->literals > DEV_TRIGGER_LITERALS_MAX
               ? blame(fault, UINT32_MAX, BASE_ERR_TOO_LARGE, "the patterns have too many literals")
               : BASE_OK;
}

static size_t lay_out(struct trig_build *build, uint8_t *block)
{
    const struct trig_counts *room = &build->room;
    base_assert(room->nodes <= DEV_TRIGGER_NODES_MAX);
    base_assert(room->literals <= DEV_TRIGGER_LITERALS_MAX);
    build->table = 16;
    while (build->table < 2 * (room->nodes > room->literals ? room->nodes : room->literals)) {
        build->table *= 2;
    }
    struct base_carver carver = {.block = block, .capacity = SIZE_MAX, .alignment = 8};
    (void)base_carve(&carver, 1, sizeof *build);
    build->nodes = base_carve(&carver, room->nodes, sizeof *build->nodes);
    build->literals = base_carve(&carver, room->literals, sizeof *build->literals);
    build->sources = base_carve(&carver, room->sources, sizeof *build->sources);
    build->symbols = base_carve(&carver, room->literals, sizeof *build->symbols);
    build->paths = base_carve(&carver, build->table, sizeof *build->paths);
    build->masks = base_carve(&carver, build->table, sizeof *build->masks);
    build->accepts = base_carve(&carver, room->accepts, sizeof *build->accepts);
    build->nots = base_carve(&carver, room->watches, sizeof *build->nots);
    build->edges = base_carve(&carver, room->nodes, sizeof *build->edges);
    build->keys = base_carve(&carver, room->literals, sizeof *build->keys);
    build->tests = base_carve(&carver, room->tests, sizeof *build->tests);
    build->node_table = base_carve(&carver, build->table, sizeof *build->node_table);
    build->literal_table = base_carve(&carver, build->table, sizeof *build->literal_table);
    build->symbol_table = base_carve(&carver, build->table, sizeof *build->symbol_table);
    build->texts = base_carve(&carver, room->texts, 1);
    return carver.used;
}

enum base_status dev_trigger_scratch_bytes(const struct dev_trigger_sources *sources, size_t *out,
                                           struct dev_trigger_fault *fault)
{
    struct trig_build build = {0};
    BASE_TRY(measure(sources, &build.room, fault));
    *out = lay_out(&build, NULL);
    return BASE_OK;
}

// ---- Literals

static uint64_t chain(uint64_t hash, uint64_t value)
{
    return base_mix64(hash ^ base_mix64(value));
}

static uint64_t hash_of_tests(const struct dev_pattern *pattern,
                              const struct dev_pattern_literal *literal)
{
    uint64_t hash = literal->test_count;
    for (uint32_t i = 0; i < literal->test_count; i++) {
        const struct dev_pattern_test *test = &pattern->tests[literal->test_first + i];
        hash = chain(hash, base_hash64(test->attr.data, test->attr.size));
        hash = chain(hash, base_hash64(test->text.data, test->text.size));
        hash = chain(hash, (uint64_t)test->digits);
        hash = chain(hash, (uint64_t)test->scale << 16 | (uint64_t)test->op << 8 | test->type);
    }
    return hash;
}

static bool same_tests(const struct trig_build *build, const struct build_literal *have,
                       const struct dev_pattern *pattern, const struct dev_pattern_literal *want)
{
    for (uint32_t i = 0; i < want->test_count; i++) {
        const struct trig_test *a = &build->tests[have->tests + i];
        const struct dev_pattern_test *b = &pattern->tests[want->test_first + i];
        const char *text = build->texts + a->text_at;
        if (a->digits != b->digits || a->scale != b->scale || a->op != b->op ||
            a->type != b->type || a->attr_size != b->attr.size || a->text_size != b->text.size ||
            memcmp(text, b->attr.data, b->attr.size) != 0 ||
            (b->text.size > 0 && memcmp(text + a->attr_size, b->text.data, b->text.size) != 0)) {
            return false;
        }
    }
    return true;
}

static void keep_tests(struct trig_build *build, const struct dev_pattern *pattern,
                       const struct dev_pattern_literal *literal)
{
    for (uint32_t i = 0; i < literal->test_count; i++) {
        const struct dev_pattern_test *test = &pattern->tests[literal->test_first + i];
        base_assert(build->counts.tests < build->room.tests && test->attr.size <= UINT8_MAX);
        build->tests[build->counts.tests++] = (struct trig_test){
            .digits = test->digits,
            .text_at = build->counts.texts,
            .attr_size = (uint8_t)test->attr.size,
            .scale = test->scale,
            .op = test->op,
            .type = test->type,
            .text_size = (uint32_t)test->text.size,
        };
        char *at = build->texts + build->counts.texts;
        memcpy(at, test->attr.data, test->attr.size);
        if (test->text.size > 0) {
            memcpy(at + test->attr.size, test->text.data, test->text.size);
        }
        build->counts.texts += (uint32_t)(test->attr.size + test->text.size);
    }
}

static uint32_t intern_symbol(struct trig_build *build, uint64_t key, uint32_t shape)
{
    base_assert(shape < DEV_TRIGGER_SHAPES);
    uint32_t mask = build->table - 1;
    for (uint32_t at = (uint32_t)key & mask;; at = (at + 1) & mask) {
        uint32_t known = build->symbol_table[at];
        if (known != 0 && build->symbols[known - 1].key == key) {
            return known - 1;
        }
        if (known == 0) {
            uint32_t index = build->counts.symbols++;
            base_assert(index < build->room.literals);
            build->symbols[index] = (struct build_symbol){.key = key, .shape = shape};
            build->symbol_table[at] = index + 1;
            build->counts.shapes |= 1u << shape;
            return index;
        }
    }
}

static uint32_t intern_literal(struct trig_build *build, const struct dev_pattern *pattern,
                               const struct dev_pattern_literal *literal)
{
    uint64_t secret = build->options.secret;
    uint32_t mode = literal->kind == 0 ? 0 : literal->name.size > 0 ? 2 : 1;
    uint32_t shape = mode * 4 + (literal->page.size > 0) * 2u + (literal->item.size > 0);
    uint64_t symbol = trig_symbol_key(shape, literal->kind, dev_event_hash(secret, literal->name),
                                      dev_event_hash(secret, literal->page),
                                      dev_event_hash(secret, literal->item));
    uint8_t flags = (uint8_t)((literal->any_item || literal->marked ? TRIG_LIT_ITEM : 0) |
                              (literal->marked ? TRIG_LIT_MARKED : 0));
    uint64_t form = chain(chain(hash_of_tests(pattern, literal), flags), shape);
    uint32_t mask = build->table - 1;
    for (uint32_t at = (uint32_t)chain(form, symbol) & mask;; at = (at + 1) & mask) {
        uint32_t known = build->literal_table[at];
        struct build_literal *have = known != 0 ? &build->literals[known - 1] : NULL;
        if (have != NULL && have->symbol == symbol && have->form == form &&
            have->test_count == literal->test_count && same_tests(build, have, pattern, literal)) {
            return known - 1;
        }
        if (have != NULL) {
            continue;
        }
        uint32_t index = build->counts.literals++;
        base_check(index < build->room.literals);
        uint32_t symbol_index = intern_symbol(build, symbol, shape);
        build->symbols[symbol_index].literals++;
        build->literals[index] = (struct build_literal){.symbol = symbol,
                                                        .form = form,
                                                        .tests = build->counts.tests,
                                                        .symbol_index = symbol_index,
                                                        .test_count = literal->test_count,
                                                        .shape = (uint8_t)shape,
                                                        .flags = flags};
        keep_tests(build, pattern, literal);
        build->literal_table[at] = index + 1;
        return index;
    }
}

// ---- Paths

static uint32_t add_node(struct trig_build *build, uint32_t parent, uint32_t label, uint32_t flags)
{
    uint32_t index = build->counts.nodes++;
    base_check(index < build->room.nodes);
    build->nodes[index] =
        (struct build_node){.parent = parent, .label = label, .flags = flags, .weight = 1};
    return index;
}

static uint32_t add_root(struct trig_build *build, bool page)
{
    build->counts.has_page = build->counts.has_page || page;
    return add_node(build, TRIG_NO_NODE, trig_label(TRIG_EDGE_ROOT, 0) | (page ? TRIG_PAGE_BIT : 0),
                    TRIG_UNTIMED | (page ? TRIG_KEYED : 0));
}

static uint32_t flags_of_child(const struct trig_build *build, uint32_t parent, uint32_t label)
{
    base_assert(parent < build->counts.nodes);
    uint32_t flags = build->nodes[parent].flags & (TRIG_KEYED | TRIG_ITEMIZED | TRIG_UNTIMED);
    uint32_t edge = trig_edge(label);
    if (edge != TRIG_EDGE_ANY) {
        flags &= ~(uint32_t)TRIG_UNTIMED;
    }
    bool literal = edge == TRIG_EDGE_ADJACENT || edge == TRIG_EDGE_GAPPED;
    if (literal && (build->literals[label & TRIG_LITERAL_MASK].flags & TRIG_LIT_MARKED) != 0) {
        flags |= TRIG_KEYED | TRIG_ITEMIZED;
    }
    return flags;
}

static uint32_t child_of(struct trig_build *build, uint32_t parent, uint32_t label)
{
    base_assert(trig_edge(label) != TRIG_EDGE_ROOT);
    static const uint32_t flag_of_edge[] = {
        [TRIG_EDGE_ADJACENT] = TRIG_ADJ,
        [TRIG_EDGE_GAPPED] = TRIG_GAP,
        [TRIG_EDGE_ANY] = TRIG_ANY,
        [TRIG_EDGE_NOT] = TRIG_NOTS,
    };
    uint32_t mask = build->table - 1;
    for (uint32_t at = (uint32_t)trig_edge_hash(parent, label) & mask;; at = (at + 1) & mask) {
        uint32_t known = build->node_table[at];
        struct build_node *node = known != 0 ? &build->nodes[known - 1] : NULL;
        if (node != NULL && node->parent == parent &&
            ((node->label ^ label) & TRIG_KEY_MASK) == 0) {
            return known - 1;
        }
        if (node != NULL) {
            continue;
        }
        uint32_t page = build->nodes[parent].label & TRIG_PAGE_BIT;
        uint32_t index =
            add_node(build, parent, label | page, flags_of_child(build, parent, label));
        build->node_table[at] = index + 1;
        build->nodes[parent].flags |= flag_of_edge[trig_edge(label)];
        build->counts.has_any = build->counts.has_any || trig_edge(label) == TRIG_EDGE_ANY;
        if (trig_edge(label) == TRIG_EDGE_NOT) {
            base_assert(build->counts.watches < build->room.watches);
            build->nots[build->counts.watches++] = (uint64_t)parent << 32 | index;
            build->nodes[parent].weight++;
        }
        return index;
    }
}

static uint32_t any_children(struct trig_build *build, uint32_t node, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        node = child_of(build, node, trig_label(TRIG_EDGE_ANY, 0));
    }
    return node;
}

// The path of the variant that takes spreads[i] more events in gap i. Returns its last node.
static uint32_t lay_path(struct trig_build *build, const struct dev_pattern *pattern,
                         const uint32_t *literals, const uint8_t *spreads, uint32_t root)
{
    base_assert(trig_edge(build->nodes[root].label) == TRIG_EDGE_ROOT);
    uint32_t node = root;
    for (uint32_t i = 0; i < pattern->step_count; i++) {
        const struct dev_pattern_gap *gap = &pattern->gaps[i];
        node = any_children(build, node, (uint32_t)gap->ones + spreads[i]);
        if (gap->not_literal != 0) {
            node = child_of(build, node, trig_label(TRIG_EDGE_NOT, literals[gap->not_literal - 1]));
        }
        node = child_of(build, node,
                        trig_label(gap->star ? TRIG_EDGE_GAPPED : TRIG_EDGE_ADJACENT, literals[i]));
    }
    return any_children(build, node, pattern->tail);
}

static bool next_variant(const struct dev_pattern *pattern, uint8_t *spreads)
{
    for (uint32_t i = 0; i < pattern->step_count; i++) {
        if (spreads[i] < pattern->gaps[i].spread) {
            spreads[i]++;
            return true;
        }
        spreads[i] = 0;
    }
    return false;
}

static void add_source(struct trig_build *build, uint64_t key, const struct dev_pattern *pattern)
{
    uint32_t index = build->counts.sources++;
    base_assert(index < build->room.sources);
    struct build_source *source = &build->sources[index];
    *source = (struct build_source){.key = key,
                                    .within_ms = pattern->within_ms,
                                    .cooldown_ms = pattern->cooldown_ms,
                                    .per_day = pattern->per_day,
                                    .policy = pattern->policy};
    uint32_t literals[DEV_PATTERN_LITERALS_MAX];
    for (uint32_t i = 0; i < pattern->literal_count; i++) {
        literals[i] = intern_literal(build, pattern, &pattern->literals[i]);
    }
    bool apart = pattern->policy == DEV_PATTERN_RESET;
    uint32_t root = pattern->page ? 1 : 0;
    source->node_first = build->counts.nodes;
    if (apart) {
        root = add_root(build, pattern->page);
    }
    uint32_t life = pattern->within_ms != 0 ? pattern->within_ms : UINT32_MAX;
    uint8_t spreads[DEV_PATTERN_STEPS_MAX] = {0};
    uint32_t first_accept = build->counts.accepts;
    do {
        uint32_t last = lay_path(build, pattern, literals, spreads, root);
        build->nodes[last].flags |= TRIG_ACCEPT;
        build->nodes[last].accepts++;
        build->nodes[last].weight++;
        base_assert(build->counts.accepts < build->room.accepts);
        build->accepts[build->counts.accepts++] = (uint64_t)last << 32 | index;
        for (uint32_t node = last; node != TRIG_NO_NODE; node = build->nodes[node].parent) {
            struct build_node *at = &build->nodes[node];
            at->life_ms = at->life_ms > life ? at->life_ms : life;
        }
    } while (next_variant(pattern, spreads));
    source->node_end = apart ? build->counts.nodes : source->node_first;
    for (uint32_t i = first_accept; i < build->counts.accepts; i++) { // a match clears them all
        build->nodes[build->accepts[i] >> 32].weight += source->node_end - source->node_first;
    }
    source->variants = (uint8_t)(build->counts.accepts - first_accept);
    base_assert(source->variants == dev_pattern_variants(pattern));
    bool policy = apart || pattern->policy == DEV_PATTERN_ONCE_PER_VISIT ||
                  pattern->cooldown_ms != 0 || pattern->per_day != 0;
    build->counts.policies += policy;
}

// Two sources with one key could not be told apart after a restart.
static enum base_status check_keys(struct trig_build *build, struct dev_trigger_fault *fault)
{
    uint32_t mask = build->table - 1;
    uint32_t *table = build->literal_table; // all literals are in
    for (uint32_t i = 0; i < build->counts.sources; i++) {
        uint64_t key = build->sources[i].key;
        uint32_t at = (uint32_t)base_mix64(key) & mask;
        for (; table[at] != 0; at = (at + 1) & mask) {
            if (build->sources[table[at] - 1].key == key) {
                return blame(fault, i, BASE_ERR_INVALID, "two patterns have one key");
            }
        }
        table[at] = i + 1;
    }
    return BASE_OK;
}

enum base_status trig_build_all(struct trig_build *build, const struct dev_trigger_source *sources,
                                uint32_t count, struct dev_trigger_fault *fault)
{
    base_assert(count <= build->room.sources);
    build->ready = 0;
    build->counts = (struct trig_counts){0};
    memset(build->node_table, 0, build->table * sizeof *build->node_table);
    memset(build->literal_table, 0, build->table * sizeof *build->literal_table);
    memset(build->symbol_table, 0, build->table * sizeof *build->symbol_table);
    (void)add_root(build, false);
    (void)add_root(build, true);
    build->counts.has_page = false;
    for (uint32_t i = 0; i < count; i++) {
        struct dev_pattern pattern;
        BASE_TRY(parse(&sources[i], i, &pattern, fault));
        build->counts.has_page = build->counts.has_page || pattern.page;
        add_source(build, sources[i].key, &pattern);
    }
    memset(build->literal_table, 0, build->table * sizeof *build->literal_table);
    return check_keys(build, fault);
}

static enum base_status refuse(struct trig_build *build, const struct dev_trigger_sources *sources,
                               struct dev_trigger_fault *fault)
{
    uint32_t work_max = build->options.work_max;
    uint32_t low = 0; // sources that fit
    uint32_t high = sources->count;
    base_assert(high > 0 && build->certificate.work > work_max);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        BASE_TRY(trig_build_all(build, sources->items, middle, fault));
        trig_certify_build(build);
        *(build->certificate.work > work_max ? &high : &low) = middle;
    }
    BASE_TRY(trig_build_all(build, sources->items, high, fault));
    trig_certify_build(build);
    if (fault != NULL) {
        fault->source = high - 1;
        (void)base_error_set(&fault->error, BASE_ERR_LIMIT,
                             "with this pattern an event may cost %llu steps, at most %u; up to "
                             "%u states may be live",
                             (unsigned long long)build->certificate.work, work_max,
                             build->certificate.live_max);
    }
    return BASE_ERR_LIMIT;
}

enum base_status dev_trigger_certify(const struct dev_trigger_sources *sources,
                                     const struct dev_trigger_options *options,
                                     struct dev_trigger_scratch scratch,
                                     struct dev_trigger_certificate *out,
                                     struct dev_trigger_fault *fault)
{
    base_assert((uintptr_t)scratch.memory % 8 == 0);
    struct trig_build *build = scratch.memory;
    struct trig_build plan = {.options = *options};
    BASE_TRY(measure(sources, &plan.room, fault));
    if (lay_out(&plan, NULL) > scratch.bytes) {
        return blame(fault, UINT32_MAX, BASE_ERR_NOMEM, "scratch memory is too small");
    }
    if (plan.options.work_max == 0) {
        plan.options.work_max = DEV_TRIGGER_WORK_MAX;
    }
    if (plan.options.keys_max == 0) {
        plan.options.keys_max = DEV_TRIGGER_KEYS_DEFAULT;
    }
    if (plan.options.keys_max > DEV_TRIGGER_KEYS_MAX) {
        return blame(fault, UINT32_MAX, BASE_ERR_TOO_LARGE, "keys_max is too large");
    }
    (void)lay_out(&plan, scratch.memory);
    *build = plan;
    BASE_TRY(trig_build_all(build, sources->items, sources->count, fault));
    trig_certify_build(build);
    if (build->certificate.work > build->options.work_max) {
        return refuse(build, sources, fault);
    }
    trig_plan_places(build);
    build->certificate.slots = build->counts.slots;
    build->certificate.set_bytes = trig_set_bytes(&build->counts);
    build->certificate.set_bytes_max = trig_set_bytes_max(&build->counts);
    build->certificate.state_bytes = trig_state_bytes(&build->counts, &build->certificate);
    build->ready = 1;
    *out = build->certificate;
    return BASE_OK;
}

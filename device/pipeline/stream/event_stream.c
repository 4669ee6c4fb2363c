// A declared stream: checks of the declaration, the layout of its block, its compiled expressions,
// and what callers read of it. Called when tasks are activated and when results come, on the
// stream's thread. Events are in stream_events.c, windows in stream_window.c.
#include "pipeline/stream/event_stream.h"

#include "pipeline/stream/event_predicate.h"
#include "pipeline/stream/stream_parts.h"

#include "base/carve.h"
#include "base/check.h"

#include <string.h>

#define NODES_DEFAULT_MAX 1024

static const char *const kind_names[DEV_WINDOW_KIND_COUNT] = {
    [DEV_WINDOW_EACH] = "each",       [DEV_WINDOW_TUMBLING] = "tumbling",
    [DEV_WINDOW_HOPPING] = "hopping", [DEV_WINDOW_SLIDING] = "sliding",
    [DEV_WINDOW_SESSION] = "session", [DEV_WINDOW_COUNT] = "count",
    [DEV_WINDOW_PAGE] = "page",
};

enum base_status dev_window_kind_parse(struct base_str text, enum dev_window_kind *out)
{
    for (unsigned kind = 0; kind < DEV_WINDOW_KIND_COUNT; kind++) {
        if (base_str_equal(text, base_str_of(kind_names[kind]))) {
            *out = (enum dev_window_kind)kind;
            return BASE_OK;
        }
    }
    return BASE_ERR_NOT_FOUND;
}

// The declaration with defaults filled in, while it is checked and laid out.
struct plan {
    const struct dev_stream_spec *spec;
    struct dev_aggregate_spec aggregates[DEV_STREAM_AGGREGATES_MAX];
    struct dev_window_spec window;
    uint32_t keys;
    uint32_t nodes;
    uint32_t key_nodes;
    uint32_t join_bytes;
    struct base_error *error;
};

static enum base_status refuse(const struct plan *plan, enum base_status status, const char *what)
{
    base_assert(status != BASE_OK);
    return base_error_set(plan->error, status, "stream %.*s: %s", (int)plan->spec->name.size,
                          plan->spec->name.data, what);
}

// --- checks

static enum base_status name_check(const struct plan *plan)
{
    struct base_str name = plan->spec->name;
    bool good = name.size > 0 && name.size <= DEV_STREAM_NAME_MAX;
    for (size_t i = 0; good && i < name.size; i++) {
        char c = name.data[i];
        good =
            (c >= 'a' && c <= 'z') || (i > 0 && ((c >= '0' && c <= '9') || c == '_' || c == '-'));
    }
    if (!good) {
        return base_error_set(plan->error, BASE_ERR_INVALID,
                              "a stream's name is not [a-z][a-z0-9_-]* of at most 32 bytes");
    }
    return BASE_OK;
}

static bool uses_size(enum dev_window_kind kind)
{
    return kind == DEV_WINDOW_TUMBLING || kind == DEV_WINDOW_HOPPING || kind == DEV_WINDOW_SLIDING;
}

static bool is_paned(enum dev_window_kind kind)
{
    return kind == DEV_WINDOW_TUMBLING || kind == DEV_WINDOW_HOPPING;
}

static enum base_status window_fields_check(const struct plan *plan)
{
    const struct dev_window_spec *window = &plan->window;
    enum dev_window_kind kind = window->kind;
    base_assert((unsigned)kind < DEV_WINDOW_KIND_COUNT);
    bool has_time = uses_size(kind) || kind == DEV_WINDOW_SESSION;
    const struct {
        uint64_t value;
        bool needed;
        bool used;
        const char *missing;
        const char *unused;
    } fields[] = {
        {window->size_ms, uses_size(kind), uses_size(kind), "the window needs size_ms",
         "this window has no size_ms"},
        {window->hop_ms, kind == DEV_WINDOW_HOPPING, kind == DEV_WINDOW_HOPPING,
         "the window needs hop_ms", "this window has no hop_ms"},
        {window->gap_ms, kind == DEV_WINDOW_SESSION, kind == DEV_WINDOW_SESSION,
         "the window needs gap_ms", "this window has no gap_ms"},
        {window->count, kind == DEV_WINDOW_COUNT,
         kind == DEV_WINDOW_COUNT || kind == DEV_WINDOW_SLIDING, "the window needs count",
         "this window has no count"},
        {window->hop_count, false, kind == DEV_WINDOW_COUNT, NULL, "this window has no hop_count"},
        {window->lateness_ms, false, has_time || plan->spec->join.on, NULL,
         "this window has no lateness_ms"},
        {window->allowed_ms, false, is_paned(kind), NULL, "this window has no allowed_ms"},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].value == 0 && fields[i].needed) {
            return refuse(plan, BASE_ERR_INVALID, fields[i].missing);
        }
        if (fields[i].value != 0 && !fields[i].used) {
            return refuse(plan, BASE_ERR_INVALID, fields[i].unused);
        }
        if (fields[i].value > DEV_WINDOW_MS_MAX) {
            return refuse(plan, BASE_ERR_TOO_LARGE, "a time of the window is above 400 days");
        }
    }
    return BASE_OK;
}

// Nodes one key can need at a time.
static uint64_t key_nodes(const struct dev_window_spec *window)
{
    switch (window->kind) {
    case DEV_WINDOW_TUMBLING:
    case DEV_WINDOW_HOPPING:
        return (window->size_ms + window->allowed_ms + window->lateness_ms) / window->hop_ms + 2;
    case DEV_WINDOW_SESSION:
        return window->lateness_ms / window->gap_ms + 3;
    case DEV_WINDOW_SLIDING:
        return window->count;
    case DEV_WINDOW_COUNT:
        return window->hop_count != 0 ? window->count : 1;
    case DEV_WINDOW_PAGE:
        return DEV_WINDOW_VISITS_MAX;
    default:
        return 1;
    }
}

static enum base_status window_check(struct plan *plan)
{
    struct dev_window_spec *window = &plan->window;
    *window = plan->spec->window;
    if ((unsigned)window->kind >= DEV_WINDOW_KIND_COUNT) {
        return refuse(plan, BASE_ERR_UNSUPPORTED, "unknown kind of window");
    }
    BASE_TRY(window_fields_check(plan));
    if (window->kind == DEV_WINDOW_HOPPING && window->size_ms % window->hop_ms != 0) {
        return refuse(plan, BASE_ERR_INVALID, "hop_ms does not divide size_ms");
    }
    window->hop_ms = window->kind == DEV_WINDOW_TUMBLING ? window->size_ms : window->hop_ms;
    if (window->kind == DEV_WINDOW_SLIDING && window->count == 0) {
        window->count = DEV_WINDOW_SLIDE_DEFAULT;
    }
    if (window->kind == DEV_WINDOW_COUNT && window->hop_count == window->count) {
        window->hop_count = 0; // one pane does
    }
    base_assert(!is_paned(window->kind) || window->hop_ms > 0);
    uint64_t needed = key_nodes(window);
    if (needed > DEV_WINDOW_PANES_MAX) {
        return refuse(plan, BASE_ERR_TOO_LARGE, "one key would need more than 1024 panes");
    }
    plan->key_nodes = (uint32_t)needed;
    return BASE_OK;
}

static enum base_status bounds_check(struct plan *plan)
{
    const struct dev_stream_spec *spec = plan->spec;
    plan->keys = spec->keys_max != 0 ? spec->keys_max : DEV_STREAM_KEYS_DEFAULT;
    if (spec->key.size == 0) {
        plan->keys = 1;
    }
    if (plan->keys > DEV_STREAM_KEYS_MAX || spec->nodes_max > DEV_STREAM_NODES_MAX) {
        return refuse(plan, BASE_ERR_TOO_LARGE, "more than 4096 keys or 16384 nodes");
    }
    base_assert(plan->key_nodes > 0 && plan->key_nodes <= DEV_WINDOW_PANES_MAX);
    uint32_t useful = plan->keys * plan->key_nodes;
    uint32_t most = spec->nodes_max != 0 ? spec->nodes_max : NODES_DEFAULT_MAX;
    plan->nodes = useful < most ? useful : most;
    plan->nodes = plan->nodes < plan->key_nodes ? plan->key_nodes : plan->nodes;
    return BASE_OK;
}

static enum base_status join_check(struct plan *plan)
{
    const struct dev_join_spec *join = &plan->spec->join;
    if (!join->on) {
        return BASE_OK;
    }
    if (plan->spec->key.size == 0 || join->key.size == 0) {
        return refuse(plan, BASE_ERR_INVALID, "a join needs a key on both sides");
    }
    if (plan->window.allowed_ms != 0) {
        return refuse(plan, BASE_ERR_INVALID, "allowed_ms cannot be used with a join");
    }
    if (join->within_ms > DEV_WINDOW_MS_MAX) {
        return refuse(plan, BASE_ERR_TOO_LARGE, "within_ms is above 400 days");
    }
    plan->join_bytes = join->buffer_bytes != 0 ? join->buffer_bytes : DEV_JOIN_BYTES_DEFAULT;
    if (plan->join_bytes < DEV_JOIN_BYTES_MIN || plan->join_bytes > DEV_JOIN_BYTES_MAX) {
        return refuse(plan, BASE_ERR_INVALID, "buffer_bytes is not between 4096 and 262144");
    }
    plan->join_bytes &= ~7u;
    return BASE_OK;
}

static enum base_status aggregates_check(struct plan *plan)
{
    const struct dev_stream_spec *spec = plan->spec;
    if (spec->aggregate_count == 0 || spec->aggregate_count > DEV_STREAM_AGGREGATES_MAX) {
        return refuse(plan, BASE_ERR_INVALID, "not 1 to 16 aggregates");
    }
    for (uint32_t i = 0; i < spec->aggregate_count; i++) {
        plan->aggregates[i] = spec->aggregates[i];
        BASE_TRY(dev_aggregate_check(&plan->aggregates[i], plan->error));
        for (uint32_t k = 0; k < i; k++) {
            if (base_str_equal(plan->aggregates[k].name, plan->aggregates[i].name)) {
                return refuse(plan, BASE_ERR_INVALID, "two aggregates have one name");
            }
        }
    }
    return BASE_OK;
}

static enum base_status plan_make(struct plan *plan)
{
    BASE_TRY(name_check(plan));
    BASE_TRY(window_check(plan));
    BASE_TRY(bounds_check(plan));
    BASE_TRY(join_check(plan));
    return aggregates_check(plan);
}

// --- layout

// One of the declaration's expressions.
struct expression {
    struct base_str text; // empty: there is none
    uint32_t flags;       // of dev_predicate_compile
    const char *what;     // it is, for errors
};

// Compiles into the block; measuring, into a buffer. *out stays NULL for an empty text.
static enum base_status program_put(const struct plan *plan, struct base_carver *carver,
                                    struct expression expression, const uint8_t **out)
{
    uint8_t buffer[DEV_PREDICATE_BYTES_MAX];
    struct dev_predicate_program program = {.bytes = buffer, .capacity = sizeof(buffer)};
    *out = NULL;
    if (expression.text.size == 0) {
        return BASE_OK;
    }
    struct base_error inner = {.status = BASE_OK};
    enum base_status status =
        dev_predicate_compile(expression.text, expression.flags, &program, &inner);
    if (status != BASE_OK) {
        (void)base_error_set(plan->error, status, "stream %.*s: %s: %.90s",
                             (int)plan->spec->name.size, plan->spec->name.data, expression.what,
                             inner.text);
        if (plan->error != NULL) {
            plan->error->line = inner.line;
            plan->error->column = inner.column;
        }
        return status;
    }
    base_assert(program.size > 0 && program.size <= sizeof(buffer));
    uint8_t *piece = base_carve(carver, 1, program.size);
    if (piece != NULL) {
        memcpy(piece, buffer, program.size);
        *out = piece;
    }
    return BASE_OK;
}

static struct base_str text_put(struct base_carver *carver, struct base_str text)
{
    char *piece = base_carve(carver, 1, text.size);
    if (piece == NULL || text.size == 0) {
        return (struct base_str){NULL, 0};
    }
    memcpy(piece, text.data, text.size);
    return (struct base_str){piece, text.size};
}

// An expression that several aggregates have is evaluated once.
static uint32_t first_with(const struct dev_stream_spec *spec, uint32_t index)
{
    uint32_t first = 0;
    while (!base_str_equal(spec->aggregates[first].value, spec->aggregates[index].value)) {
        first++;
    }
    return first;
}

static enum base_status programs_put(const struct plan *plan, struct base_carver *carver,
                                     struct dev_stream *stream)
{
    const struct dev_stream_spec *spec = plan->spec;
    uint32_t pair = DEV_PREDICATE_OTHER * spec->join.on;
    const struct expression key = {spec->key, 0, "key"};
    BASE_TRY(program_put(plan, carver, key, &stream->key));
    if (spec->join.on) {
        const struct expression join_key = {spec->join.key, 0, "join key"};
        const struct expression where = {spec->join.where, DEV_PREDICATE_TRUTH | pair, "where"};
        BASE_TRY(program_put(plan, carver, join_key, &stream->join_key));
        BASE_TRY(program_put(plan, carver, where, &stream->where));
    }
    for (uint32_t i = 0; i < spec->aggregate_count; i++) {
        const uint8_t *program = NULL;
        uint32_t first = first_with(spec, i);
        base_assert(first == i || first_with(spec, first) == first);
        if (first == i) {
            const struct expression value = {spec->aggregates[i].value, pair, "value"};
            BASE_TRY(program_put(plan, carver, value, &program));
        }
        if (carver->block != NULL) {
            stream->aggregates[i].value = program;
            stream->aggregates[i].same = first;
        }
    }
    return BASE_OK;
}

// Places of the states in a pane, or of the items in an event's node. Returns bytes of a node.
static size_t offsets_set(const struct plan *plan, struct dev_stream *stream)
{
    size_t states = 0;
    size_t items = 0;
    for (uint32_t i = 0; i < plan->spec->aggregate_count; i++) {
        const struct dev_aggregate_spec *spec = &plan->aggregates[i];
        if (stream->scratch != NULL) {
            stream->aggregates[i].offset = stream->keeps_events ? items : states;
        }
        states += dev_aggregate_bytes(spec);
        items += dev_aggregate_item_bytes(spec);
    }
    base_assert(states % 8 == 0 && items % 8 == 0);
    stream->states_bytes = states;
    return sizeof(struct dev_node) + (stream->keeps_events ? items : states);
}

static bool keeps_events(const struct dev_window_spec *window)
{
    return window->kind == DEV_WINDOW_SLIDING ||
           (window->kind == DEV_WINDOW_COUNT && window->hop_count != 0);
}

// Lays out the block; `stream` is its head, or while measuring a stand-in without aggregates.
static enum base_status block_fill(const struct plan *plan, struct base_carver *carver,
                                   struct dev_stream *stream)
{
    const struct dev_stream_spec *spec = plan->spec;
    stream->window = plan->window;
    stream->keeps_events = keeps_events(&plan->window);
    BASE_TRY(programs_put(plan, carver, stream));
    for (uint32_t i = 0; i < spec->aggregate_count; i++) {
        struct dev_aggregate_spec aggregate = plan->aggregates[i];
        aggregate.name = text_put(carver, aggregate.name);
        aggregate.value = text_put(carver, aggregate.value);
        if (carver->block != NULL) {
            stream->aggregates[i].spec = aggregate;
        }
    }
    (void)offsets_set(plan, stream);
    stream->scratch = base_carve(carver, 1, stream->states_bytes);
    size_t node_bytes = offsets_set(plan, stream);
    base_assert(node_bytes % 8 == 0 && plan->nodes >= plan->key_nodes); // one key can have all
    void *tables = base_carve(carver, 1, dev_keyed_bytes(plan->keys, plan->nodes, node_bytes));
    void *join = base_carve(carver, 1, plan->join_bytes);
    if (carver->full) {
        return refuse(plan, BASE_ERR_TOO_LARGE,
                      carver->block != NULL ? "the block is too small"
                                            : "it would need more than 4 MiB");
    }
    if (carver->block != NULL) {
        dev_keyed_init(&stream->keyed, tables, plan->keys, plan->nodes, node_bytes);
        dev_join_init(&stream->join, join, plan->join_bytes);
    }
    return BASE_OK;
}

static size_t head_bytes(const struct dev_stream_spec *spec)
{
    return sizeof(struct dev_stream) + spec->aggregate_count * sizeof(struct stream_aggregate);
}

enum base_status dev_stream_bytes(const struct dev_stream_spec *spec, size_t *out_bytes,
                                  struct base_error *error)
{
    struct plan plan = {.spec = spec, .error = error};
    struct dev_stream head = {.seen = false};
    struct base_carver carver = {.capacity = DEV_STREAM_BYTES_MAX, .alignment = 8};
    BASE_TRY(plan_make(&plan));
    (void)base_carve(&carver, 1, head_bytes(spec));
    BASE_TRY(block_fill(&plan, &carver, &head));
    *out_bytes = carver.used;
    return BASE_OK;
}

enum base_status dev_stream_init(struct dev_stream_block block, const struct dev_stream_spec *spec,
                                 struct dev_stream_sink sink, struct dev_stream **out,
                                 struct base_error *error)
{
    struct plan plan = {.spec = spec, .error = error};
    BASE_TRY(plan_make(&plan));
    if (block.memory == NULL || (uintptr_t)block.memory % 8 != 0 ||
        block.bytes < head_bytes(spec)) {
        return refuse(&plan, BASE_ERR_TOO_LARGE, "the block is too small, or not aligned to 8");
    }
    struct base_carver carver = {
        .block = block.memory,
        .capacity = block.bytes < DEV_STREAM_BYTES_MAX ? block.bytes : DEV_STREAM_BYTES_MAX,
        .alignment = 8,
    };
    struct dev_stream *stream = base_carve(&carver, 1, head_bytes(spec));
    memset(stream, 0, head_bytes(spec));
    BASE_TRY(block_fill(&plan, &carver, stream));
    stream->sink = sink;
    stream->joined = spec->join.on;
    stream->within_ms = spec->join.within_ms;
    stream->key_nodes_max = plan.key_nodes;
    stream->aggregate_count = spec->aggregate_count;
    stream->due = UINT64_MAX;
    base_assert(dev_stream_validate(stream));
    *out = stream;
    return BASE_OK;
}

// --- what callers read

const void *dev_stream_answer_state(const struct dev_stream_result *result, uint32_t index)
{
    const struct dev_stream *stream = result->stream;
    base_check(index < stream->aggregate_count);
    size_t at = 0; // offsets in a node may be of items; those of states are sums of sizes
    for (uint32_t i = 0; i < index; i++) {
        at += dev_aggregate_bytes(&stream->aggregates[i].spec);
    }
    return result->states + at;
}

struct dev_value dev_stream_answer(const struct dev_stream_result *result, uint32_t index)
{
    return dev_aggregate_value(&result->stream->aggregates[index].spec,
                               dev_stream_answer_state(result, index));
}

void dev_stream_stats(const struct dev_stream *stream, struct dev_stream_stats *out)
{
    *out = stream->stats;
}

bool dev_stream_validate(const struct dev_stream *stream)
{
    return dev_keyed_validate(&stream->keyed) && stream->join.head <= stream->join.tail &&
           stream->join.tail <= stream->join.capacity;
}

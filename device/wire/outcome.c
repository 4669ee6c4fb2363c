// The codec of outcomes and of their figures; what kinds there are and what they say of a version.
// Devices encode in their loop, gateways parse on their workers and on the writer's thread. Pure,
// nothing is allocated.
#include "wire/outcome.h"

#include "base/check.h"

#define FIGURES_FOLLOW 128u // in the byte of the kind

bool wire_outcome_kind_ok(unsigned kind)
{
    switch (kind) {
#define CASE_KIND(name, value, text) case value:
        WIRE_OUTCOME_MAP(CASE_KIND)
#undef CASE_KIND
        return true;
    default:
        return false;
    }
}

bool wire_outcome_is_failure(enum wire_outcome_kind kind)
{
    return kind >= WIRE_OUTCOME_FIRST_FAILURE;
}

bool wire_outcome_blames(enum wire_outcome_kind kind)
{
    return wire_outcome_is_failure(kind) && kind != WIRE_OUTCOME_FAIL_INTEGRITY;
}

const char *wire_outcome_name(enum wire_outcome_kind kind)
{
    switch (kind) {
#define CASE_NAME(name, value, text)                                                               \
    case WIRE_OUTCOME_##name:                                                                      \
        return text;
        WIRE_OUTCOME_MAP(CASE_NAME)
#undef CASE_NAME
    }
    return "unknown";
}

// ---- Figures

#define FIGURE_ONE(name) +1
enum { FIGURES = 0 WIRE_FIGURE_MAP(FIGURE_ONE) };
#undef FIGURE_ONE

_Static_assert(FIGURES * 10 <= WIRE_FIGURES_BYTES_MAX, "whatever they are, they fit");

// How many there are up to the last that is not 0.
static unsigned figures_take(const struct wire_figures *figures, uint64_t out[FIGURES])
{
    unsigned at = 0;
    unsigned count = 0;
#define FIGURE_TAKE(name)                                                                          \
    out[at++] = figures->name;                                                                     \
    count = figures->name != 0 ? at : count;
    WIRE_FIGURE_MAP(FIGURE_TAKE)
#undef FIGURE_TAKE
    return count;
}

bool wire_figures_any(const struct wire_figures *figures)
{
    uint64_t values[FIGURES];
    return figures_take(figures, values) > 0;
}

void wire_figures_write(struct base_writer *writer, const struct wire_figures *figures)
{
    uint64_t values[FIGURES];
    uint8_t bytes[WIRE_FIGURES_BYTES_MAX];
    struct base_writer inner;
    unsigned count = figures_take(figures, values);
    base_writer_init(&inner, bytes, sizeof(bytes));
    for (unsigned i = 0; i < count; i++) {
        base_writer_varint(&inner, values[i]);
    }
    base_writer_u8(writer, (uint8_t)base_writer_size(&inner));
    base_writer_bytes(writer, bytes, base_writer_size(&inner));
}

void wire_figures_read(struct base_reader *reader, struct wire_figures *out)
{
    _Static_assert(WIRE_FIGURES_BYTES_MAX <= UINT8_MAX, "their size is a byte");
    struct base_reader inner;
    uint64_t value = 0;
    size_t size = base_reader_u8(reader);
    const uint8_t *bytes = base_reader_bytes(reader, size);
    *out = (struct wire_figures){0};
    if (size > WIRE_FIGURES_BYTES_MAX) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    if (reader->status != BASE_OK) {
        return;
    }
    base_reader_init(&inner, bytes, size);
#define FIGURE_READ(name)                                                                          \
    if (base_reader_left(&inner) > 0) {                                                            \
        value = base_reader_varint(&inner);                                                        \
        out->name = value;                                                                         \
    }
    WIRE_FIGURE_MAP(FIGURE_READ)
#undef FIGURE_READ
    while (base_reader_left(&inner) > 0 && inner.status == BASE_OK) { // of those that are not known
        value = base_reader_varint(&inner);
    }
    if (inner.status != BASE_OK || value == 0) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
}

// ---- Outcomes

void wire_outcome_write(struct base_writer *writer, const struct wire_outcome *outcome)
{
    bool figures = wire_figures_any(&outcome->figures);
    base_writer_u8(writer, (uint8_t)((unsigned)outcome->kind | (figures ? FIGURES_FOLLOW : 0)));
    base_writer_u64(writer, outcome->task_id);
    base_writer_u64(writer, outcome->version_id);
    base_writer_u64(writer, outcome->rollout_id);
    base_writer_varint(writer, outcome->duration_us);
    base_writer_u64(writer, outcome->fingerprint);
    if (figures) {
        wire_figures_write(writer, &outcome->figures);
    }
}

bool wire_outcome_read(struct base_reader *reader, struct wire_outcome *out)
{
    unsigned first = base_reader_u8(reader);
    if (!wire_outcome_kind_ok(first & ~FIGURES_FOLLOW)) {
        base_reader_fail(reader, BASE_ERR_INVALID);
    }
    out->kind = (enum wire_outcome_kind)(first & ~FIGURES_FOLLOW);
    out->task_id = base_reader_u64(reader);
    out->version_id = base_reader_u64(reader);
    out->rollout_id = base_reader_u64(reader);
    out->duration_us = base_reader_varint(reader);
    out->fingerprint = base_reader_u64(reader);
    out->figures = (struct wire_figures){0};
    bool figures = (first & FIGURES_FOLLOW) != 0;
    if (figures) {
        wire_figures_read(reader, &out->figures);
    }
    return figures;
}

// See delta_make.h. The new content is gone through in stretches: each is planned (delta_plan.h),
// and every run of a plan becomes pieces. In which form is tried out on a sample: prices tell the
// width of numbers, not how their bytes compress.
#include "svc/content/delta_make.h"

#include "svc/content/delta_plan.h"

#include "base/cursor.h"
#include "wire/delta_piece.h"

#include <stdlib.h>
#include <string.h>

#define STRETCH_BYTES WIRE_DELTA_PIECE_BYTES_MAX
#define SAMPLE_BYTES  (64u * 1024)
#define FORMS_MAX     7u
#define DEAR_BITS     2u    // a byte: then the content may have moved by more than its ends say
#define GROUP_MIN     4096u // numbers of like exponents; fewer share a block
_Static_assert(STRETCH_BYTES / GW_DELTA_CHUNK_BYTES + 1 <= GW_DELTA_RUNS_MAX, "runs of a plan");

struct maker {
    const struct gw_dictionary *dictionary;
    struct gw_delta_pair pair;
    struct gw_zstd_packer *packer;
    struct gw_delta_index *index; // NULL: not needed so far
    uint64_t cursor;              // in the old content, as the receiver counts
    uint8_t payload[WIRE_DELTA_PIECE_BYTES_MAX];
};

// Forms a run may take, the last FORMS_MAX entries unused where fewer are worth a try.
struct forms {
    uint32_t count;
    uint8_t form[FORMS_MAX];
};

static const struct forms forms_of[GW_DELTA_WAY_COUNT] = {
    [GW_DELTA_SAME] = {1, {WIRE_DELTA_COPY}},
    [GW_DELTA_BYTES] = {4,
                        {WIRE_DELTA_BYTES, WIRE_DELTA_BYTES | WIRE_DELTA_SPARSE, WIRE_DELTA_F16,
                         WIRE_DELTA_BF16}},
    [GW_DELTA_PAIRS] = {5,
                        {WIRE_DELTA_F16, WIRE_DELTA_BF16, WIRE_DELTA_F16 | WIRE_DELTA_SPARSE,
                         WIRE_DELTA_BF16 | WIRE_DELTA_SPARSE,
                         WIRE_DELTA_F16 | WIRE_DELTA_SPARSE | WIRE_DELTA_WHOLE}},
    [GW_DELTA_QUADS] = {6,
                        {WIRE_DELTA_F32, WIRE_DELTA_F32 | WIRE_DELTA_SPARSE,
                         WIRE_DELTA_F32 | WIRE_DELTA_SPARSE | WIRE_DELTA_WHOLE,
                         WIRE_DELTA_F32 | WIRE_DELTA_WHOLE, WIRE_DELTA_F16, WIRE_DELTA_BF16}},
    [GW_DELTA_NEW] = {3,
                      {WIRE_DELTA_BYTES | WIRE_DELTA_WHOLE, WIRE_DELTA_F32 | WIRE_DELTA_WHOLE,
                       WIRE_DELTA_F16 | WIRE_DELTA_WHOLE}},
};

static enum gw_delta_way plain_way(enum gw_delta_way way)
{
    if (way >= GW_DELTA_QUADS && way <= GW_DELTA_QUADS_3) {
        return GW_DELTA_QUADS;
    }
    return way == GW_DELTA_PAIRS_1 ? GW_DELTA_PAIRS : way;
}

// ---- Pieces

static enum base_status split(struct maker *maker, struct wire_delta_piece *piece, size_t at)
{
    const uint8_t *old = wire_delta_uses_old(piece->form) ? maker->pair.old + piece->from : NULL;
    return wire_delta_split(piece, old, maker->pair.fresh + at, maker->payload);
}

// Bytes of each part of a payload: the gaps, then the planes.
static uint32_t part_bytes(const struct wire_delta_piece *piece, uint32_t part)
{
    uint32_t planes = wire_delta_payload_bytes(piece) - piece->gaps_bytes;
    return part == 0 ? piece->gaps_bytes : planes / wire_delta_width(piece->form);
}

static size_t price(struct maker *maker, const struct wire_delta_piece *piece)
{
    size_t sum = 0;
    size_t at = 0;
    for (uint32_t part = 0; part <= wire_delta_width(piece->form); part++) {
        size_t size = part_bytes(piece, part);
        sum += gw_zstd_packer_try(maker->packer, maker->payload + at, size);
        at += size;
    }
    return sum;
}

// The form of the lowest price for a piece that begins at `at`.
static uint8_t form_choose(struct maker *maker, const struct wire_delta_piece *piece, size_t at,
                           const struct forms *forms)
{
    uint8_t best = forms->form[0];
    size_t best_price = SIZE_MAX;
    size_t skip = piece->bytes > SAMPLE_BYTES ? (piece->bytes - SAMPLE_BYTES) / 8 * 4 : 0;
    for (uint32_t i = 0; i < forms->count && forms->count > 1; i++) {
        struct wire_delta_piece sample = *piece;
        sample.form = forms->form[i];
        sample.from += skip;
        sample.bytes = piece->bytes > SAMPLE_BYTES ? SAMPLE_BYTES : piece->bytes;
        sample.bytes -= sample.bytes % wire_delta_width(sample.form);
        if (sample.bytes == 0 || split(maker, &sample, at + skip) != BASE_OK) {
            continue;
        }
        size_t made = price(maker, &sample);
        best = made < best_price ? sample.form : best;
        best_price = made < best_price ? made : best_price;
    }
    return best;
}

// One plane, with statistics of their own for exponents that are frequent enough.
static enum base_status plane_pack(struct maker *maker, const uint8_t *plane,
                                   const uint32_t ends[WIRE_DELTA_CLASSES])
{
    uint32_t from = 0;
    uint32_t last = ends[WIRE_DELTA_CLASSES - 1];
    for (uint32_t i = 0; i < WIRE_DELTA_CLASSES && from < last; i++) {
        bool rest = last - ends[i] < GROUP_MIN;
        uint32_t to = rest ? last : ends[i];
        if (to - from >= GROUP_MIN || to == last) {
            BASE_TRY(
                gw_zstd_packer_add(maker->packer, plane + from, to - from, to - from >= GROUP_MIN));
            from = to;
        }
    }
    return BASE_OK;
}

static enum base_status piece_pack(struct maker *maker, struct wire_delta_piece *piece, size_t at)
{
    uint8_t head[WIRE_DELTA_PIECE_HEAD_MAX];
    uint32_t ends[WIRE_DELTA_CLASSES];
    struct base_writer writer;
    BASE_TRY(split(maker, piece, at));
    base_writer_init(&writer, head, sizeof(head));
    wire_delta_piece_write(&writer, piece, &maker->cursor);
    BASE_TRY(gw_zstd_packer_add(maker->packer, head, base_writer_size(&writer), false));
    BASE_TRY(gw_zstd_packer_add(maker->packer, maker->payload, piece->gaps_bytes,
                                piece->gaps_bytes >= GROUP_MIN));
    if (piece->form == WIRE_DELTA_COPY) {
        return BASE_OK;
    }
    wire_delta_class_ends(piece, maker->pair.old + piece->from, maker->payload, ends);
    for (uint32_t i = 0; i < wire_delta_width(piece->form); i++) {
        BASE_TRY(plane_pack(
            maker, maker->payload + piece->gaps_bytes + (size_t)i * ends[WIRE_DELTA_CLASSES - 1],
            ends));
    }
    return BASE_OK;
}

// One piece of at most `size` bytes at `at`, as the run says; *out_bytes is how many it took.
static enum base_status piece_add(struct maker *maker, const struct gw_delta_run *run, size_t at,
                                  size_t size, size_t *out_bytes)
{
    const struct forms *forms = &forms_of[plain_way(run->way)];
    struct wire_delta_piece piece = {.bytes = (uint32_t)size};
    if (run->way != GW_DELTA_NEW) {
        piece.from = (uint64_t)((int64_t)at + run->shift);
        size_t there = maker->pair.old_size - (size_t)piece.from;
        piece.bytes = there < size ? (uint32_t)there : (uint32_t)size;
    }
    piece.form = form_choose(maker, &piece, at, forms);
    piece.bytes -= piece.bytes % wire_delta_width(piece.form);
    if (piece.bytes == 0) { // the end of a run, shorter than a number
        piece = (struct wire_delta_piece){.form = WIRE_DELTA_BYTES | WIRE_DELTA_WHOLE,
                                          .bytes = (uint32_t)size};
    }
    piece.from = wire_delta_uses_old(piece.form) ? piece.from : 0;
    enum base_status status = piece_pack(maker, &piece, at);
    if (status == BASE_ERR_TOO_LARGE && (piece.form & WIRE_DELTA_SPARSE) != 0) {
        piece.form &= (uint8_t)~WIRE_DELTA_SPARSE; // the sample was not like the rest
        piece.from = wire_delta_uses_old(piece.form) ? piece.from : 0;
        status = piece_pack(maker, &piece, at);
    }
    *out_bytes = piece.bytes;
    return status;
}

// ---- Stretches

// The first position from `from` on at which a number of this run begins.
static size_t aligned(const struct gw_delta_run *run, size_t from, size_t end)
{
    size_t skip = 0;
    if (run->way >= GW_DELTA_QUADS && run->way <= GW_DELTA_QUADS_3) {
        skip = ((size_t)(run->way - GW_DELTA_QUADS) - from) & 3;
    } else if (run->way == GW_DELTA_PAIRS || run->way == GW_DELTA_PAIRS_1) {
        skip = ((size_t)(run->way - GW_DELTA_PAIRS) - from) & 1;
    }
    return from + skip < end ? from + skip : end;
}

// Of a run another follows. It goes on to the first number of that, unless it is of equal bytes:
// those behind it may not be.
static size_t run_end(const struct gw_delta_run *run, size_t end)
{
    return run->way == GW_DELTA_SAME ? run[1].from : aligned(&run[1], run[1].from, end);
}

// The pieces of a plan, from `at` on; *at is where they end: at `end`, or when the content goes on
// less than a number before it.
static enum base_status stretch_add(struct maker *maker, const struct gw_delta_plan *plan,
                                    size_t end, size_t *at)
{
    static const struct gw_delta_run bytes = {.way = GW_DELTA_NEW};
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct gw_delta_run *run = &plan->runs[i];
        size_t from = aligned(run, run->from > *at ? run->from : *at, end);
        bool last = i + 1 == plan->count;
        size_t to = last ? end : run_end(run, end);
        while (*at < to) {
            size_t took = 0;
            bool before = *at < from; // bytes in front of the first number
            size_t left = (before ? from : to) - *at;
            if (last && !before && left < sizeof(uint32_t) && end < maker->pair.fresh_size) {
                return BASE_OK; // the next stretch begins with them
            }
            BASE_TRY(piece_add(maker, before ? &bytes : run, *at, left, &took));
            *at += took;
        }
    }
    return BASE_OK;
}

// Most content stands where it stood, or as far from the end: where it was is looked up only when
// it seems not to.
static enum base_status stretch_plan(struct maker *maker, size_t from, size_t to,
                                     struct gw_delta_plan *plan)
{
    struct gw_delta_shifts voted = {.count = 0};
    int64_t last_shift = plan->last_shift;
    if (gw_delta_plan_make(&maker->pair, from, to, &voted, plan) < (to - from) * DEAR_BITS) {
        return BASE_OK;
    }
    if (maker->index == NULL) {
        BASE_TRY(gw_delta_index_new(&maker->pair, &maker->index));
    }
    gw_delta_index_vote(maker->index, from, to, &voted);
    if (voted.count > 0) {
        plan->last_shift = last_shift;
        (void)gw_delta_plan_make(&maker->pair, from, to, &voted, plan);
    }
    return BASE_OK;
}

static bool is_stopping(const struct gw_dictionary *dictionary)
{
    return dictionary->stopping != NULL && dictionary->stopping(dictionary->ctx);
}

static enum base_status pieces_add(struct maker *maker)
{
    struct gw_delta_plan *plan = calloc(1, sizeof(*plan));
    enum base_status status = plan != NULL ? BASE_OK : BASE_ERR_NOMEM;
    size_t size = maker->pair.fresh_size;
    for (size_t at = 0; status == BASE_OK && at < size;) {
        size_t end = size - at < STRETCH_BYTES ? size : at + STRETCH_BYTES;
        status =
            is_stopping(maker->dictionary) ? BASE_ERR_BUSY : stretch_plan(maker, at, end, plan);
        if (status == BASE_OK) {
            status = stretch_add(maker, plan, end, &at);
        }
    }
    free(plan);
    return status;
}

static enum base_status content_pack(struct maker *maker, uint8_t *out, size_t capacity,
                                     size_t *out_size)
{
    BASE_TRY(gw_zstd_packer_new(out, capacity, &maker->packer));
    enum base_status status = pieces_add(maker);
    if (status == BASE_OK) {
        status = gw_zstd_packer_end(maker->packer, out_size);
    }
    gw_zstd_packer_free(maker->packer);
    gw_delta_index_free(maker->index);
    return status;
}

enum base_status gw_wdelta_make(const struct gw_dictionary *dictionary, const uint8_t *bytes,
                                size_t size, uint8_t **out_bytes, size_t *out_size)
{
    size_t worth = size - size / 10;
    size_t packed = 0;
    if (worth <= WIRE_DELTA_HEAD_BYTES || dictionary->size == 0 || size > UINT32_MAX ||
        dictionary->size > UINT32_MAX) {
        return BASE_ERR_UNSUPPORTED;
    }
    uint8_t *out = malloc(worth);
    struct maker *maker = calloc(1, sizeof(*maker));
    enum base_status status = out != NULL && maker != NULL ? BASE_OK : BASE_ERR_NOMEM;
    if (status == BASE_OK) {
        maker->dictionary = dictionary;
        maker->pair = (struct gw_delta_pair){dictionary->bytes, dictionary->size, bytes, size};
        memcpy(out, WIRE_DELTA_MAGIC, WIRE_DELTA_MAGIC_BYTES);
        memcpy(out + WIRE_DELTA_MAGIC_BYTES, dictionary->digest.bytes, WIRE_SHA256_BYTES);
        status = content_pack(maker, out + WIRE_DELTA_HEAD_BYTES, worth - WIRE_DELTA_HEAD_BYTES,
                              &packed);
    }
    free(maker);
    if (status != BASE_OK) {
        free(out);
        return status;
    }
    gw_zstd_fit(out, WIRE_DELTA_HEAD_BYTES + packed, out_bytes, out_size);
    return BASE_OK;
}

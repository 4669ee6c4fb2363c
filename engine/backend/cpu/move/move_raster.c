// Prepares RASTER: every region becomes a move (move_run.h) of the fastest kind that fits it, pairs
// of regions that interleave become one, and work is shared among threads by units of about equal
// size. Prepared on the planning thread, run on the pool.
#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/move/move_run.h"
#include "base/check.h"

#include <stdlib.h>
#include <string.h>

#define PIECE         16384 // elements of a run that is cut into units
#define PAIR_WINDOW   4     // regions looked at for the other half of an interleave
#define TRANSPOSE_MIN 4     // rows and columns
#define DIMS          ENG_REGION_RANK_MAX

struct raster_state {
    const struct eng_vec_kernels *kernels;
    const struct eng_move *moves;
    uint32_t count;
    int64_t units, grain;
    int64_t elements;            // of the output, in elements of the moves when there is one
    struct eng_move_weave weave; // instead of moves, when row_count > 0
    int64_t clear_bytes;         // 0: nothing to clear first
};

struct raster_run {
    const struct raster_state *state;
    struct eng_move_data data;
};

static void run_units(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct raster_run *r = ctx;
    const struct raster_state *s = r->state;
    uint32_t low = 0;
    uint32_t high = s->count;
    while (high - low > 1) { // the move that holds `begin`
        uint32_t middle = low + (high - low) / 2;
        if (s->moves[middle].first_unit <= begin) {
            low = middle;
        } else {
            high = middle;
        }
    }
    for (; low < s->count && begin < end; low++) {
        const struct eng_move *move = &s->moves[low];
        int64_t last = move->first_unit + move->units;
        last = last < end ? last : end;
        base_assert(begin >= move->first_unit && begin < last);
        eng_move_run(move, &r->data, begin - move->first_unit, last - move->first_unit);
        begin = last;
    }
}

static void run_weave(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct raster_run *r = ctx;
    eng_move_weave_run(&r->state->weave, &r->data, begin, end);
}

static void clear_range(void *ctx, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    const struct raster_run *r = ctx;
    memset((uint8_t *)r->data.out + begin, 0, (size_t)(end - begin));
}

static enum base_status run_raster(const struct eng_step *step, const struct eng_run *run)
{
    const struct raster_state *s = step->state;
    struct raster_run r = {.state = s,
                           .data = {.kernels = s->kernels,
                                    .tensors = run->data,
                                    .out = run->data[step->command->outputs[0]],
                                    .elements = s->elements}};
    if (s->clear_bytes > 0) {
        eng_pool_for(run->pool, s->clear_bytes, ENG_CPU_GRAIN * 4, clear_range, &r);
    }
    if (s->weave.row_count > 0) {
        eng_pool_for(run->pool, s->weave.row_count, s->grain, run_weave, &r);
    } else {
        eng_pool_for(run->pool, s->units, s->grain, run_units, &r);
    }
    return BASE_OK;
}

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

// Whether dim a belongs outside dim b.
static bool is_outside(const struct eng_region *region, uint32_t left, uint32_t right)
{
    int64_t x = magnitude(region->dst_stride[left]);
    int64_t y = magnitude(region->dst_stride[right]);
    return x != y ? x > y
                  : magnitude(region->src_stride[left]) > magnitude(region->src_stride[right]);
}

static void swap_dims(struct eng_region *region, uint32_t left, uint32_t right)
{
    int64_t size = region->size[left];
    int64_t src = region->src_stride[left];
    int64_t dst = region->dst_stride[left];
    region->size[left] = region->size[right];
    region->src_stride[left] = region->src_stride[right];
    region->dst_stride[left] = region->dst_stride[right];
    region->size[right] = size;
    region->src_stride[right] = src;
    region->dst_stride[right] = dst;
}

static void remove_dim(struct eng_region *region, uint32_t dim)
{
    base_assert(dim < region->rank);
    region->rank--;
    for (; dim < region->rank; dim++) {
        swap_dims(region, dim, dim + 1);
    }
}

// Dims of size 1 go, the others are sorted by destination stride, neighbours that continue each
// other are merged.
static void normalise(struct eng_region *region)
{
    for (uint32_t d = region->rank; d-- > 0;) {
        if (region->size[d] == 1) {
            remove_dim(region, d);
        }
    }
    for (uint32_t i = 1; i < region->rank; i++) {
        for (uint32_t d = i; d > 0 && is_outside(region, d, d - 1); d--) {
            swap_dims(region, d, d - 1);
        }
    }
    for (uint32_t d = region->rank; d-- > 1;) {
        if (region->src_stride[d - 1] == region->src_stride[d] * region->size[d] &&
            region->dst_stride[d - 1] == region->dst_stride[d] * region->size[d]) {
            region->size[d] *= region->size[d - 1];
            remove_dim(region, d - 1);
        }
    }
}

static void take_outer(struct eng_move *move, const struct eng_region *region, uint32_t skip_a,
                       uint32_t skip_b)
{
    for (uint32_t d = 0; d < region->rank; d++) {
        if (d != skip_a && d != skip_b) {
            base_assert(move->rank < DIMS);
            move->size[move->rank] = region->size[d];
            move->src_stride[move->rank] = region->src_stride[d];
            move->dst_stride[move->rank++] = region->dst_stride[d];
        }
    }
}

// Short runs of 2, 4, 8 or 16 bytes that lie side by side and on multiples of themselves everywhere
// become one element.
static void coarsen(struct eng_move *move)
{
    int64_t bytes = move->n * (int64_t)move->bytes;
    if (move->kind != ENG_MOVE_COPY || move->rank == 0 || move->n == 1 ||
        (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16)) {
        return;
    }
    bool whole = move->src % move->n == 0 && move->dst % move->n == 0;
    for (uint32_t d = 0; d < move->rank; d++) {
        whole = whole && move->src_stride[d] % move->n == 0 && move->dst_stride[d] % move->n == 0;
    }
    if (!whole) {
        return;
    }
    struct eng_region r = {
        .rank = move->rank, .src_offset = move->src / move->n, .dst_offset = move->dst / move->n};
    for (uint32_t d = 0; d < move->rank; d++) {
        r.size[d] = move->size[d];
        r.src_stride[d] = move->src_stride[d] / move->n;
        r.dst_stride[d] = move->dst_stride[d] / move->n;
    }
    struct eng_move coarse = {.kind = ENG_MOVE_STRIDED,
                              .source = move->source,
                              .bytes = (uint32_t)bytes,
                              .src = r.src_offset,
                              .dst = r.dst_offset};
    base_assert(r.rank <= DIMS);
    uint32_t last = r.rank - 1;
    uint32_t next = r.rank > 1 ? last - 1 : DIMS;
    coarse.n = r.size[last];
    coarse.n_src = r.src_stride[last];
    coarse.n_dst = r.dst_stride[last];
    coarse.m = next == DIMS ? 1 : r.size[next];
    coarse.m_src = next == DIMS ? 0 : r.src_stride[next];
    coarse.m_dst = next == DIMS ? 0 : r.dst_stride[next];
    take_outer(&coarse, &r, last, next);
    *move = coarse;
}

// The dim whose source elements lie side by side, or DIMS.
static uint32_t source_run(const struct eng_region *region)
{
    for (uint32_t d = 0; d < region->rank; d++) {
        if (region->src_stride[d] == 1) {
            return d;
        }
    }
    return DIMS;
}

static void set_inner(struct eng_move *move, const struct eng_region *region, uint32_t inner,
                      uint32_t middle)
{
    move->n = region->size[inner];
    move->n_src = region->src_stride[inner];
    move->n_dst = region->dst_stride[inner];
    move->m = middle == DIMS ? 1 : region->size[middle];
    move->m_src = middle == DIMS ? 0 : region->src_stride[middle];
    move->m_dst = middle == DIMS ? 0 : region->dst_stride[middle];
    take_outer(move, region, inner, middle);
}

static struct eng_move classify(const struct eng_region *region, uint32_t bytes)
{
    base_assert(region->rank <= DIMS && bytes > 0);
    struct eng_move v = {.source = region->source,
                         .bytes = bytes,
                         .src = region->src_offset,
                         .dst = region->dst_offset,
                         .n = 1,
                         .n_src = 1,
                         .n_dst = 1,
                         .m = 1};
    if (region->rank == 0) {
        return v;
    }
    uint32_t last = region->rank - 1;
    uint32_t run = source_run(region);
    bool dense = region->dst_stride[last] == 1;
    bool crossed = dense && run < region->rank && run != last;
    if (dense && region->src_stride[last] <= 1 && region->src_stride[last] >= 0) {
        v.kind = region->src_stride[last] == 1 ? ENG_MOVE_COPY : ENG_MOVE_FILL;
        set_inner(&v, region, last, DIMS);
        coarsen(&v);
    } else if (crossed && bytes == sizeof(float) && region->size[last] <= 3 &&
               region->dst_stride[run] == region->size[last]) {
        v.kind = region->size[last] == 2 ? ENG_MOVE_ZIP2 : ENG_MOVE_ZIP3;
        set_inner(&v, region, run, last);
        v.source2 = v.source;
        v.src2 = v.src + v.m_src;
        memcpy(v.src2_stride, v.src_stride, sizeof v.src_stride);
    } else if (crossed && region->size[last] >= TRANSPOSE_MIN &&
               region->size[run] >= TRANSPOSE_MIN) {
        v.kind = ENG_MOVE_TRANSPOSE;
        set_inner(&v, region, run, last);
    } else {
        v.kind = ENG_MOVE_STRIDED;
        uint32_t other = region->rank > 1 ? last - 1 : DIMS;
        bool is_tiny =
            other != DIMS && region->size[last] < 8 && region->size[other] > region->size[last];
        set_inner(&v, region, is_tiny ? other : last, is_tiny ? last : other);
    }
    return v;
}

// Two strided runs into every other element each, one beside the other: an interleave.
static bool join_pair(struct eng_move *left, const struct eng_move *right)
{
    if (left->kind != ENG_MOVE_STRIDED || right->kind != ENG_MOVE_STRIDED ||
        left->bytes != sizeof(float) || right->bytes != left->bytes || left->rank != right->rank ||
        left->n != right->n || left->m != right->m || left->n_dst != 2 || right->n_dst != 2 ||
        left->n_src != 1 || right->n_src != 1 || left->m_dst != right->m_dst ||
        magnitude(left->dst - right->dst) != 1 || left->rank + 1 > DIMS) {
        return false;
    }
    for (uint32_t d = 0; d < left->rank; d++) {
        if (left->size[d] != right->size[d] || left->dst_stride[d] != right->dst_stride[d]) {
            return false;
        }
    }
    const struct eng_move *first = left->dst < right->dst ? left : right;
    const struct eng_move *second = first == left ? right : left;
    struct eng_move v = *first;
    v.kind = ENG_MOVE_ZIP2;
    v.source2 = second->source;
    v.src2 = second->src;
    memcpy(v.src2_stride, second->src_stride, sizeof v.src2_stride);
    v.n_dst = 2;
    if (v.m > 1) { // rows become an outer dim
        base_assert(v.rank < DIMS);
        v.size[v.rank] = v.m;
        v.src_stride[v.rank] = first->m_src;
        v.src2_stride[v.rank] = second->m_src;
        v.dst_stride[v.rank++] = v.m_dst;
    }
    v.m = 1;
    *left = v;
    return true;
}

static void set_units(struct eng_move *move)
{
    move->units = 1;
    for (uint32_t d = 0; d < move->rank; d++) {
        move->units *= move->size[d];
    }
    int64_t rows = move->kind == ENG_MOVE_ZIP2 ? 2 : move->m;
    int64_t most = PIECE / (rows < PIECE / 64 ? rows : PIECE / 64);
    move->pieces = (move->n + most - 1) / most;
    move->piece = (move->n + move->pieces - 1) / move->pieces;
    move->piece = move->pieces == 1 ? move->n : (move->piece + 15) / 16 * 16;
    move->pieces = (move->n + move->piece - 1) / move->piece;
    move->units *= move->pieces;
    base_assert(move->units > 0 && move->piece * (move->pieces - 1) < move->n);
}

// Runs of the only move, in order of the output and apart from each other: what they leave out can
// be cleared on the way.
static bool has_ordered_runs(const struct eng_move *move)
{
    int64_t extent = move->n;
    if (move->kind != ENG_MOVE_COPY || move->pieces != 1) {
        return false;
    }
    for (uint32_t d = move->rank; d-- > 0;) {
        if (move->dst_stride[d] < extent) {
            return false;
        }
        extent = move->dst_stride[d] * (move->size[d] - 1) + extent;
    }
    return true;
}

static bool is_plain_move(const struct eng_region *region)
{
    for (uint32_t d = 0; d < region->rank; d++) {
        if (region->dst_stride[d] == 0 && region->size[d] > 1) {
            return false;
        }
    }
    return !region->accumulate;
}

// Fills state->moves from the regions; *out_moved counts the elements they write.
static enum base_status make_moves(const struct eng_command *command, uint32_t bytes,
                                   struct eng_move *moves, uint32_t *out_count, int64_t *out_moved)
{
    uint32_t count = 0;
    int64_t moved = 0;
    for (uint32_t i = 0; i < command->u.raster.count; i++) {
        struct eng_region r = command->u.raster.regions[i];
        int64_t elements = 1;
        for (uint32_t d = 0; d < r.rank; d++) {
            elements *= r.size[d];
        }
        if (elements <= 0) {
            continue;
        }
        if (!is_plain_move(&r)) {
            return BASE_ERR_UNSUPPORTED;
        }
        moved += elements;
        normalise(&r);
        base_assert(count <= i); // a move of its own for each region at most
        moves[count] = classify(&r, bytes);
        bool joined = false;
        for (uint32_t k = 1; k <= PAIR_WINDOW && k <= count && !joined; k++) {
            joined = join_pair(&moves[count - k], &moves[count]);
        }
        count += !joined;
    }
    *out_count = count;
    *out_moved = moved;
    return BASE_OK;
}

// Several regions of which some leave gaps for others: a weave, if they fill rows together.
static enum base_status try_weave(const struct eng_prepare *ctx, const struct eng_command *command,
                                  uint32_t bytes, struct raster_state *raster_state)
{
    struct eng_region regions[ENG_VEC_WEAVE_SOURCES_MAX];
    uint32_t count = command->u.raster.count;
    bool is_strided = false;
    base_assert(raster_state->count == 0); // it is woven or moved
    if (bytes != sizeof(float) || count < 2 || count > ENG_VEC_WEAVE_SOURCES_MAX) {
        return BASE_ERR_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < count; i++) {
        regions[i] = command->u.raster.regions[i];
        for (uint32_t d = 0; d < regions[i].rank; d++) {
            if (regions[i].size[d] <= 0) {
                return BASE_ERR_UNSUPPORTED;
            }
        }
        normalise(&regions[i]);
        uint32_t rank = regions[i].rank;
        if (rank == 0 || !is_plain_move(&regions[i])) {
            return BASE_ERR_UNSUPPORTED;
        }
        is_strided = is_strided || regions[i].dst_stride[rank - 1] > 1;
    }
    return is_strided ? eng_move_weave_init(ctx->arena, raster_state->kernels, regions, count,
                                            &raster_state->weave)
                      : BASE_ERR_UNSUPPORTED;
}

static void finish(const struct eng_command *command, struct raster_state *raster_state,
                   struct eng_step *out_step)
{
    out_step->run = run_raster;
    out_step->state = raster_state;
    out_step->kernel = raster_state->kernels->names[command->op];
}

enum base_status eng_cpu_prepare_raster(const struct eng_prepare *ctx,
                                        const struct eng_program *program,
                                        const struct eng_command *command,
                                        struct eng_step *out_step)
{
    const struct eng_desc *desc = &program->tensors[command->outputs[0]].desc;
    uint32_t bytes = (uint32_t)eng_dtype_bytes(desc->dtype);
    struct raster_state *s = base_arena_zalloc(ctx->arena, sizeof *s);
    struct eng_move *moves =
        base_arena_alloc(ctx->arena, (command->u.raster.count + 1) * sizeof *moves);
    if (s == NULL || moves == NULL) {
        return BASE_ERR_NOMEM;
    }
    int64_t moved = 0;
    s->kernels = ctx->kernels->vec;
    enum base_status status = try_weave(ctx, command, bytes, s);
    if (status != BASE_ERR_UNSUPPORTED) {
        int64_t woven = s->weave.row_count * s->weave.rows.columns;
        bool leaves = command->u.raster.zero_fill && woven < eng_desc_count(desc);
        s->clear_bytes = leaves ? (int64_t)eng_desc_bytes(desc) : 0;
        s->grain = ENG_CPU_GRAIN / 2 / (s->weave.rows.columns + 1);
        finish(command, s, out_step);
        return status;
    }
    BASE_TRY(make_moves(command, bytes, moves, &s->count, &moved));
    for (uint32_t i = 0; i < s->count; i++) {
        set_units(&moves[i]);
        moves[i].first_unit = s->units;
        s->units += moves[i].units;
    }
    s->moves = moves;
    s->elements = eng_desc_count(desc);
    if (command->u.raster.zero_fill && moved < s->elements) {
        if (s->count == 1 && has_ordered_runs(&moves[0])) {
            moves[0].gaps = true;
        } else {
            s->clear_bytes = s->elements * (int64_t)bytes;
        }
    }
    base_assert(s->count <= command->u.raster.count);
    int64_t per_unit = s->units > 0 ? moved / s->units + 1 : 1;
    s->grain = ENG_CPU_GRAIN / per_unit;
    finish(command, s, out_step);
    return BASE_OK;
}

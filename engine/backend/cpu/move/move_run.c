// Executes prepared moves. Called by move_raster.c on the pool's threads; every function works on
// one unit of a move, and units may be done in any order. Elements are moved by their size alone
// (1, 2, 4, 8 bytes), whatever their type, and may lie unaligned. Apart from move_raster.c because
// that decides and this runs: what is here has no choice left but the loop of its kind of move.
#include "backend/cpu/move/move_run.h"

#include "base/check.h"

#include <string.h>

#define BLOCK 16 // edge of the blocks of a transpose without a vector kernel

// Elements by size alone. Unaligned ones are as good as aligned ones, whatever their type.
typedef uint8_t __attribute__((may_alias)) item_1;
typedef uint16_t __attribute__((aligned(1), may_alias)) item_2;
typedef uint32_t __attribute__((aligned(1), may_alias)) item_4;
typedef uint64_t __attribute__((aligned(1), may_alias)) item_8;
struct __attribute__((packed, may_alias)) item_pair {
    uint64_t low, high;
};
typedef struct item_pair item_16;

#define MOVE_LOOPS(size)                                                                           \
    static void fill_##size(const void *src, void *dst, int64_t n)                                 \
    {                                                                                              \
        item_##size *to = dst;                                                                     \
        item_##size value = *(const item_##size *)src;                                             \
        for (int64_t i = 0; i < n; i++) {                                                          \
            to[i] = value;                                                                         \
        }                                                                                          \
    }                                                                                              \
    static void strided_##size(const struct eng_move *v, const void *src, void *dst, int64_t n)    \
    {                                                                                              \
        for (int64_t r = 0; r < v->m; r++) {                                                       \
            const item_##size *from = (const item_##size *)src + r * v->m_src;                     \
            item_##size *to = (item_##size *)dst + r * v->m_dst;                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                to[i * v->n_dst] = from[i * v->n_src];                                             \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void transpose_##size(const struct eng_move *v, const void *src, void *dst, int64_t n)  \
    {                                                                                              \
        const item_##size *from = src;                                                             \
        item_##size *to = dst;                                                                     \
        for (int64_t c0 = 0; c0 < n; c0 += BLOCK) {                                                \
            int64_t c1 = c0 + BLOCK < n ? c0 + BLOCK : n;                                          \
            for (int64_t r0 = 0; r0 < v->m; r0 += BLOCK) {                                         \
                int64_t r1 = r0 + BLOCK < v->m ? r0 + BLOCK : v->m;                                \
                for (int64_t c = c0; c < c1; c++) {                                                \
                    for (int64_t r = r0; r < r1; r++) {                                            \
                        to[c * v->n_dst + r] = from[r * v->m_src + c];                             \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

MOVE_LOOPS(1)
MOVE_LOOPS(2)
MOVE_LOOPS(4)
MOVE_LOOPS(8)
MOVE_LOOPS(16)

// Calls NAME_size for the element size of `v`.
#define BY_SIZE(v, name, ...)                                                                      \
    switch ((v)->bytes) {                                                                          \
    case 1:                                                                                        \
        name##_1(__VA_ARGS__);                                                                     \
        break;                                                                                     \
    case 2:                                                                                        \
        name##_2(__VA_ARGS__);                                                                     \
        break;                                                                                     \
    case 4:                                                                                        \
        name##_4(__VA_ARGS__);                                                                     \
        break;                                                                                     \
    case 8:                                                                                        \
        name##_8(__VA_ARGS__);                                                                     \
        break;                                                                                     \
    default:                                                                                       \
        name##_16(__VA_ARGS__);                                                                    \
        break;                                                                                     \
    }

// Short runs are common and not worth a call.
static inline void copy_bytes(uint8_t *to, const uint8_t *from, size_t size)
{
    switch (size) {
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    default:
        memcpy(to, from, size);
        break;
    }
}

// Where one unit lies.
struct unit {
    const uint8_t *from, *from2; // from2: the other run of a ZIP2
    uint8_t *to;
    int64_t n; // elements, of each run
};

static void move_unit(const struct eng_move *move, const struct eng_vec_kernels *kernels,
                      const struct unit *unit)
{
    base_assert(unit->n > 0);
    const uint8_t *from = unit->from, *from2 = unit->from2;
    uint8_t *to = unit->to;
    const int64_t n = unit->n;
    switch (move->kind) {
    case ENG_MOVE_COPY:
        if (to != from) {
            copy_bytes(to, from, (size_t)n * move->bytes);
        }
        break;
    case ENG_MOVE_FILL:
        BY_SIZE(move, fill, from, to, n);
        break;
    case ENG_MOVE_TRANSPOSE:
        if (move->bytes == sizeof(float)) {
            kernels->transpose((const float *)(const void *)from, move->m_src, (float *)(void *)to,
                               move->n_dst, move->m, n);
        } else {
            BY_SIZE(move, transpose, move, from, to, n);
        }
        break;
    case ENG_MOVE_ZIP2:
        kernels->zip2((const float *)(const void *)from, (const float *)(const void *)from2,
                      (float *)(void *)to, n);
        break;
    case ENG_MOVE_ZIP3:
        kernels->zip3((const float *)(const void *)from,
                      (const float *)(const void *)from + move->m_src,
                      (const float *)(const void *)from + 2 * move->m_src, (float *)(void *)to, n);
        break;
    case ENG_MOVE_STRIDED:
        if (move->bytes == sizeof(float) && move->n_src == 2 && move->n_dst == 1) {
            for (int64_t r = 0; r < move->m; r++) {
                kernels->unzip2((const float *)(const void *)from + r * move->m_src,
                                (float *)(void *)to + r * move->m_dst, n);
            }
        } else {
            BY_SIZE(move, strided, move, from, to, n);
        }
        break;
    }
}

// Clears the output between the run before this one and this one.
static void clear_gap(const struct eng_move *move, uint8_t *out, int64_t unit, int64_t to)
{
    int64_t before = 0;
    if (unit > 0) {
        int64_t rest = unit - 1;
        before = move->dst + move->n;
        for (uint32_t d = move->rank; d-- > 0;) {
            before += rest % move->size[d] * move->dst_stride[d];
            rest /= move->size[d];
        }
    }
    base_assert(before <= to); // runs are in order
    memset(out + before * move->bytes, 0, (size_t)(to - before) * move->bytes);
}

struct cursor {
    int64_t index[ENG_REGION_RANK_MAX];
    int64_t from, from2, to;
};

static void cursor_set(struct cursor *at, const struct eng_move *move, int64_t position)
{
    *at = (struct cursor){.from = move->src, .from2 = move->src2, .to = move->dst};
    for (uint32_t d = move->rank; d-- > 0;) {
        at->index[d] = position % move->size[d];
        position /= move->size[d];
        at->from += at->index[d] * move->src_stride[d];
        at->from2 += at->index[d] * move->src2_stride[d];
        at->to += at->index[d] * move->dst_stride[d];
    }
}

static inline void cursor_next(struct cursor *at, const struct eng_move *move)
{
    for (uint32_t d = move->rank; d-- > 0;) {
        at->from += move->src_stride[d];
        at->from2 += move->src2_stride[d];
        at->to += move->dst_stride[d];
        if (++at->index[d] < move->size[d]) {
            return;
        }
        at->from -= move->src_stride[d] * move->size[d];
        at->from2 -= move->src2_stride[d] * move->size[d];
        at->to -= move->dst_stride[d] * move->size[d];
        at->index[d] = 0;
    }
}

void eng_move_run(const struct eng_move *move, const struct eng_move_data *data, int64_t begin,
                  int64_t end)
{
    base_assert(begin >= 0 && begin < end && end <= move->units);
    base_assert(!move->gaps || (move->kind == ENG_MOVE_COPY && move->pieces == 1));
    const struct eng_vec_kernels *kernels = data->kernels;
    const uint8_t *source = data->tensors[move->source];
    const uint8_t *source2 = move->kind == ENG_MOVE_ZIP2 ? data->tensors[move->source2] : source;
    uint8_t *target = data->out;
    int64_t bytes = move->bytes;
    int64_t piece = begin % move->pieces;
    struct cursor at;
    cursor_set(&at, move, begin / move->pieces);
    for (int64_t u = begin; u < end; u++) {
        int64_t done = piece * move->piece;
        int64_t n = move->n - done < move->piece ? move->n - done : move->piece;
        const uint8_t *from = source + (at.from + done * move->n_src) * bytes;
        const uint8_t *from2 = source2 + (at.from2 + done * move->n_src) * bytes;
        if (move->gaps) {
            clear_gap(move, target, u, at.to);
        }
        const struct unit unit = {from, from2, target + (at.to + done * move->n_dst) * bytes, n};
        move_unit(move, kernels, &unit);
        if (move->gaps && u + 1 == move->units) {
            const int64_t behind = at.to + n;
            base_assert(behind <= data->elements);
            memset(target + behind * bytes, 0, (size_t)(data->elements - behind) * move->bytes);
        }
        if (++piece == move->pieces) {
            piece = 0;
            cursor_next(&at, move);
        }
    }
}

// What the handlers of moving, indexing and content operators share: boxes of more dimensions than
// a region holds, index arithmetic on I64 tensors, rows of the tables.
#ifndef ENG_LOWER_OPS_MOVE_KIT_H
#define ENG_LOWER_OPS_MOVE_KIT_H

#include "lower/op_tables.h"

#define ENG_OP_ROW(name, first, last, kind, fn)                                                    \
    {                                                                                              \
        "", name, first, last, ENG_KIND_##kind, fn                                                 \
    }
#define ENG_OP_TABLE(rows)                                                                         \
    {                                                                                              \
        rows, sizeof(rows) / sizeof((rows)[0])                                                     \
    }

// A region before its dimensions are collapsed: any size may be 0 (nothing moves) or 1.
#define ENG_MAP_RANK_MAX (2 * ENG_RANK_MAX)
struct eng_map {
    uint32_t source; // a PLAIN tensor (eng_lower_plain), virtual or not
    uint32_t rank;
    int64_t src_offset, dst_offset;
    int64_t size[ENG_MAP_RANK_MAX];
    int64_t src_stride[ENG_MAP_RANK_MAX];
    int64_t dst_stride[ENG_MAP_RANK_MAX];
};

// Regions collected for one virtual tensor, in the program's arena.
struct eng_maps {
    struct eng_lower *l;
    struct eng_region *regions;
    uint32_t count, capacity;
};

// Appends a box: collapses its dimensions and cuts it where a region has too few. LIMIT: over
// ENG_REGIONS_MAX regions. NOMEM.
BASE_NODISCARD enum base_status eng_maps_add(struct eng_maps *maps, const struct eng_map *map);
// The virtual tensor of the regions collected; what none of them writes is zero.
BASE_NODISCARD enum base_status eng_maps_finish(const struct eng_maps *maps,
                                                const struct eng_desc *desc, uint32_t *out);
// Sets rank, sizes and both strides for a box of `desc` dims of a tensor onto itself.
void eng_map_init(struct eng_map *map, uint32_t source, const struct eng_desc *desc);

// Product of dims[begin..end).
int64_t eng_dims_product(const int64_t *dims, uint32_t begin, uint32_t end);
// Description with the dims of a list; rank is count. count <= ENG_RANK_MAX.
struct eng_desc eng_desc_of(enum eng_dtype dtype, const int64_t *dims, uint32_t count);

// Fails with the node's name when a shape computed here is over the limits.
BASE_NODISCARD enum base_status eng_desc_allow(struct eng_lower *lower, const struct eng_node *node,
                                               const struct eng_desc *desc);

// Input i, made PLAIN, with a copy of its description.
BASE_NODISCARD enum base_status eng_input_plain(struct eng_lower *lower,
                                                const struct eng_node *node, uint32_t input,
                                                uint32_t *out, struct eng_desc *out_desc);
// The only number of a known integer input (shape [] or one element).
BASE_NODISCARD enum base_status eng_input_int(struct eng_lower *lower, const struct eng_node *node,
                                              uint32_t input, int64_t *out);
// Contents of input i. BUSY as eng_lower_content.
BASE_NODISCARD enum base_status eng_input_content(struct eng_lower *lower,
                                                  const struct eng_node *node, uint32_t input,
                                                  struct eng_array *out);
// Input i, an index tensor: INVALID unless I32 or I64; cast to I64.
BASE_NODISCARD enum base_status eng_input_index(struct eng_lower *lower,
                                                const struct eng_node *node, uint32_t input,
                                                uint32_t *out);
// Binds output 0 to a reshaped tensor: the end of most transforms.
BASE_NODISCARD enum base_status eng_output_reshaped(struct eng_lower *lower,
                                                    const struct eng_node *node, uint32_t tensor,
                                                    const struct eng_desc *desc);

// I64 tensors: a scalar, and `count` numbers from 0 on in steps of `step` along dim `axis` of a
// tensor of `rank` dims (1 elsewhere).
struct eng_steps {
    int64_t count, step;
};
BASE_NODISCARD enum base_status eng_const_int(struct eng_lower *lower, int64_t value,
                                              uint32_t *out);
BASE_NODISCARD enum base_status eng_const_steps(struct eng_lower *lower, uint32_t rank,
                                                uint32_t axis, struct eng_steps steps,
                                                uint32_t *out);
// Index tensor with negative numbers counted from the end: input < 0 ? input + count : input.
// `count` broadcasts.
BASE_NODISCARD enum base_status eng_index_wrap(struct eng_lower *lower, uint32_t input,
                                               uint32_t count, uint32_t *out);

// Element `index` of known numeric contents as double; 0 for strings and complex numbers.
double eng_content_real(const struct eng_array *array, int64_t index);
#endif

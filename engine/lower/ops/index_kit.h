// Index tensors that address elements: coordinates become row numbers by arithmetic that is
// emitted, so that contents need not be known.
#ifndef ENG_LOWER_OPS_INDEX_KIT_H
#define ENG_LOWER_OPS_INDEX_KIT_H

#include "lower/ops/move_kit.h"

// Whether an index tensor of GatherElements or ScatterElements suits the data: equal ranks, other
// dimensions than `axis` no longer than the data's.
BASE_NODISCARD enum base_status eng_index_fits(struct eng_lower *lower, const struct eng_node *node,
                                               const struct eng_desc *data,
                                               const struct eng_desc *index, uint32_t axis);

// Sees to it that coordinates `indices`, I64 [i..., depth], are checked against the dims in
// `coords`: known ones here and now (INVALID naming the first that is outside), others when they
// are used: `coords` is then for the command that does, with `indices` as its last input. Its depth
// becomes 0 when nothing is left to check.
BASE_NODISCARD enum base_status eng_index_coords(struct eng_lower *lower,
                                                 const struct eng_node *node, uint32_t indices,
                                                 struct eng_coords *coords);
// Coordinates into `depth` dims.
struct eng_coords eng_coords_of(const int64_t *dims, uint32_t depth);

// Whether indices [i..., k] are coordinates into dims [batch, batch + k) of the data, the first
// `batch` dims of both going together. INVALID naming both.
BASE_NODISCARD enum base_status eng_index_rows_fit(struct eng_lower *lower,
                                                   const struct eng_node *node,
                                                   const struct eng_desc *data,
                                                   const struct eng_desc *index, uint32_t batch);
// Such `indices`, I64, as numbers of rows of the data seen as [product of dims 0 to batch + k,
// rest]: *out is I64 [i...].
BASE_NODISCARD enum base_status eng_index_rows(struct eng_lower *lower, const struct eng_desc *data,
                                               uint32_t indices, uint32_t batch, uint32_t *out);

// `indices`, I64, replace coordinate `axis` of their own position: *out holds the row-major
// element numbers in data, shape of the indices.
BASE_NODISCARD enum base_status eng_index_elements(struct eng_lower *lower,
                                                   const struct eng_desc *data, uint32_t indices,
                                                   uint32_t axis, uint32_t *out);
#endif

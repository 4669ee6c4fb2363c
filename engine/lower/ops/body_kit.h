// Running a subgraph again and again: what Loop and Scan share. Iterations are lowered in place as
// long as that stays small; then each becomes a call on known contents.
#ifndef ENG_LOWER_OPS_BODY_KIT_H
#define ENG_LOWER_OPS_BODY_KIT_H

#include "lower/ops/move_kit.h"

// Nodes lowered in place for one Loop or Scan before its iterations become calls.
#define ENG_UNROLL_NODES_MAX 4096u
// Most iterations of one Loop or Scan.
#define ENG_TRIPS_MAX ((int64_t)1 << 18)

struct eng_body {
    struct eng_lower *l;
    const struct eng_node *node;
    const struct eng_graph *graph;
    struct eng_slot *in, *out; // of the graph's inputs and outputs
    uint64_t spent;            // nodes lowered so far
};

// Finds attribute "body" and checks its ports: exactly `inputs`, at least `outputs`. INVALID.
BASE_NODISCARD enum base_status eng_body_init(struct eng_body *body, struct eng_lower *lower,
                                              const struct eng_node *node, uint32_t inputs,
                                              uint32_t outputs);
// One iteration from body->in to body->out.
BASE_NODISCARD enum base_status eng_body_step(struct eng_body *body);

// Tensors one iteration after another gave for one output.
struct eng_pile {
    uint32_t *items;
    uint32_t count, capacity;
};
BASE_NODISCARD enum base_status eng_pile_add(struct eng_body *body, struct eng_pile *pile,
                                             uint32_t tensor);
// The last tensor first.
void eng_pile_reverse(struct eng_pile *pile);
// Output `output` of the body for all iterations: stacked along a new dimension `axis` (from the
// end when negative). Without iterations: an empty tensor of the declared type.
BASE_NODISCARD enum base_status eng_pile_stack(struct eng_body *body, const struct eng_pile *pile,
                                               uint32_t output, int64_t axis, uint32_t *out);

// Item `index` along `axis`, which disappears.
BASE_NODISCARD enum base_status eng_take_item(struct eng_lower *lower, uint32_t tensor,
                                              uint32_t axis, int64_t index, uint32_t *out);
// Tensors of one shape, one at least, stacked along a new dimension `axis`. INVALID when they
// differ.
BASE_NODISCARD enum base_status eng_stack_items(struct eng_lower *lower,
                                                const struct eng_node *node,
                                                const struct eng_pile *pile, uint32_t axis,
                                                uint32_t *out);
#endif

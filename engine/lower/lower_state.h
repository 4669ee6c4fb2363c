// What lowering keeps between calls, and the helpers its files share. Nobody outside lower*.c and
// emit*.c includes this.
#ifndef ENG_LOWER_STATE_H
#define ENG_LOWER_STATE_H

#include "base/check.h"
#include "lower/lower.h"
#include "program/region.h"

// Results above this many bytes are not folded ahead of need.
#define ENG_FOLD_BYTES_MAX ((size_t)64 << 20)
// Virtual results of constants above this stay virtual (whoever reads them may not need a copy).
#define ENG_FOLD_VIRTUAL_MAX ((size_t)64 << 10)
// Most pairs of regions one merge looks at before it makes the source real.
#define ENG_MERGE_PAIRS_MAX 65536u
// A source of more regions is made real instead of read through: what keeps a long chain of
// concatenations from growing with its square.
#define ENG_MERGE_REGIONS_MAX 64u
#define ENG_WANTED_MAX        65536u

// Bindings of one graph's values; subgraphs lowered in place have their own.
struct eng_scope {
    const struct eng_graph *graph;
    struct eng_slot *slots; // type UNKNOWN: not bound
};

// What lowering knows of a tensor beyond the program.
struct eng_note {
    uint32_t producer;          // command that writes it, ENG_NONE
    uint32_t real, plain, last; // the same tensor made real / PLAIN / CHANNELS_LAST, ENG_NONE
    uint32_t stamp, mapped;     // marks of the walk with that number
    const void *content;        // dense PLAIN elements, NULL: not known
    bool foldable;              // depends on nothing but constants
};

struct eng_merge_entry {
    uint64_t hash;
    uint32_t tensor;
    uint32_t next; // entry of the same bucket, ENG_NONE
};

// What an undo has to take back besides tensors and commands.
enum eng_change_kind { ENG_CHANGE_REAL, ENG_CHANGE_PLAIN, ENG_CHANGE_LAST, ENG_CHANGE_SLOT };
struct eng_change {
    enum eng_change_kind kind;
    uint32_t index; // tensor or value
    struct eng_scope *scope;
};

struct eng_mark {
    uint32_t tensors, commands, changes, merges;
};

struct eng_list {
    uint32_t *items;
    uint32_t count, capacity;
};

struct eng_lower {
    struct base_arena *arena; // of lowering and of what the program keeps
    struct eng_program *program;
    const struct eng_lower_options *options;
    struct base_error *error;
    struct eng_scope root;
    struct eng_scope *scope;     // the one handlers see
    const struct eng_node *node; // being lowered, NULL between nodes
    uint32_t node_index;         // of the outermost graph, for commands
    uint32_t depth;
    bool closed;            // a call: everything is known, nothing is folded ahead of need
    struct eng_mark top;    // before the outermost node
    struct eng_note *notes; // by tensor
    uint32_t note_capacity;
    uint32_t stamp;
    struct eng_change *changes;
    uint32_t change_count, change_capacity;
    struct eng_merge_entry *merges;
    uint32_t merge_count, merge_capacity;
    uint32_t *merge_buckets;    // ENG_MERGE_BUCKETS
    struct eng_region *regions; // being collected
    uint32_t region_count, region_capacity;
    struct eng_list wanted;
    struct eng_list work; // stack of walks
};
#define ENG_MERGE_BUCKETS 4096u

static inline struct eng_tensor *tensor_of(const struct eng_lower *lower, uint32_t tensor)
{
    base_assert(tensor < lower->program->tensor_count);
    return &lower->program->tensors[tensor];
}

// lower.c
BASE_NODISCARD enum base_status eng_lower_grow(struct eng_lower *lower, void **items,
                                               uint32_t count, uint32_t *capacity,
                                               size_t item_bytes);
BASE_NODISCARD enum base_status eng_list_add(struct eng_lower *lower, struct eng_list *list,
                                             uint32_t item);
BASE_NODISCARD enum base_status eng_lower_change(struct eng_lower *lower, enum eng_change_kind kind,
                                                 uint32_t index, struct eng_scope *scope);
struct eng_mark eng_lower_mark(const struct eng_lower *lower);
void eng_lower_undo(struct eng_lower *lower, const struct eng_mark *mark);
// A tensor with its note. The description is checked here: INVALID or OVERFLOW with a text.
BASE_NODISCARD enum base_status eng_lower_tensor(struct eng_lower *lower, enum eng_tensor_kind kind,
                                                 enum eng_layout layout,
                                                 const struct eng_desc *desc, uint32_t *out);
// A CONST over bytes that stay.
BASE_NODISCARD enum base_status eng_lower_known(struct eng_lower *lower,
                                                const struct eng_desc *desc, const void *data,
                                                const void *identity, uint32_t *out);
// Slot of a value of the current scope, initializers bound on first use; NULL: not bound.
BASE_NODISCARD enum base_status eng_lower_find(struct eng_lower *lower, struct eng_scope *scope,
                                               uint32_t value, struct eng_slot **out);
BASE_NODISCARD enum base_status eng_lower_set(struct eng_lower *lower, struct eng_scope *scope,
                                              uint32_t value, const struct eng_slot *slot);
// Lowers one node of the current scope, folds what can be.
BASE_NODISCARD enum base_status eng_lower_node(struct eng_lower *lower,
                                               const struct eng_node *node);

// lower_fold.c
// Adds to the list of wanted tensors, once.
BASE_NODISCARD enum base_status eng_lower_want(struct eng_lower *lower, uint32_t tensor);
// Evaluates tensors (foldable, PLAIN) at once; fills arrays with arena memory.
BASE_NODISCARD enum base_status eng_lower_evaluate(struct eng_lower *lower, const uint32_t *tensors,
                                                   uint32_t count, struct eng_array *out);
// After a node: turns what its outputs are into constants where that is possible and worth it.
BASE_NODISCARD enum base_status eng_lower_fold(struct eng_lower *lower, const struct eng_node *node,
                                               const struct eng_mark *before);

// lower_virtual.c: a virtual tensor is begun, gets its regions one by one, and is ended. One at a
// time. Elements no region writes are zero.
struct eng_move {
    struct eng_desc desc;
    int64_t elements;
    uint32_t pairs; // of regions looked at for merging
};
BASE_NODISCARD enum base_status eng_lower_begin(struct eng_lower *lower,
                                                const struct eng_desc *desc, struct eng_move *out);
BASE_NODISCARD enum base_status eng_lower_add(struct eng_lower *lower, struct eng_move *move,
                                              const struct eng_wide *region);
BASE_NODISCARD enum base_status eng_lower_end(struct eng_lower *lower, const struct eng_move *move,
                                              enum eng_layout layout, uint32_t *out);
// All three for one region.
BASE_NODISCARD enum base_status eng_lower_move(struct eng_lower *lower, const struct eng_desc *desc,
                                               enum eng_layout layout, const struct eng_wide *wide,
                                               uint32_t *out);
// The layout it would cost least to have the tensor in.
enum eng_layout eng_lower_natural(const struct eng_lower *lower, uint32_t tensor);
// Real in `layout` (rank 3 to 5 for CHANNELS_LAST), aliases resolved when `root` is set: for
// commands whose parameters hold all there is to know of the shape.
BASE_NODISCARD enum base_status eng_lower_as(struct eng_lower *lower, uint32_t tensor,
                                             enum eng_layout layout, bool root, uint32_t *out);

// emit.c
// Appends a command of the current node, with the outputs' notes set. Its inputs are real; lists of
// inputs and outputs are copied, the node's number is filled in.
BASE_NODISCARD enum base_status eng_emit_command(struct eng_lower *lower,
                                                 const struct eng_command *command);

#endif
